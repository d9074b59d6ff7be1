// The actions that make sense for a period and that Airflow lets the user take, and what came of the last one.
import { Button, Flex, Stack, Text } from "@chakra-ui/react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ask } from "../api/client";
import { useRights } from "../api/queries";
import { runPath } from "../api/runs";
import type { PeriodRow, Rights } from "../api/types";
import type { TableRow } from "../model/fleet";
import { nameOf } from "../model/fleet";
import { count } from "../model/format";
import { namesOf } from "../model/needs";
import { nameOfPeriod } from "../model/period";
import { NEEDS_PERSON } from "../model/states";
import { RunLink } from "../ui/links";
import { Faint, Note } from "../ui/parts";
import { RunFailure } from "../ui/run-failure";
import { NO_PERIOD, useAddress } from "../ui/url";
import { outcome, runText, type Run } from "./airflow";
import { Confirm } from "./confirm";
import { isKind, kindsFor, KINDS, obstacle, type Kind } from "./kinds";

const POLL_MILLISECONDS = 3_000;
// Longer than the server keeps an answer about periods.
const SETTLE_MILLISECONDS = 6_000;

interface Props {
  table: TableRow;
  period: PeriodRow;
}

interface Began {
  kind: Kind;
  run: Run;
  publishedBefore: string;
}

const startedKey = (table: TableRow, { period }: PeriodRow) => ["started", table.key, period];

// The last run that was started for a period. It outlives the panel, which may be closed while the run is active.
function useStarted({ table, period }: Props) {
  return useQuery<Began | null>({ queryKey: startedKey(table, period), queryFn: () => null, enabled: false, initialData: null }).data;
}

const offeredFor = (periods: readonly PeriodRow[], rights: Rights) => kindsFor(periods).filter((kind) => !obstacle(kind, rights));

function obstaclesFor(period: PeriodRow, rights: Rights, owner: string | undefined): Set<string> {
  const found = new Set(kindsFor([period]).map((kind) => obstacle(kind, rights, owner)).filter(Boolean));
  if (period.published_at && !period.task && period.state !== "gone") {
    found.add("You cannot reload this period from here: the task that loaded it is unknown, or you may not see it.");
  }
  return found;
}

export function Actions({ table, period, owner, isInVain }: Props & { owner: string | undefined; isInVain: boolean }) {
  const { change } = useAddress();
  const { data: rights, error } = useRights(period.task?.dag_id);
  const started = useStarted({ table, period });
  if (!rights) {
    return error ? <Faint>{error.message}</Faint> : null;
  }
  const [offered, obstacles] = [offeredFor([period], rights), obstaclesFor(period, rights, owner)];
  if (!offered.length && !obstacles.size && !started) {
    return null;
  }
  // Loud only where it helps by itself.
  const helps = NEEDS_PERSON.has(period.state) && !period.statement && !isInVain;
  return (
    <Stack gap={2} mt={4} role="group" aria-label={`Actions on ${nameOfPeriod(period.period)}`}>
      {started ? <Outcome kind={started.kind} run={started.run} before={started.publishedBefore} period={period} /> : null}
      <Flex gap={2} wrap="wrap">
        {offered.map((kind, index) => (
          <Button key={kind} size="sm" variant={helps && !index ? "solid" : "outline"} colorPalette={helps && !index ? "brand" : undefined}
            onClick={() => { change({ act: kind }, { replace: true }); }}>{KINDS[kind].verb}…</Button>
        ))}
      </Flex>
      {[...obstacles].map((each) => <Faint key={each}>{each}</Faint>)}
    </Stack>
  );
}

// The question before an action. It stands beside the panel and after it, not in it: where both are drawn in the same
// moment, as on an address that names an action, what comes later in the document lies above.
export function Question({ table, periods }: { table: TableRow; periods: readonly PeriodRow[] }) {
  const { params, change } = useAddress();
  const [period] = periods;
  const { data: rights } = useRights(period?.task?.dag_id);
  const client = useQueryClient();
  const [done, setDone] = useState<Kind | null>(null);
  const kind = params.get("act");
  // Once it is answered, the action may no longer make sense, but what came of it is still to be read.
  if (!period || !rights || !isKind(kind) || !(done === kind || offeredFor(periods, rights).includes(kind))) {
    return null;
  }
  return (
    <Confirm kind={kind} subject={{ table, period, periods, rights }} onDone={() => { setDone(kind); }}
      close={() => { setDone(null); change({ act: null }, { replace: true }); }}
      onStarted={({ run, periods: those }) => {
        those.forEach((each) => client.setQueryData(startedKey(table, each), { kind, run, publishedBefore: each.published_at }));
      }} />
  );
}

// Several periods of a table that are chosen at once.
export function Chosen({ table, periods }: { table: TableRow; periods: readonly PeriodRow[] }) {
  const { change } = useAddress();
  const { data: rights } = useRights(periods[0]?.task?.dag_id);
  const offered = rights ? offeredFor(periods, rights) : [];
  return (
    <Flex role="region" aria-label="Chosen periods" position="sticky" bottom={0} zIndex={1} gap={2} px={4} py={2} align="center" wrap="wrap"
      bg="bg.panel" borderWidth={1} rounded="lg" boxShadow="md">
      <Text flex="1" minW="12rem" fontSize="sm"><b>{nameOf(table)}</b>: {count(periods.length, "period")}, {namesOf(periods)}</Text>
      {rights && !offered.length ? <Faint>No action makes sense for all of them, or Airflow does not let you take it.</Faint> : null}
      {offered.map((kind) => <Button key={kind} size="xs" variant="outline" onClick={() => { change({ act: kind }, { replace: true }); }}>{KINDS[kind].verb}…</Button>)}
      <Button size="xs" variant="ghost" onClick={() => { change(NO_PERIOD); }}>Clear</Button>
    </Flex>
  );
}

function Outcome({ kind, run, before, period }: { kind: Kind; run: Run; before: string; period: PeriodRow }) {
  const { data } = useQuery({
    queryKey: ["run", run.dag_id, run.dag_run_id],
    queryFn: () => ask<Run>(runPath(run.dag_id, run.dag_run_id)),
    initialData: run,
    refetchInterval: ({ state }) => (["success", "failed"].includes(state.data?.state ?? "") ? false : POLL_MILLISECONDS),
  });
  const client = useQueryClient();
  // The period that is shown may be older than the end of the run.
  const { data: isSettled = false } = useQuery({
    queryKey: ["settled", run.dag_id, run.dag_run_id],
    enabled: data.state === "success",
    staleTime: Infinity,
    queryFn: async () => {
      await new Promise((resolve) => { setTimeout(resolve, SETTLE_MILLISECONDS); });
      await client.refetchQueries({ queryKey: ["periods"] });
      return true;
    },
  });
  const found = kind === "reload" ? outcome(data, before, period, isSettled)
    : { isOver: data.state === "success" || data.state === "failed", isGood: data.state !== "failed", text: runText(data) };
  const status = !found.isOver ? "info" : found.isGood ? "success" : "warning";
  return (
    <Note status={status} title={KINDS[kind].verb}>
      {found.text} <RunLink dagId={run.dag_id} runId={run.dag_run_id} />
      {data.state === "failed" ? <RunFailure dagId={run.dag_id} runId={run.dag_run_id} /> : null}
    </Note>
  );
}
