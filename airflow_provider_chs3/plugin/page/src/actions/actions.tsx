// The actions that make sense for a month and that Airflow lets the user take, and what came of the last one.
import { Button, Flex, Stack } from "@chakra-ui/react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ask } from "../api/client";
import { useRights } from "../api/queries";
import type { MonthDetails, MonthRow } from "../api/types";
import type { TableRow } from "../model/fleet";
import { NEEDS_PERSON } from "../model/states";
import { RunLink } from "../ui/links";
import { Faint, Note } from "../ui/parts";
import { useAddress } from "../ui/url";
import { outcome, runPath, type Run } from "./airflow";
import { Confirm } from "./confirm";
import { isKind, KINDS, obstacle, type Kind } from "./kinds";

const POLL_MILLISECONDS = 3_000;
// Longer than the server keeps an answer about months.
const SETTLE_MILLISECONDS = 6_000;

interface Props {
  table: TableRow;
  month: MonthRow;
  details: MonthDetails | null;
}

export interface Started {
  kind: Kind;
  run: Run;
  publishedBefore: string;
}

export function Actions({ table, month }: Props) {
  const { params, change } = useAddress();
  const { data: rights, error } = useRights(month.task?.dag_id);
  const [started, setStarted] = useState<Started | null>(null);
  if (!rights) {
    return error ? <Faint>{error.message}</Faint> : null;
  }
  const wanted = (Object.keys(KINDS) as Kind[]).filter((kind) => KINDS[kind].isFor(month));
  const reasons = new Set(wanted.map((kind) => obstacle(kind, rights)).filter(Boolean));
  if (month.published_at && !month.task) {
    reasons.add("You cannot reload this month from here: the task that loaded it is unknown, or you may not see it.");
  }
  const offered = wanted.filter((kind) => !obstacle(kind, rights));
  const asked = params.get("act");
  if (!offered.length && !reasons.size && !started) {
    return null;
  }
  // Loud only where it is the way out.
  const helps = NEEDS_PERSON.has(month.state) && !month.statement;
  const close = () => { change({ act: null }, { replace: true }); };
  return (
    <Stack gap={2} mt={4} role="group" aria-label={`Actions on ${month.month}`}>
      {started ? <Outcome started={started} month={month} /> : null}
      <Flex gap={2} wrap="wrap">
        {offered.map((kind, index) => (
          <Button key={kind} size="sm" variant={helps && !index ? "solid" : "outline"} colorPalette={helps && !index ? "brand" : undefined}
            onClick={() => { change({ act: kind }, { replace: true }); }}>{KINDS[kind].verb}…</Button>
        ))}
      </Flex>
      {[...reasons].map((reason) => <Faint key={reason}>{reason}</Faint>)}
      {isKind(asked) && offered.includes(asked)
        ? <Confirm kind={asked} subject={{ table, month, rights }} close={close}
          onStarted={(run) => { setStarted({ kind: asked, run, publishedBefore: month.published_at }); }} />
        : null}
    </Stack>
  );
}

function Outcome({ started: { kind, run, publishedBefore }, month }: { started: Started; month: MonthRow }) {
  const { data } = useQuery({
    queryKey: ["run", run.dag_id, run.dag_run_id],
    queryFn: () => ask<Run>(runPath(run.dag_id, run.dag_run_id)),
    initialData: run,
    refetchInterval: ({ state }) => (["success", "failed"].includes(state.data?.state ?? "") ? false : POLL_MILLISECONDS),
  });
  const client = useQueryClient();
  // The month that is shown may be older than the end of the run.
  const { data: isSettled = false } = useQuery({
    queryKey: ["settled", run.dag_id, run.dag_run_id],
    enabled: data.state === "success",
    staleTime: Infinity,
    queryFn: async () => {
      await new Promise((resolve) => { setTimeout(resolve, SETTLE_MILLISECONDS); });
      await client.refetchQueries({ queryKey: ["months"] });
      return true;
    },
  });
  const found = kind === "reload" ? outcome(data, publishedBefore, month, isSettled)
    : { isOver: data.state === "success" || data.state === "failed", isGood: data.state !== "failed", text: `The run is ${data.state ?? "queued"}.` };
  const status = !found.isOver ? "info" : found.isGood ? "success" : "warning";
  return <Note status={status} title={KINDS[kind].verb}>{found.text} <RunLink dagId={run.dag_id} runId={run.dag_run_id} /></Note>;
}
