// Months that need a person, as rows of a list: those of one table that have the same cause stand in one.
import type { MonthRow } from "../api/types";
import type { Problem, TableRow } from "./fleet";

export interface Need {
  table: TableRow;
  // The one whose trouble is the newest: it stands for the others.
  first: MonthRow;
  // All of them, in order.
  months: MonthRow[];
}

// Errors are cut at so many characters at the server, where those of one cause may end differently.
const COMPARED_CHARACTERS = 250;

// The cause without what differs from month to month: names of files, numbers of rows and sizes, ids of queries.
function causeOf({ month, why }: MonthRow): string {
  const [year = "", number = ""] = month.split("-");
  const ofMonth = new RegExp(`${year}\\D?${number}|[0-9a-f]{16}|^\\W*[\\d.,]+\\W*$`);
  return why.split(/\s+/).map((word) => (ofMonth.test(word) ? "#" : word)).join(" ").slice(0, COMPARED_CHARACTERS);
}

export function needsOf(problems: readonly Problem[]): Need[] {
  const needs = new Map<string, Need>();
  for (const { table, month } of problems) {
    const key = JSON.stringify([table.key, month.state, month.task?.dag_id, causeOf(month)]);
    const known = needs.get(key);
    if (known) {
      known.months.push(month);
    } else {
      needs.set(key, { table, first: month, months: [month] });
    }
  }
  const inOrder = (one: MonthRow, other: MonthRow) => one.month.localeCompare(other.month);
  return [...needs.values()].map((need) => ({ ...need, months: need.months.sort(inOrder) }));
}

const NAMED = 2;

export function namesOf(months: readonly MonthRow[]): string {
  const names = months.map(({ month }) => month);
  const more = names.length - NAMED;
  const ends = more > 1 ? [...names.slice(0, NAMED), `${more} more`] : names;
  return [ends.slice(0, -1).join(", "), ends.at(-1)].filter(Boolean).join(" and ");
}

// What helps all of them at once.
export function statementOf(months: readonly MonthRow[]): string {
  return [...new Set(months.map(({ statement }) => statement).filter(Boolean))].join("\n");
}
