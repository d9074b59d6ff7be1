// How far a load is in its steps, as far as its records and its queries tell.
import type { FinishedLoad, Inserting, MonthRow, Step } from "../api/types";

// A load records itself when it has staged; what it does then shows in its queries alone.
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
  inserting: Pick<Inserting, "seconds_by_step">, insert: MonthRow["insert"], last: FinishedLoad | null,
): StepProgress[] {
  const spent = inserting.seconds_by_step;
  const failed = secondsOf(spent, "start_over");
  const known: readonly string[] = [...(failed === null ? [] : ["start_over"]), ...RECORDED, ...LATER];
  return known.map((step) => {
    const before = secondsOf(spent, step);
    const seconds = step === "insert" && insert ? (before ?? 0) + insert.seconds : before;
    const isLater = (LATER as readonly string[]).includes(step);
    return {
      step, seconds,
      state: !isLater ? "done" : step === "insert" && insert ? "current" : "waiting",
      lastSeconds: last && secondsOf(last.seconds_by_step, step),
    };
  });
}
