// The steps of a load in words, and how far it is in them, as far as its records and queries show.
import type { FinishedLoad, Inserting, PeriodRow } from "../api/types";
import { compareNames } from "./format";

export const STEPS: Record<string, string> = {
  list: "List objects",
  inspect: "Inspect, compare",
  plan: "Plan",
  stage: "Stage",
  insert: "Insert",
  verify: "Verify",
  publish: "Publish",
  start_over: "Failed attempts",
};

// The same where there is little room.
export const SHORT_STEPS: Record<string, string> = { ...STEPS, list: "List", inspect: "Inspect", start_over: "Retries" };

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

export function progressOf(
  inserting: Pick<Inserting, "seconds_by_step">, { step: current, insert }: Pick<PeriodRow, "step" | "insert">, last: FinishedLoad | null,
): StepProgress[] {
  const spent = inserting.seconds_by_step;
  const failed = spent.start_over ?? null;
  const known: readonly string[] = [...(failed === null ? [] : ["start_over"]), ...RECORDED, ...LATER];
  const reached = known.indexOf(current ?? "insert");
  return known.map((step) => {
    const before = spent[step] ?? null;
    const seconds = step === "insert" && insert ? (before ?? 0) + insert.seconds : before;
    return {
      step, seconds,
      state: step === current ? "current" : known.indexOf(step) < reached ? "done" : "waiting",
      lastSeconds: last?.seconds_by_step[step] ?? null,
    };
  });
}

export interface TimeLeft {
  // Until all rows are read. They are read ahead, so that sorting and writing the last ones comes on top.
  leastSeconds: number;
  // Until the insert ends, if it takes as long a row as that of the last load; null if that is not known, or passed.
  usualSeconds: number | null;
}

export function timeLeft(insert: NonNullable<PeriodRow["insert"]>, last: FinishedLoad | null): TimeLeft | null {
  const { total_rows: total, read_rows: read, rows_per_second: speed, seconds } = insert;
  if (!total || !speed) {
    return null;
  }
  const leastSeconds = Math.max(0, total - read) / speed;
  const lastSeconds = last?.rows ? last.seconds_by_step.insert ?? null : null;
  const usualSeconds = last && lastSeconds !== null ? (lastSeconds * total) / last.rows - seconds : 0;
  return { leastSeconds, usualSeconds: usualSeconds > leastSeconds ? usualSeconds : null };
}

type Insert = NonNullable<PeriodRow["insert"]>;

export interface SeenNode {
  name: string;
  read_rows: number;
  written_rows: number;
  memory_bytes: number;
  isDone: boolean;
}

// An insert over all answers: a node that has read its share is in no later one, and still counts.
export interface SeenInsert {
  latest: Insert;
  nodes: readonly SeenNode[];
  // Why the time left became longer; empty if it did not.
  whyLonger: string;
}

export function seenInsert(before: SeenInsert | null, latest: Insert): SeenInsert {
  const same = before?.latest.query_id === latest.query_id ? before : null;
  const read = Math.max(same?.latest.read_rows ?? 0, latest.read_rows);
  const insert = { ...latest, read_rows: read };
  const running = new Map(latest.nodes.map((node) => [node.name, node]));
  const done = (same?.nodes ?? []).filter(({ name }) => !running.has(name)).map((node) => ({ ...node, isDone: true }));
  const known = new Map(same?.nodes.map((node) => [node.name, node.read_rows]));
  const nodes = latest.nodes.map((node) => ({
    ...node, read_rows: Math.max(node.read_rows, known.get(node.name) ?? 0), isDone: false,
  }));
  return {
    latest: insert,
    nodes: [...nodes, ...done].sort((one, other) => compareNames(one.name, other.name)),
    whyLonger: same ? whyLonger(same, insert, done.map(({ name }) => name)) : "",
  };
}

function whyLonger(before: SeenInsert, now: Insert, done: readonly string[]): string {
  const [was, is] = [timeLeft(before.latest, null), timeLeft(now, null)];
  // Less than a second is not shown.
  if (!was || !is || is.leastSeconds < was.leastSeconds + 1) {
    return "";
  }
  const since = done.filter((name) => before.nodes.some((node) => node.name === name && !node.isDone));
  return since.length ? `longer than before: ${since.join(", ")} ${since.length > 1 ? "have" : "has"} finished reading` : "longer than before: reading has slowed down";
}
