// Periods that need a person, as rows of a list: those of one table that have the same cause stand in one.
import type { PeriodRow } from "../api/types";
import type { Problem, TableRow } from "./fleet";
import { nameOfPeriod } from "./period";

export interface Need {
  table: TableRow;
  // The one whose trouble is the newest: it stands for the others.
  first: PeriodRow;
  // All of them, in order.
  periods: PeriodRow[];
}

// Errors are cut at so many characters at the server, where those of one cause may end differently.
const COMPARED_CHARACTERS = 250;

// The cause without what differs from period to period: names of files, numbers of rows and sizes, ids of queries.
function causeOf({ period, why }: PeriodRow): string {
  const ofPeriod = new RegExp([...namesIn(period), "[0-9a-f]{16}", "^\\W*[\\d.,]+\\W*$"].join("|"));
  return why.split(/\s+/).map((word) => (ofPeriod.test(word) ? "#" : word)).join(" ").slice(0, COMPARED_CHARACTERS);
}

// However its numbers are separated; a whole table is in no name.
function namesIn(period: string): string[] {
  const numbers = period.match(/\d+/g);
  return numbers ? [numbers.join("\\D{0,2}")] : [];
}

export function needsOf(problems: readonly Problem[]): Need[] {
  const needs = new Map<string, Need>();
  for (const { table, period } of problems) {
    const key = JSON.stringify([table.key, period.state, period.task?.dag_id, causeOf(period)]);
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

const NAMED = 2;

export function namesOf(periods: readonly PeriodRow[]): string {
  const names = periods.map(({ period }) => nameOfPeriod(period));
  const more = names.length - NAMED;
  const ends = more > 1 ? [...names.slice(0, NAMED), `${more} more`] : names;
  return [ends.slice(0, -1).join(", "), ends.at(-1)].filter(Boolean).join(" and ");
}

// What helps all of them at once.
export function statementOf(periods: readonly PeriodRow[]): string {
  return [...new Set(periods.map(({ statement }) => statement).filter(Boolean))].join("\n");
}
