// Texts of periods, as lists and the panel show them.
import type { Inserting, Load, PeriodRow } from "../api/types";
import { bytes, count, duration, ended, number, percent } from "../model/format";
import { STATES } from "../model/states";

export function done(period: PeriodRow): string {
  if (period.state === "merging" || period.state === "merges_wait") {
    return count(period.parts, "part");
  }
  if (period.state === "too_many_parts") {
    return number(period.parts);
  }
  if (period.step === "verify" || period.step === "publish") {
    return period.step === "verify" ? "verifying" : "publishing";
  }
  return period.insert?.total_rows
    ? percent(Math.min(period.insert.read_rows, period.insert.total_rows), period.insert.total_rows) : "";
}

export function stateText(period: PeriodRow): string {
  return [STATES[period.state].label, done(period)].filter(Boolean).join(", ");
}

// What a period was made of. Rows of a database are no objects, and their size is estimated.
export function sourceText({ objects, source_bytes }: Pick<Load, "objects" | "source_bytes">): string {
  if (objects > 0) {
    return `${count(objects, "object")}, ${bytes(source_bytes)}`;
  }
  return source_bytes > 0 ? `rows of about ${bytes(source_bytes)}` : "no objects";
}

// What a load read: of a period to which objects were only added, the new ones alone.
export function readText(load: Load | Inserting): string {
  const all = sourceText(load);
  return load.loaded_objects === load.objects ? all : `${number(load.loaded_objects)} new of ${all}: ${bytes(load.loaded_bytes)}`;
}

// What follows the seconds of a period that was not loaded alone; empty of one that was.
export function shareText({ together }: Pick<PeriodRow, "together">): string {
  return together ? `its share of one insert of ${duration(together.seconds)} that loaded ${together.periods}` : "";
}

// What a proof found of a period that has not changed since; empty where there was none.
export function sealText({ seal }: Pick<PeriodRow, "seal">): string {
  return seal ? `proved ${seal.proved_at.slice(0, 10)}, ${seal.found}` : "";
}

export function sentence(text: string): string {
  return ended(text.slice(0, 1).toUpperCase() + text.slice(1));
}

// What follows a figure that lacks what nodes have that do not answer.
export function withoutText(nodes: readonly string[]): string {
  return nodes.length ? `, without ${nodes.join(", ")}, ${nodes.length > 1 ? "which do" : "which does"} not answer` : "";
}
