// Texts of months, as lists and the panel show them.
import type { MonthRow } from "../api/types";
import { count, percent } from "../model/format";
import { STATES } from "../model/states";

export function done(month: MonthRow): string {
  if (month.state === "merging" || month.state === "too_many_parts") {
    return count(month.parts, "part");
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

export function sentence(text: string): string {
  const whole = text.slice(0, 1).toUpperCase() + text.slice(1);
  return /[.…!?]$/.test(whole) ? whole : `${whole}.`;
}
