// One month at the side: what is wrong and how to get out of it first, then all that is known.
import { Box, CloseButton, Drawer, Flex, Portal, Text } from "@chakra-ui/react";
import { useEffect, useRef } from "react";
import { useDetails, type MonthPlace } from "../api/queries";
import type { MonthRow } from "../api/types";
import { isNamed, nameOf, type TableRow } from "../model/fleet";
import { namedIn } from "../model/named";
import { bytes, number, orNone, parseUtc, rate } from "../model/format";
import { STATES } from "../model/states";
import { done, sentence, shareText, sourceText, withoutText } from "../months/text";
import { TaskLink } from "../ui/links";
import { Ago, Facts, Faint, Note, Section, Sql, UtcTime, Waiting } from "../ui/parts";
import { StateTag } from "../ui/sign";
import { NO_MONTH, useAddress } from "../ui/url";
import { Actions, Question } from "../actions/actions";
import { Details } from "./details";
import { FailureNote } from "./failure";
import { Running } from "./running";

export interface Opened {
  table: TableRow;
  month: MonthRow;
  place: MonthPlace;
}

function openedIn(tables: readonly TableRow[], params: URLSearchParams): Opened | null {
  const [named, month] = [namedIn(params), params.get("month")];
  const table = named ? tables.find((each) => isNamed(each, named)) : undefined;
  const found = month ? table?.byName.get(month) : undefined;
  if (!table || !found) {
    return null;
  }
  return {
    table, month: found,
    place: { connId: table.connIds[0] ?? "", database: table.database, table: table.table, month: found.month },
  };
}

export function Panel({ tables, owners }: { tables: readonly TableRow[]; owners: Record<string, string> }) {
  const { params, change } = useAddress();
  const opened = openedIn(tables, params);
  const close = () => { change({ ...NO_MONTH, act: null }); };
  const last = useRef<Opened | null>(null);
  const leave = useRef<HTMLButtonElement>(null);
  useEffect(() => { last.current = opened ?? last.current; });
  // Back to where the reader was in the strip, which may have been drawn again.
  const cell = () => {
    const strips = [...document.querySelectorAll<HTMLElement>("[data-chs3=page] .strip")];
    const strip = strips.find((each) => each.dataset.table === last.current?.table.key);
    return strip?.querySelector<HTMLElement>(`[data-month="${last.current?.month.month ?? ""}"]`) ?? null;
  };
  return (
    <>
      <Drawer.Root open={opened !== null} size="lg" placement="end" initialFocusEl={() => leave.current} finalFocusEl={cell}
        onOpenChange={({ open }) => { if (!open) { close(); } }}>
        <Portal>
          <Drawer.Backdrop bg="blackAlpha.300" />
          <Drawer.Positioner>
            <Drawer.Content>
              {opened ? <Month key={JSON.stringify(opened.place)} {...opened} owners={owners} /> : null}
              <Drawer.CloseTrigger asChild><CloseButton ref={leave} size="sm" /></Drawer.CloseTrigger>
            </Drawer.Content>
          </Drawer.Positioner>
        </Portal>
      </Drawer.Root>
      {opened ? <Question table={opened.table} month={opened.month} /> : null}
    </>
  );
}

function Month({ table, month, place, owners }: Opened & { owners: Record<string, string> }) {
  const { next } = STATES[month.state];
  const owner = month.task ? owners[month.task.dag_id] : undefined;
  const isKnown = month.state !== "never_loaded" && month.state !== "gone";
  const { data, error, isPending } = useDetails(place, month);
  return (
    <>
      <Drawer.Header borderBottomWidth={1} alignItems="start">
        <Box minW={0}>
          <Drawer.Title fontSize="lg" overflowWrap="anywhere">{nameOf(table)} {month.month}</Drawer.Title>
          <Text fontSize="sm" color="fg.muted" overflowWrap="anywhere">
            {table.connIds.length > 1 ? "Connections" : "Connection"} {table.connIds.join(", ")}{table.cluster ? `, cluster ${table.cluster}` : ""}
          </Text>
        </Box>
      </Drawer.Header>
      <Drawer.Body py={4} tabIndex={0} focusVisibleRing="inside" role="region" aria-label={`Month ${month.month}`}>
        <Flex gap={3} align="center" mb={3} wrap="wrap">
          <StateTag state={month.state} done={done(month)} />
          {month.since ? <Text fontSize="sm" color="fg.muted">since <UtcTime text={month.since} />, <Ago seconds={parseUtc(month.since).getTime() / 1_000} /></Text> : null}
          {month.task ? <TaskLink task={month.task} logs /> : null}
        </Flex>
        {data?.failure ? <FailureNote failure={data.failure} /> : <Text mb={2} overflowWrap="anywhere">{sentence(month.why + withoutText(table.silentNodes))}</Text>}
        {next ? <Faint>{next}</Faint> : null}
        {month.statement ? <><Faint>To unblock it, run this statement on each node named above:</Faint><Sql text={month.statement} /></> : null}
        <Actions table={table} month={month} owner={owner} />
        {month.state === "loading" && (month.insert || data?.inserting) ? <Running month={month} details={data ?? null} /> : null}
        <Summary month={month} table={table} owner={owner} />
        {error ? <Note title="No details">{error.message}</Note> : null}
        {isKnown && isPending ? <Box mt={6}><Waiting lines={4} /></Box> : null}
        {data === null ? <Faint>No load has left a record of it.</Faint> : null}
        {data ? <Details details={data} month={month} place={place} /> : null}
      </Drawer.Body>
    </>
  );
}

function Summary({ month, table, owner }: { month: MonthRow; table: TableRow; owner: string | undefined }) {
  return (
    <Section title="Now">
      <Facts rows={[
        ["Rows", number(month.rows) + withoutText(table.missedNodes)],
        ["Parts", `${number(month.parts)}, ${bytes(month.size_bytes)} on disk${withoutText(table.silentNodes)}`],
        month.published_at !== "" && ["Published", <><UtcTime key="at" text={month.published_at} /> from {sourceText(month)}</>],
        month.insert_seconds !== null && ["Insert", [orNone(month.rows_per_second, rate), shareText(month)].filter(Boolean).join("; ")],
        month.task !== null && ["Newest task", <TaskLink key="task" task={month.task} />],
        owner !== undefined && ["Owner of its DAG", owner],
      ]} />
    </Section>
  );
}
