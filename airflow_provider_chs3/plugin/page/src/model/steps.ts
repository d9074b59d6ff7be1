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
