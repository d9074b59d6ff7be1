// The first screen: what needs a person, then all tables with a strip of their periods.
import { Box, Button, Flex, Stack } from "@chakra-ui/react";
import { useMemo } from "react";
import { Chosen, Question } from "../actions/actions";
import { useEarlier, usePeriods } from "../api/queries";
import type { ShardNode, Periods } from "../api/types";
import { countStates, isNamed, isSort, matches, problemsOf, sorted, tablesOf, withoutProblem, type Filter, type Named, type TableRow } from "../model/fleet";
import { namedIn } from "../model/named";
import type { Place } from "../model/place";
import { silences } from "../model/silences";
import { isState } from "../model/states";
import { Panel } from "../panel/panel";
import { NoConnections, NoTables, Troubles } from "../ui/connections";
import { Faint, Note, WaitingForPeriods } from "../ui/parts";
import { NO_PERIOD, periodsIn, untilsIn, useAddress } from "../ui/url";
import { Filters, StateChips } from "./filters";
import { Legend } from "./legend";
import { Needs } from "./needs";
import { useSlowLoads } from "./slow";
import { Tables } from "./tables";

function filterOf(params: URLSearchParams, tables: readonly TableRow[]): Filter {
  const named = namedIn(params);
  return {
    search: params.get("search") ?? "",
    states: new Set((params.get("states") ?? "").split(",").filter(isState)),
    connection: params.get("connection") ?? "",
    database: params.get("in_database") ?? "",
    dag: params.get("dag") ?? "",
    // One that is not there hides nothing.
    named: named && !params.has("period") && !params.has("periods") && tables.some((table) => isNamed(table, named)) ? named : null,
  };
}

export function PeriodsView({ place }: { place: Place }) {
  const { data, error } = usePeriods(place);
  if (!data) {
    return error ? <Note title="The periods cannot be shown">{error.message}</Note> : <WaitingForPeriods />;
  }
  return data.connections.length ? <Content data={data} isOld={error !== null} place={place} /> : <NoConnections />;
}

// It is old as long as no newer answer comes.
function Content({ data, isOld, place }: { data: Periods; isOld: boolean; place: Place }) {
  const { params } = useAddress();
  const newest = useMemo(() => tablesOf(data.connections), [data]);
  const { answers, isWaiting } = useEarlier(place, earlierIn(params, newest));
  const earlier = answers.flatMap(({ connections }) => connections);
  const tables = earlier.length ? tablesOf(data.connections, earlier) : newest;
  const axis = useMemo(() => data.connections.flatMap((seen) => seen.axis), [data]);
  const filter = useMemo(() => filterOf(params, tables), [params, tables]);
  const sort = params.get("sort") ?? "";
  // The others are still to be read.
  const areSome = data.connections.some((seen) => seen.are_some);
  const shown = useMemo(
    () => sorted(tables.filter((table) => matches(table, filter)), isSort(sort) ? sort : "urgency"), [tables, filter, sort],
  );
  const problems = useMemo(() => problemsOf(shown, filter.states, data.busy_dags), [shown, filter, data]);
  // A period that is not read yet may say why.
  const runs = useMemo(() => (areSome ? [] : withoutProblem(data.failed_runs, problemsOf(tables, new Set(), data.busy_dags))), [data, tables, areSome]);
  const slow = useSlowLoads(place, areSome || filter.states.size ? [] : shown);
  const missed = missedIn(data, tables);
  // They are the first rows of what needs attention.
  const others = data.connections.map((seen) => ({ ...seen, nodes: seen.nodes.filter(({ name }) => !missed.some((node) => node.name === name)) }));
  const areNeedsShown = shown.length > 0 || runs.length > 0;
  const hasErrors = data.connections.some((seen) => seen.error || seen.unread);
  if (!tables.length && areSome) {
    return <WaitingForPeriods />;
  }
  if (!tables.length) {
    return (
      <>
        <Troubles connections={data.connections} />
        <MissingPlace tables={tables} params={params} />
        {data.failed_runs.length ? <Needs problems={[]} data={data} missed={[]} runs={data.failed_runs} slow={[]} areSome={false} areAll={false} checkedAt={null} isOld={isOld} /> : null}
        {place.dagId ? <Faint>No periods to show.</Faint> : hasErrors ? null : <NoTables />}
      </>
    );
  }
  return (
    <Stack gap={4} align="stretch">
      <Box _empty={{ display: "none" }}>
        <Troubles connections={areNeedsShown ? others : data.connections} />
        {isWaiting || areSome ? null : <MissingPlace tables={tables} params={params} />}
      </Box>
      {areSome ? <Box role="status"><Faint>These are the newest periods of each table. The others are being read…</Faint></Box>
        : <StateChips counts={countStates(tables)} chosen={filter.states} />}
      {areNeedsShown ? (
        <Needs problems={problems} data={data} missed={missed} runs={runs} slow={slow}
          areSome={areSome} areAll={shown.length === tables.length && !areSome && !silences(data.connections).unknown.length} checkedAt={oldestOf(data)} isOld={isOld} />
      ) : null}
      {filter.named ? <Only named={filter.named} /> : null}
      <Filters tables={tables} connections={data.connections} shown={areSome ? null : shown.length} />
      <Legend tables={shown} shows={params.get("strip") ?? ""} />
      <Tables tables={shown} all={tables} axis={axis} states={filter.states} />
      <Panel tables={tables} owners={data.owners} />
      <ChosenPeriods tables={tables} params={params} />
    </Stack>
  );
}

// Those that are chosen at once, below all tables and in sight.
function ChosenPeriods({ tables, params }: { tables: readonly TableRow[]; params: URLSearchParams }) {
  const named = namedIn(params);
  const table = named ? tables.find((each) => isNamed(each, named)) : undefined;
  const periods = periodsIn(params).flatMap((name) => table?.byName.get(name) ?? []);
  return table && periods.length ? <><Chosen table={table} periods={periods} /><Question table={table} periods={periods} /></> : null;
}

// What the address shows of earlier times, where not all is known: strips, and a period that is opened.
function earlierIn(params: URLSearchParams, tables: readonly TableRow[]): string[] {
  const [named, period] = [namedIn(params), params.get("period")];
  const isUnread = named && period && tables.some((table) => isNamed(table, named) && !table.byName.has(period));
  const untils = [...untilsIn(params), ...(isUnread ? [period] : [])];
  return tables.some(({ unread }) => unread.published) ? [...new Set(untils)] : [];
}

// Nodes of whose shard no replica answers, each once, though several connections may lead to it.
function missedIn({ connections }: Periods, tables: readonly TableRow[]): ShardNode[] {
  const names = new Set(tables.flatMap((table) => table.missedNodes));
  return [...new Map(connections.flatMap(({ nodes }) => nodes.filter(({ name }) => names.has(name)).map((node) => [node.name, node]))).values()];
}

// All of it is as fresh as the oldest answer.
function oldestOf(data: Periods): number | null {
  const times = data.connections.flatMap((seen) => (seen.seen_at === null ? [] : [seen.seen_at]));
  return times.length ? Math.min(...times) : null;
}

function Only({ named }: { named: Named }) {
  const { change } = useAddress();
  return (
    <Flex gap={3} align="center">
      <Faint>Only table {named.table} is shown.</Faint>
      <Button size="xs" variant="outline" onClick={() => { change(NO_PERIOD); }}>Show all tables</Button>
    </Flex>
  );
}

function MissingPlace({ tables, params }: { tables: readonly TableRow[]; params: URLSearchParams }) {
  const [named, period] = [namedIn(params), params.get("period")];
  if (!named || tables.some((table) => isNamed(table, named) && (!period || table.byName.has(period)))) {
    return null;
  }
  const { connId, database, table } = named;
  const where = connId ? `of connection ${connId}` : "";
  const what = [database ? `${database}.${table}` : table, period, where].filter(Boolean).join(" ");
  return (
    <Note status="info">
      {what} is not here: no load has begun to insert it yet, its table was dropped or renamed, or Airflow cannot list its connection.
    </Note>
  );
}
