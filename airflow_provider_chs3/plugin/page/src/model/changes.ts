// What was done to a period since it was published, in words: what, where, since when, by whom.
import type { Changes } from "../api/types";
import { count, time } from "./format";
import { listed } from "./needs";

type Change = Changes["nodes"][number]["change"];

function rowsText({ rows, published_rows: published }: Change): string {
  const more = rows - (published ?? 0);
  if (published === null) {
    return `${count(rows, "row")} that no load wrote`;
  }
  return more ? `${count(Math.abs(more), "row")} ${more > 0 ? "more" : "fewer"}` : "as many rows as published, but others";
}

const statementsText = ({ statements }: Change): string =>
  [...new Set(statements.map(({ what, user }) => what + (user ? ` by user ${user}` : "")))].join(", ");

const sinceOf = ({ statements, since }: Change): number | null => statements[0]?.at ?? since;

// Without the date, if that is today's.
function timeText(at: number, now: number, zone: string): string {
  const [text, today] = [at, now].map((seconds) => time(new Date(seconds * 1_000), zone)) as [string, string];
  return text.slice(text.slice(0, 10) === today.slice(0, 10) ? 11 : 0, 16);
}

function groupedBy<Item>(items: readonly Item[], keyOf: (item: Item) => string): [string, Item[]][] {
  const found = new Map<string, Item[]>();
  items.forEach((each) => found.set(keyOf(each), [...(found.get(keyOf(each)) ?? []), each]));
  return [...found];
}

// Nodes on which the same was done share a text.
export function changesText({ nodes }: Pick<Changes, "nodes">, now: number, zone: string): string {
  return groupedBy(nodes, ({ change }) => statementsText(change)).map(([statements, those]) => {
    const where = groupedBy(those, ({ change }) => rowsText(change)).map(([text, alike]) => `${text} on ${alike.length > 1 ? "nodes" : "node"} ${listed(alike.map(({ name }) => name))}`).join(", ");
    const times = those.flatMap(({ change }) => sinceOf(change) ?? []);
    const since = times.length ? ` since ${timeText(Math.min(...times), now, zone)}` : "";
    return statements ? `${statements}${since}: ${where}` : where + since;
  }).join("; ");
}

// Why more is not known, each reason once.
export const silentText = ({ nodes }: Pick<Changes, "nodes">): string => [...new Set(nodes.flatMap(({ change }) => change.silent))].join("; ");
