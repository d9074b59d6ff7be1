// All tables behind all connections, as the list shows them: each once, filtered and sorted.
import type { ConnectionMonths, FailedRun, MonthRow, Months, State } from "../api/types";
import { NEEDS_PERSON, urgency } from "./states";

export interface TableRow {
  key: string;
  // Every connection that leads to it; the first is asked for its months.
  connIds: string[];
  cluster: string | null;
  // Nodes that do not answer: their parts are in no figure.
  silentNodes: string[];
  // Those of whose shard no replica answers: their rows are in no figure either.
  missedNodes: string[];
  database: string;
  table: string;
  months: MonthRow[];
  byName: Map<string, MonthRow>;
  worst: State;
  dags: string[];
}

export interface Filter {
  search: string;
  states: ReadonlySet<State>;
  connection: string;
  database: string;
  dag: string;
  // A table that a link names; its months are shown alone.
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
  month: MonthRow;
}

// Connections lead to the same cluster if they see the same nodes; without nodes nobody knows.
function placeOf(seen: ConnectionMonths): string {
  const nodes = seen.nodes.map((node) => node.name).filter(Boolean).sort();
  return nodes.length ? JSON.stringify([seen.cluster, nodes]) : JSON.stringify(["connection", seen.conn_id]);
}

export function tablesOf(connections: readonly ConnectionMonths[]): TableRow[] {
  const rows = new Map<string, TableRow>();
  for (const seen of connections) {
    for (const { database, table, months: listed } of seen.tables) {
      const months = withoutLongRuns(listed);
      const key = JSON.stringify([placeOf(seen), database, table]);
      const known = rows.get(key);
      if (known) {
        known.connIds.push(seen.conn_id);
      } else {
        rows.set(key, {
          key, database, table, months,
          connIds: [seen.conn_id],
          cluster: seen.cluster,
          silentNodes: seen.nodes.filter(({ error }) => error).map(({ name }) => name),
          missedNodes: seen.nodes.filter((node) => node.is_missed).map(({ name }) => name),
          byName: new Map(months.map((month) => [month.month, month])),
          worst: worstOf(months),
          dags: [...new Set(months.flatMap((month) => (month.task ? [month.task.dag_id] : [])))],
        });
      }
    }
  }
  return [...rows.values()];
}

function withoutLongRuns(months: MonthRow[]): MonthRow[] {
  const isUnknown = ({ state }: MonthRow) => state === "never_loaded";
  const kept: MonthRow[] = [];
  let unknown: MonthRow[] = [];
  for (const month of months) {
    if (isUnknown(month)) {
      unknown.push(month);
    } else {
      kept.push(...(unknown.length > LONGEST_RUN_MONTHS ? [] : unknown), month);
      unknown = [];
    }
  }
  return [...kept, ...unknown];
}

function worstOf(months: readonly MonthRow[]): State {
  return months.reduce<State>(
    (worst, { state }) => (urgency(state) < urgency(worst) ? state : worst), "never_loaded",
  );
}

export function countStates(tables: readonly TableRow[]): Map<State, number> {
  const counts = new Map<State, number>();
  for (const { state } of tables.flatMap((table) => table.months)) {
    counts.set(state, (counts.get(state) ?? 0) + 1);
  }
  return counts;
}

export function nameOf(table: { database: string; table: string }): string {
  return `${table.database}.${table.table}`;
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
    (!filter.states.size || table.months.some((month) => filter.states.has(month.state)))
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
  newest: (one, other) => (other.months.at(-1)?.month ?? "").localeCompare(one.months.at(-1)?.month ?? ""),
};

export const isSort = (text: string): text is Sort => text in COMPARE;

export function rowsOf(table: TableRow): number {
  return table.months.reduce((sum, month) => sum + month.rows, 0);
}

export function sorted(tables: readonly TableRow[], sort: Sort): TableRow[] {
  return [...tables].sort((one, other) => COMPARE[sort](one, other) || nameOf(one).localeCompare(nameOf(other)));
}

// The months that need a person, the most urgent first, and of those alike the newest trouble, then the newest month.
export function problemsOf(tables: readonly TableRow[], states: ReadonlySet<State>): Problem[] {
  const wanted = (state: State) => NEEDS_PERSON.has(state) && (!states.size || states.has(state));
  return tables
    .flatMap((table) => table.months.filter(({ state }) => wanted(state)).map((month) => ({ table, month })))
    .sort((one, other) =>
      urgency(one.month.state) - urgency(other.month.state) || other.month.since.localeCompare(one.month.since) ||
      other.month.month.localeCompare(one.month.month));
}

// The failed runs that no problem mentions. A month that failed mentions that run alone: a later one failed for another
// reason. One that is stuck or changed stops each run until somebody acts.
export function untold(runs: readonly FailedRun[], problems: readonly Problem[]): FailedRun[] {
  const tells = (run: FailedRun) => ({ month: { state, task } }: Problem) =>
    task?.dag_id === run.dag_id && (state !== "failed" || task.run_id === run.run_id);
  return runs.filter((run) => !problems.some(tells(run)));
}

// Longer runs of months that no table has are left out: one month of 2099 would push all others out of sight.
const LONGEST_RUN_MONTHS = 24;

// Stands on the axis for such a run, by the month behind it.
export const gapBefore = (month: string) => `${month} after a gap`;
export const isGap = (name: string) => name.endsWith("gap");

// The months of all tables and those between them, so that their strips stand below each other.
export function monthsBetween(tables: readonly TableRow[]): string[] {
  const found: string[] = [];
  let last: number | null = null;
  for (const index of [...new Set(tables.flatMap((table) => [...table.byName.keys()].map(indexOf)))].sort((a, b) => a - b)) {
    if (last !== null && index - last - 1 > LONGEST_RUN_MONTHS) {
      found.push(gapBefore(monthAt(index)));
      last = index - 1;
    }
    for (let each = (last ?? index - 1) + 1; each <= index; each += 1) {
      found.push(monthAt(each));
    }
    last = index;
  }
  return found;
}

const NAMES = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
// So many months are as wide as the label of one with its year.
const WIDE = 3;

// The year where it begins, and every third month; the first month by its name, so that the others can be counted.
export function axisLabel(all: readonly string[], at: number): string {
  const begin = all.slice(0, at + 1).findLastIndex(isGap) + 1;
  const [months, index] = [all.slice(begin), at - begin];
  if (isGap(all[at] ?? "")) {
    return "";
  }
  const [year = "", number = ""] = months[index]?.split("-") ?? [];
  const isYear = (at: number) => months[at]?.endsWith("-01") === true;
  const beginsWide = !isYear(0) && ![1, 2, 3].some(isYear);
  const name = NAMES[Number(number) - 1] ?? "";
  if (isYear(index)) {
    return year;
  }
  if (index === 0) {
    return beginsWide ? `${name} ${year}` : isYear(1) ? "" : name;
  }
  const isCovered = beginsWide ? index < WIDE : index === 1;
  return isCovered || isYear(index - 1) || (Number(number) - 1) % 3 ? "" : name;
}

function indexOf(month: string): number {
  return Number(month.slice(0, 4)) * 12 + Number(month.slice(5)) - 1;
}

function monthAt(index: number): string {
  return `${Math.floor(index / 12)}-${String((index % 12) + 1).padStart(2, "0")}`;
}

// Something is about to change: a load or a run is active, or somebody waits for the first load of all.
export function isBusy({ connections, busy_dags: dags }: Pick<Months, "connections" | "busy_dags">): boolean {
  const tables = connections.flatMap((seen) => seen.tables);
  const awaitsFirst = !tables.length && connections.length > 0 && connections.every(({ error, unread }) => !error && !unread);
  return awaitsFirst || dags.length > 0 || tables.some(({ months }) => months.some(({ state }) => state === "loading"));
}
