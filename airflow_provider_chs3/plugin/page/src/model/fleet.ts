// All tables behind all connections, as the list shows them: each once, filtered and sorted.
import type { ConnectionPeriods, FailedRun, Freshness, PeriodRow, Periods, State, Unread } from "../api/types";
import { compareNames } from "./format";
import { GRAINS, grainOf, indexOf, labelOf, periodAt, type Grain } from "./period";
import { AWAITS_LOAD, AWAITS_MERGES, NEEDS_PERSON, urgency } from "./states";

export interface TableRow {
  key: string;
  // Every connection that leads to it; the first is asked for its periods.
  connIds: string[];
  cluster: string | null;
  // Nodes that do not answer: their parts are in no figure.
  silentNodes: string[];
  // Those of whose shard no replica answers: their rows are in no figure either.
  missedNodes: string[];
  database: string;
  table: string;
  // Of a derived table, the one that it is made of, and the view over that which writes to it; empty if there is none.
  base: string | null;
  view: string;
  // Those that are shown, and all that need attention; of the others no more is known than how many there are.
  periods: PeriodRow[];
  unread: Unread;
  // When its next period is due; null if its load does not say so.
  freshness: Freshness | null;
  // Whether others are still to be read.
  areSome: boolean;
  byName: Map<string, PeriodRow>;
  worst: State;
  dags: string[];
}

export interface Filter {
  search: string;
  states: ReadonlySet<State>;
  connection: string;
  database: string;
  dag: string;
  // A table that a link names; its periods are shown alone.
  named: Named | null;
}

export interface Named {
  connId: string | null;
  database: string | null;
  table: string;
}

export type Sort = "urgency" | "name" | "rows" | "newest";

export interface Problem {
  table: TableRow;
  period: PeriodRow;
}

// Connections lead to the same cluster if they see the same nodes; without nodes nobody knows.
function placeOf(seen: ConnectionPeriods): string {
  const nodes = seen.nodes.map((node) => node.name).filter(Boolean).sort();
  return nodes.length ? JSON.stringify([seen.cluster, nodes]) : JSON.stringify(["connection", seen.conn_id]);
}

// With the periods of earlier times that were asked for, too.
export function tablesOf(connections: readonly ConnectionPeriods[], earlier: readonly ConnectionPeriods[] = []): TableRow[] {
  const rows = new Map<string, TableRow>();
  const more = new Map(earlier.flatMap(({ conn_id: id, tables }) => tables.map((each) => [JSON.stringify([id, nameOf(each)]), each.periods])));
  for (const seen of connections) {
    for (const { database, table, base, view, freshness, periods: newest, unread } of seen.tables) {
      const key = JSON.stringify([placeOf(seen), database, table]);
      const known = rows.get(key);
      if (known) {
        known.connIds.push(seen.conn_id);
      } else {
        const periods = withEarlier(newest, more.get(JSON.stringify([seen.conn_id, nameOf({ database, table })])) ?? []);
        const added = periods.slice().filter((each) => !newest.includes(each));
        rows.set(key, {
          key, database, table, base, view, freshness, periods, unread: without(unread, added), areSome: seen.are_some,
          connIds: [seen.conn_id],
          cluster: seen.cluster,
          silentNodes: seen.nodes.filter(({ error }) => error).map(({ name }) => name),
          missedNodes: seen.nodes.filter((node) => node.is_missed).map(({ name }) => name),
          byName: new Map(periods.map((period) => [period.period, period])),
          worst: worstOf(periods),
          dags: [...new Set([...periods.flatMap((period) => (period.task ? [period.task.dag_id] : [])), ...unread.dag_ids])],
        });
      }
    }
  }
  return [...rows.values()];
}

function withEarlier(newest: PeriodRow[], earlier: readonly PeriodRow[]): PeriodRow[] {
  const known = new Set(newest.map(({ period }) => period));
  const added = earlier.filter(({ period }) => !known.has(period));
  return added.length ? [...added, ...newest].sort((one, other) => indexOf(one.period) - indexOf(other.period)) : newest;
}

function without(unread: Unread, added: readonly PeriodRow[]): Unread {
  const missing = added.filter(({ state }) => state === "never_loaded").length;
  return {
    ...unread, published: unread.published - (added.length - missing), never_loaded: unread.never_loaded - missing,
    rows: unread.rows - added.reduce((sum, { rows }) => sum + rows, 0),
  };
}

function worstOf(periods: readonly PeriodRow[]): State {
  return periods.reduce<State>(
    (worst, { state }) => (urgency(state) < urgency(worst) ? state : worst), "never_loaded",
  );
}

// The states that others than the shown periods may have.
const UNREAD = ["published", "never_loaded"] as const;

export function countStates(tables: readonly TableRow[]): Map<State, number> {
  const counts = new Map<State, number>();
  const add = (state: State, more: number) => (more ? counts.set(state, (counts.get(state) ?? 0) + more) : counts);
  for (const { periods, unread } of tables) {
    periods.forEach(({ state }) => add(state, 1));
    UNREAD.forEach((state) => add(state, unread[state]));
  }
  return counts;
}

export function nameOf(table: { database: string; table: string }): string {
  return `${table.database}.${table.table}`;
}

// A whole table is its own name.
export function titleOf(table: TableRow, { period }: Pick<PeriodRow, "period">): string {
  return period === "all" ? nameOf(table) : `${nameOf(table)} ${period}`;
}

export function isNamed(table: TableRow, { connId, database, table: name }: Named): boolean {
  return table.table === name && (!database || table.database === database) && (!connId || table.connIds.includes(connId));
}

export function matches(table: TableRow, filter: Filter): boolean {
  return (
    nameOf(table).toLowerCase().includes(filter.search.trim().toLowerCase()) &&
    (!filter.connection || table.connIds.includes(filter.connection)) &&
    (!filter.database || table.database === filter.database) &&
    (!filter.dag || table.dags.includes(filter.dag)) &&
    (!filter.named || isNamed(table, filter.named)) &&
    (!filter.states.size || table.periods.some((period) => filter.states.has(period.state)) ||
      UNREAD.some((state) => filter.states.has(state) && table.unread[state] > 0))
  );
}

export type Options = readonly (readonly [value: string, text: string])[];

// What can be chosen, and what an address has chosen although it is no longer there: else nobody sees why nothing is shown.
export function withChosen(options: Options, chosen: string): Options {
  return !chosen || options.some(([value]) => value === chosen) ? options : [...options, [chosen, `${chosen} (not here)`]];
}

const COMPARE: Record<Sort, (one: TableRow, other: TableRow) => number> = {
  urgency: (one, other) => urgency(one.worst) - urgency(other.worst),
  name: () => 0,
  rows: (one, other) => rowsOf(other) - rowsOf(one),
  newest: (one, other) => newestOf(other).localeCompare(newestOf(one)),
};

function newestOf({ periods, unread }: TableRow): string {
  return periods.at(-1)?.period ?? unread.newest;
}

export const isSort = (text: string): text is Sort => text in COMPARE;

export function rowsOf(table: TableRow): number {
  return table.periods.reduce((sum, period) => sum + period.rows, table.unread.rows);
}

export function sorted(tables: readonly TableRow[], sort: Sort): TableRow[] {
  return [...tables].sort((one, other) => COMPARE[sort](one, other) || compareNames(nameOf(one), nameOf(other)));
}

export interface Nested {
  table: TableRow;
  // How many bases stand above it.
  depth: number;
}

// Derived tables below the one that they are made of, if that is among them.
export function nested(tables: readonly TableRow[]): Nested[] {
  const baseOf = (table: TableRow) => tables.find((each) => each !== table && nameOf(each) === table.base && each.connIds[0] === table.connIds[0]);
  const bases = new Map(tables.map((table) => [table, table.base === null ? undefined : baseOf(table)]));
  const below = (base: TableRow | undefined, depth: number): Nested[] =>
    tables.filter((table) => bases.get(table) === base).flatMap((table) => [{ table, depth }, ...below(table, depth + 1)]);
  const found = below(undefined, 0);
  // Two that are made of each other stand below nothing.
  return [...found, ...tables.filter((table) => !found.some((each) => each.table === table)).map((table) => ({ table, depth: 0 }))];
}

// What a table is made of, as a sentence; empty if loads make it of objects.
export function madeOf({ base, view }: Pick<TableRow, "base" | "view">): string {
  return base === null ? "" : `Derived from ${base}${view ? ` by the view ${view}` : ""}`;
}

// The periods that need a person, those whose next load has not begun, and those whose merges do not go on: the most urgent
// first, and of those alike the newest trouble, then the newest period.
export function problemsOf(tables: readonly TableRow[], states: ReadonlySet<State>, busyDags: readonly string[] = []): Problem[] {
  const waits = ({ state, task }: PeriodRow) => AWAITS_LOAD.has(state) && !(task && busyDags.includes(task.dag_id));
  const isWanted = (period: PeriodRow) => (NEEDS_PERSON.has(period.state) || AWAITS_MERGES.has(period.state) || waits(period)) && (!states.size || states.has(period.state));
  return tables
    .flatMap((table) => table.periods.filter(isWanted).map((period) => ({ table, period })))
    .sort((one, other) =>
      urgency(one.period.state) - urgency(other.period.state) || other.period.since.localeCompare(one.period.since) ||
      other.period.period.localeCompare(one.period.period));
}

const OF_ONE_RUN: ReadonlySet<State> = new Set(["failed", "unfinished"]);

// The failed runs that no problem mentions. A period that failed, or whose load was killed, mentions that run alone: a later
// one failed for another reason. One that is stuck or changed stops each run until somebody acts.
export function withoutProblem(runs: readonly FailedRun[], problems: readonly Problem[]): FailedRun[] {
  const explains = (run: FailedRun) => ({ period: { state, task } }: Problem) =>
    task?.dag_id === run.dag_id && (OF_ONE_RUN.has(state) ? task.run_id === run.run_id : NEEDS_PERSON.has(state));
  return runs.filter((run) => !problems.some(explains(run)));
}

// Longer runs of periods that no table has are left out: one period of 2099 would push all others out of sight.
const LONGEST_RUN_PERIODS = 24;

// Stands on the axis for such a run, by the period behind it.
export const gapBefore = (period: string) => `${period} after a gap`;
export const isGap = (name: string) => name.endsWith("gap");

// The periods of all tables, which have one length, and those between them, so that their strips stand below each other.
export function periodsBetween(tables: readonly TableRow[], axis: readonly string[] = []): string[] {
  const found: string[] = [];
  let last: number | null = null;
  const [grain] = tables.map(grainOfTable);
  if (grain === undefined) {
    return found;
  }
  const names = [...axis, ...tables.flatMap((table) => [...table.byName.keys()])].filter((name) => grainOf(name) === grain);
  for (const index of [...new Set(names.map(indexOf))].sort((a, b) => a - b)) {
    if (last !== null && index - last - 1 > LONGEST_RUN_PERIODS) {
      found.push(gapBefore(periodAt(grain, index)));
      last = index - 1;
    }
    for (let each = (last ?? index - 1) + 1; each <= index; each += 1) {
      found.push(periodAt(grain, each));
    }
    last = index;
  }
  return found;
}

// That of its newest period: a table that was created again may have had another key.
export const grainOfTable = (table: TableRow): Grain => grainOf(newestOf(table));

// Tables whose periods are of one length, the shortest first.
export function byGrain(tables: readonly TableRow[]): [Grain, TableRow[]][] {
  return GRAINS.map((grain): [Grain, TableRow[]] => [grain, tables.filter((table) => grainOfTable(table) === grain)])
    .filter(([, those]) => those.length > 0);
}

// Behind a gap the axis begins again.
export function axisLabel(all: readonly string[], at: number): string {
  const begin = all.slice(0, at + 1).findLastIndex(isGap) + 1;
  const after = all.slice(begin).findIndex(isGap);
  return isGap(all[at] ?? "") ? "" : labelOf(all.slice(begin, after < 0 ? undefined : begin + after), at - begin);
}

// Something is about to change: a load or a run is active, or somebody waits for the first load of all.
export function isBusy({ connections, busy_dags: dags }: Pick<Periods, "connections" | "busy_dags">): boolean {
  const tables = connections.flatMap((seen) => seen.tables);
  const awaitsFirst = !tables.length && connections.length > 0 && connections.every(({ error, unread }) => !error && !unread);
  return awaitsFirst || dags.length > 0 || tables.some(({ periods }) => periods.some(({ state }) => state === "loading"));
}
