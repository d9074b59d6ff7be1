// Texts of months, as lists and the panel show them.
import type { Inserting, Load, MonthRow } from "../api/types";
import { bytes, count, duration, ended, number, percent } from "../model/format";
import { STATES } from "../model/states";

export function done(month: MonthRow): string {
  if (month.state === "merging" || month.state === "too_many_parts") {
    return month.state === "merging" ? count(month.parts, "part") : number(month.parts);
  }
  if (month.step === "verify" || month.step === "publish") {
    return month.step === "verify" ? "verifying" : "publishing";
  }
  return month.insert?.total_rows
    ? percent(Math.min(month.insert.read_rows, month.insert.total_rows), month.insert.total_rows) : "";
}

export function stateText(month: MonthRow): string {
  return [STATES[month.state].label, done(month)].filter(Boolean).join(", ");
}

// What a month was made of. Rows of a database are no objects, and their size is estimated.
export function sourceText({ objects, source_bytes }: Pick<Load, "objects" | "source_bytes">): string {
  if (objects > 0) {
    return `${count(objects, "object")}, ${bytes(source_bytes)}`;
  }
  return source_bytes > 0 ? `rows of about ${bytes(source_bytes)}` : "no objects";
}

// What a load read: of a month to which objects were only added, the new ones alone.
export function readText(load: Load | Inserting): string {
  const all = sourceText(load);
  return load.loaded_objects === load.objects ? all : `${number(load.loaded_objects)} new of ${all}: ${bytes(load.loaded_bytes)}`;
}

// What follows the seconds of a month that was not loaded alone; empty of one that was.
export function shareText({ together }: Pick<MonthRow, "together">): string {
  return together ? `its share of one insert of ${duration(together.seconds)} that loaded ${together.months}` : "";
}

export function sentence(text: string): string {
  return ended(text.slice(0, 1).toUpperCase() + text.slice(1));
}

// What follows a figure that lacks what nodes have that do not answer.
export function withoutText(nodes: readonly string[]): string {
  return nodes.length ? `, without ${nodes.join(", ")}, ${nodes.length > 1 ? "which do" : "which does"} not answer` : "";
}
