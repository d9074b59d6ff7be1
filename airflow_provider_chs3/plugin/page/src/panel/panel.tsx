// One period at the side: what is wrong and how to get out of it first, then all that is known.
import { Box, CloseButton, Drawer, Flex, Portal, Text } from "@chakra-ui/react";
import { useEffect, useRef } from "react";
import { useDetails, type PeriodPlace } from "../api/queries";
import type { PeriodRow } from "../api/types";
import { isNamed, madeOf, titleOf, type TableRow } from "../model/fleet";
import { namedIn } from "../model/named";
import { adoptCommand, badObjectIn, wayOut } from "../model/needs";
import { nameOfPeriod } from "../model/period";
import { bytes, number, orNone, parseUtc, rate } from "../model/format";
import { STATES } from "../model/states";
import { done, sealText, sentence, shareText, sourceText, withoutText } from "../periods/text";
import { TaskLink } from "../ui/links";
import { Ago, Facts, Faint, Note, Section, Sql, UtcTime, Waiting } from "../ui/parts";
import { StateTag } from "../ui/sign";
import { NO_PERIOD, useAddress } from "../ui/url";
import { WhatChanged } from "../ui/what-changed";
import { Actions, Question } from "../actions/actions";
import { Assets } from "./assets";
import { Details } from "./details";
import { FailureNote } from "./failure";
import { Running } from "./running";

export interface Opened {
  table: TableRow;
  period: PeriodRow;
  place: PeriodPlace;
}

function openedIn(tables: readonly TableRow[], params: URLSearchParams): Opened | null {
  const [named, period] = [namedIn(params), params.get("period")];
  const table = named ? tables.find((each) => isNamed(each, named)) : undefined;
  const found = period ? table?.byName.get(period) : undefined;
  if (!table || !found) {
    return null;
  }
  return {
    table, period: found,
    place: { connId: table.connIds[0] ?? "", database: table.database, table: table.table, period: found.period },
  };
}

export function Panel({ tables, owners }: { tables: readonly TableRow[]; owners: Record<string, string> }) {
  const { params, change } = useAddress();
  const opened = openedIn(tables, params);
  const close = () => { change({ ...NO_PERIOD, act: null }); };
  const last = useRef<Opened | null>(null);
  const leave = useRef<HTMLButtonElement>(null);
  useEffect(() => { last.current = opened ?? last.current; });
  // Back to where the reader was in the strip, which may have been drawn again.
  const cell = () => {
    const strips = [...document.querySelectorAll<HTMLElement>("[data-chs3=page] .strip")];
    const strip = strips.find((each) => each.dataset.table === last.current?.table.key);
    return strip?.querySelector<HTMLElement>(`[data-period="${last.current?.period.period ?? ""}"]`) ?? null;
  };
  return (
    <>
      <Drawer.Root open={opened !== null} size="lg" placement="end" initialFocusEl={() => leave.current} finalFocusEl={cell}
        onOpenChange={({ open }) => { if (!open) { close(); } }}>
        <Portal>
          <Drawer.Backdrop bg="blackAlpha.300" />
          <Drawer.Positioner>
            <Drawer.Content>
              {opened ? <Period key={JSON.stringify(opened.place)} {...opened} owners={owners} /> : null}
              <Drawer.CloseTrigger asChild><CloseButton ref={leave} size="sm" /></Drawer.CloseTrigger>
            </Drawer.Content>
          </Drawer.Positioner>
        </Portal>
      </Drawer.Root>
      {opened ? <Question table={opened.table} periods={[opened.period]} /> : null}
    </>
  );
}

function Period({ table, period, place, owners }: Opened & { owners: Record<string, string> }) {
  const { next } = STATES[period.state];
  const badObject = badObjectIn(period.state === "failed" ? period.why : "");
  const owner = period.task ? owners[period.task.dag_id] : undefined;
  const isKnown = period.state !== "never_loaded" && period.state !== "gone";
  const { data, error, isPending } = useDetails(place, period);
  return (
    <>
      <Drawer.Header borderBottomWidth={1} alignItems="start">
        <Box minW={0}>
          <Drawer.Title fontSize="lg" overflowWrap="anywhere">{titleOf(table, period)}</Drawer.Title>
          <Text fontSize="sm" color="fg.muted" overflowWrap="anywhere">
            {table.connIds.length > 1 ? "Connections" : "Connection"} {table.connIds.join(", ")}{table.cluster ? `, cluster ${table.cluster}` : ""}
          </Text>
          <Text fontSize="sm" color="fg.muted" overflowWrap="anywhere" _empty={{ display: "none" }}>{madeOf(table)}</Text>
        </Box>
      </Drawer.Header>
      <Drawer.Body py={4} tabIndex={0} focusVisibleRing="inside" role="region" aria-label={`Period ${nameOfPeriod(period.period)}`}>
        <Flex gap={3} align="center" mb={3} wrap="wrap">
          <StateTag state={period.state} done={done(period)} />
          {period.since ? <Text fontSize="sm" color="fg.muted">since <UtcTime text={period.since} />, <Ago seconds={parseUtc(period.since).getTime() / 1_000} /></Text> : null}
          {period.task ? <TaskLink task={period.task} logs /> : null}
        </Flex>
        {period.seal ? <Text mb={2} color="green.fg" overflowWrap="anywhere">✓ {sentence(sealText(period))}</Text> : null}
        {data?.failure ? <FailureNote failure={data.failure} /> : null}
        {data?.failure && period.state === "failed" ? null : <Text mb={2} overflowWrap="anywhere">{sentence(period.why + withoutText(table.silentNodes))}</Text>}
        {period.failing_rows.length ? <><Faint>Some of the rows that fail:</Faint><Sql text={period.failing_rows.join("\n")} /></> : null}
        {period.state === "changed" ? <WhatChanged place={place} /> : null}
        {badObject ? <><Faint>{wayOut(period.why, "this object")}, then reload:</Faint><Sql text={badObject} /></> : null}
        {next ? <Faint>{next}</Faint> : null}
        {period.statement ? <><Faint>To unblock it, run this statement on each node named above:</Faint><Sql text={period.statement} /></> : null}
        {period.state === "changed" ? <><Faint>To keep the rows as they are, adopt the period, with the bucket and key of its loads:</Faint><Sql text={adoptCommand(table, [period])} /></> : null}
        <Actions table={table} period={period} owner={owner} isInVain={data?.failure?.is_terminal === true} />
        {period.state === "loading" && (period.insert || data?.inserting) ? <Running period={period} details={data ?? null} /> : null}
        <Summary period={period} table={table} owner={owner} />
        {error ? <Note title="No details">{error.message}</Note> : null}
        {isKnown && isPending ? <Box mt={6}><Waiting lines={4} /></Box> : null}
        {data === null ? <Faint>No load has left a record of it.</Faint> : null}
        {data ? <Details details={data} period={period} place={place} /> : null}
      </Drawer.Body>
    </>
  );
}

function Summary({ period, table, owner }: { period: PeriodRow; table: TableRow; owner: string | undefined }) {
  return (
    <Section title="Now">
      <Facts rows={[
        ["Rows", number(period.rows) + withoutText(table.missedNodes)],
        period.state === "held" && ["Held rows", number(period.held_rows)],
        ["Parts", `${number(period.parts)}, ${bytes(period.size_bytes)} on disk${withoutText(table.silentNodes)}`],
        period.published_at !== "" && ["Published", <><UtcTime key="at" text={period.published_at} /> from {sourceText(period)}</>],
        period.insert_seconds !== null && ["Insert", [orNone(period.rows_per_second, rate), shareText(period)].filter(Boolean).join("; ")],
        period.task !== null && ["Newest task", <TaskLink key="task" task={period.task} />],
        owner !== undefined && ["Owner of its DAG", owner],
      ]} />
      {period.task ? <Assets task={period.task} /> : null}
    </Section>
  );
}
