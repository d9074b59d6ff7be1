// What needs a person, as rows of a list: periods of one table that have the same cause stand in one, and so do runs.
import type { FailedRun, PeriodRow } from "../api/types";
import type { Problem, TableRow } from "./fleet";
import { nameOfPeriod } from "./period";
import { AWAITS_MERGES } from "./states";

export interface Need {
  table: TableRow;
  // The one whose trouble is the newest: it stands for the others.
  first: PeriodRow;
  // All of them, in order.
  periods: PeriodRow[];
}

// Errors are cut at so many characters at the server, where those of one cause may end differently.
const COMPARED_CHARACTERS = 250;

// The cause without what differs from period to period: names of files, numbers of rows and sizes, ids of queries; of
// merges the nodes and their parts. Periods of a held arrival are decided on together.
function causeOf({ period, state, why, arrival }: PeriodRow): string {
  return AWAITS_MERGES.has(state) ? "" : arrival || withoutWords(why, namesIn(period));
}

function withoutWords(text: string, patterns: readonly string[]): string {
  const differs = new RegExp([...patterns, "[0-9a-f]{16}", "^\\W*[\\d.,]+\\W*$"].join("|"));
  return text.split(/\s+/).map((word) => (differs.test(word) ? "#" : word)).join(" ").slice(0, COMPARED_CHARACTERS);
}

// However its numbers are separated; a whole table is in no name.
function namesIn(period: string): string[] {
  const numbers = period.match(/\d+/g);
  return numbers ? [numbers.join("\\D{0,2}")] : [];
}

export function needsOf(problems: readonly Problem[]): Need[] {
  const needs = new Map<string, Need>();
  for (const { table, period } of problems) {
    const key = JSON.stringify([table.key, period.state, period.task?.dag_id, period.ledger_database, causeOf(period)]);
    const known = needs.get(key);
    if (known) {
      known.periods.push(period);
    } else {
      needs.set(key, { table, first: period, periods: [period] });
    }
  }
  const inOrder = (one: PeriodRow, other: PeriodRow) => one.period.localeCompare(other.period);
  return [...needs.values()].map((need) => ({ ...need, periods: need.periods.sort(inOrder) }));
}

const plain = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

// Those of several tables of a connection whose newest loads failed for the same cause, whatever it names of the table.
export function needsByCause(needs: readonly Need[]): Need[][] {
  const found = new Map<string, Need[]>();
  for (const need of needs) {
    const { table, first } = need;
    const cause = () => withoutWords(first.why, [...namesIn(first.period), `(?<!\\w)${plain(table.table)}(?!\\w)`]);
    const key = JSON.stringify(first.state === "failed" ? [table.connIds[0], cause()] : [table.key, found.size]);
    found.set(key, [...(found.get(key) ?? []), need]);
  }
  return [...found.values()];
}

// Failed runs that ended for the same cause, whatever it names of its DAG, run and day; one whose cause is unknown is alone.
export function runsByCause(runs: readonly FailedRun[], causes: ReadonlyMap<string, string>): FailedRun[][] {
  const found = new Map<string, FailedRun[]>();
  for (const run of runs) {
    const cause = causes.get(run.dag_id);
    const key = cause ? withoutWords(cause.replaceAll(run.dag_id, "#"), ["\\d{4}-\\d\\d"]) : `\n${run.dag_id}`;
    found.set(key, [...(found.get(key) ?? []), run]);
  }
  return [...found.values()];
}

// The object that an error of a load names as the one it could not read; empty if it names none.
export function badObjectIn(text: string): string {
  return /\bfrom row [\d,]+ of (\S+\/\S+?):? /.exec(text)?.[1] ?? /(\S+\/\S+) cannot be read as /.exec(text)?.[1] ?? "";
}

// What helps a load that could not read an object, or not convert what an expression makes of it.
export function wayOut(text: string, objects: string): string {
  return `Correct ${text.includes("cannot be read as ") ? "files or csv" : "select"}, or replace ${objects}`;
}

const quoted = (word: string) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

// The command that keeps rows which no load wrote: the source is that of the loads, which the page does not know.
export function adoptCommand({ table, database, connIds, cluster }: TableRow, periods: readonly PeriodRow[]): string {
  const words = ["--conn-id", connIds[0] ?? "", "--database", database, "--table", table, ...(cluster ? ["--cluster", cluster] : [])];
  return ["chs3 adopt", ...words.map(quoted), ...periods.flatMap(({ period }) => (period === "all" ? [] : ["--period", period])), "--bucket BUCKET --key KEY"].join(" ");
}

const NAMED = 2;

export const namesOf = (periods: readonly PeriodRow[]): string => listed(periods.map(({ period }) => nameOfPeriod(period)));

export function listed(names: readonly string[]): string {
  const more = names.length - NAMED;
  const ends = more > 1 ? [...names.slice(0, NAMED), `${more} more`] : names;
  return [ends.slice(0, -1).join(", "), ends.at(-1)].filter(Boolean).join(" and ");
}

// What helps all of them at once.
export function statementOf(periods: readonly PeriodRow[]): string {
  return [...new Set(periods.map(({ statement }) => statement).filter(Boolean))].join("\n");
}
