// How far a load is in its steps, as far as its records and its queries tell.
import type { FinishedLoad, Inserting, MonthRow, Step } from "../api/types";

// A load records itself when it has staged, when a long insert has ended, and before it publishes.
const RECORDED = ["list", "inspect", "plan", "stage"] as const;
const LATER = ["insert", "verify", "publish"] as const;

export interface StepProgress {
  step: string;
  state: "done" | "current" | "waiting";
  seconds: number | null;
  // Of the last load that finished.
  lastSeconds: number | null;
}

function secondsOf(steps: readonly Step[], name: string): number | null {
  return steps.find(({ step }) => step === name)?.seconds ?? null;
}

export function progressOf(
  inserting: Pick<Inserting, "seconds_by_step">, { step: current, insert }: Pick<MonthRow, "step" | "insert">, last: FinishedLoad | null,
): StepProgress[] {
  const spent = inserting.seconds_by_step;
  const failed = secondsOf(spent, "start_over");
  const known: readonly string[] = [...(failed === null ? [] : ["start_over"]), ...RECORDED, ...LATER];
  const reached = known.indexOf(current ?? "insert");
  return known.map((step) => {
    const before = secondsOf(spent, step);
    const seconds = step === "insert" && insert ? (before ?? 0) + insert.seconds : before;
    return {
      step, seconds,
      state: step === current ? "current" : known.indexOf(step) < reached ? "done" : "waiting",
      lastSeconds: last && secondsOf(last.seconds_by_step, step),
    };
  });
}

export interface TimeLeft {
  // Until all rows are read. They are read ahead, so that sorting and writing the last ones comes on top.
  leastSeconds: number;
  // Until the insert ends, if it takes as long a row as that of the last load; null if that is not known, or passed.
  usualSeconds: number | null;
}

export function timeLeft(insert: NonNullable<MonthRow["insert"]>, last: FinishedLoad | null): TimeLeft | null {
  const { total_rows: total, read_rows: read, rows_per_second: speed, seconds } = insert;
  if (!total || !speed) {
    return null;
  }
  const leastSeconds = Math.max(0, total - read) / speed;
  const lastSeconds = last?.rows ? secondsOf(last.seconds_by_step, "insert") : null;
  const usualSeconds = last && lastSeconds !== null ? (lastSeconds * total) / last.rows - seconds : 0;
  return { leastSeconds, usualSeconds: usualSeconds > leastSeconds ? usualSeconds : null };
}
