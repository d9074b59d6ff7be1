import { describe, expect, test } from "vitest";
import { progressOf, seenInsert, timeLeft } from "../src/model/steps";

const RECORDED = { list: 1, inspect: 2, plan: 0.5, stage: 0.25 };
const INSERT = { query_id: "q", read_rows: 1, total_rows: 2, read_bytes: 1, seconds: 10, rows_per_second: 1, nodes: [] };

const statesOf = (steps: ReturnType<typeof progressOf>) => Object.fromEntries(steps.map(({ step, state }) => [step, state]));

const during = (step: "insert" | "verify" | "publish" | null) => ({ step, insert: step === "insert" ? INSERT : null });

describe("steps of a running load", () => {
  test.each([
    ["insert", { insert: "current", verify: "waiting", publish: "waiting" }],
    ["verify", { insert: "done", verify: "current", publish: "waiting" }],
    ["publish", { insert: "done", verify: "done", publish: "current" }],
  ] as const)("are those that it has recorded, then those before %s, which it is at", (step, later) => {
    expect(statesOf(progressOf({ seconds_by_step: RECORDED }, during(step), null))).toEqual({
      list: "done", inspect: "done", plan: "done", stage: "done", ...later,
    });
  });

  test("show what earlier inserts took, and the one that runs", () => {
    const found = progressOf({ seconds_by_step: { ...RECORDED, insert: 30 } }, during("insert"), null);
    expect(found.find(({ step }) => step === "insert")?.seconds).toBe(40);
  });

  test("claim none to be current while it is not known", () => {
    expect(Object.values(statesOf(progressOf({ seconds_by_step: RECORDED }, during(null), null)))).not.toContain("current");
  });

  test("have those of the last finished load beside them", () => {
    const last = { period: "2026-01", rows: 1, seconds_by_step: { insert: 7 }, published_at: 1 };
    expect(progressOf({ seconds_by_step: RECORDED }, during("insert"), last).map(({ lastSeconds }) => lastSeconds)).toEqual([null, null, null, null, 7, null, null]);
  });

  test("have failed attempts only if there were some", () => {
    const found = progressOf({ seconds_by_step: { ...RECORDED, start_over: 5 } }, during("insert"), null);
    expect(found[0]).toMatchObject({ step: "start_over", seconds: 5, state: "done" });
  });
});

describe("the time left of an insert", () => {
  const insert = { ...INSERT, read_rows: 40, total_rows: 100, rows_per_second: 20, seconds: 2 };
  const last = (rows: number, seconds: number) => ({ period: "2026-01", rows, seconds_by_step: { insert: seconds }, published_at: 1 });

  test("is at least that of reading", () => {
    expect(timeLeft(insert, null)).toEqual({ leastSeconds: 3, usualSeconds: null });
  });

  test("is not known without a total or a speed", () => {
    expect([timeLeft({ ...insert, total_rows: null }, null), timeLeft({ ...insert, rows_per_second: 0 }, null)]).toEqual([null, null]);
  });

  test.each([
    ["what the last load took for as many rows", 200, 20, { leastSeconds: 3, usualSeconds: 8 }],
    ["that of reading, if the last load was faster", 200, 9, { leastSeconds: 3, usualSeconds: null }],
    ["that of reading, if the last load read nothing", 0, 9, { leastSeconds: 3, usualSeconds: null }],
  ])("is %s", (_, rows, seconds, left) => {
    expect(timeLeft(insert, last(rows, seconds))).toEqual(left);
  });

  test("goes on after all rows are read, as the last ones are written", () => {
    expect(timeLeft({ ...insert, read_rows: 100, seconds: 6 }, last(200, 20))).toEqual({ leastSeconds: 0, usualSeconds: 4 });
  });
});

describe("an insert over all answers", () => {
  const node = (name: string, rows: number) => ({ name, read_rows: rows, written_rows: rows, memory_bytes: 1 });
  const first = { ...INSERT, total_rows: 1_000, read_rows: 300, rows_per_second: 100, nodes: [node("a", 200), node("b", 100)] };

  test("keeps nodes that are done, and why the time left became longer", () => {
    const later = { ...first, read_rows: 350, rows_per_second: 50, nodes: [node("a", 250)] };
    const seen = seenInsert(seenInsert(null, first), later);
    expect(seen.nodes.map(({ name, read_rows: rows, isDone }) => [name, rows, isDone])).toEqual([["a", 250, false], ["b", 100, true]]);
    expect(seen.whyLonger).toBe("longer than before: b has finished reading");
    const again = seenInsert(seen, { ...later, rows_per_second: 40 });
    expect(again.whyLonger).toBe("longer than before: reading has slowed down");
  });

  test("never reads less than before", () => {
    const seen = seenInsert(seenInsert(null, first), { ...first, read_rows: 100, nodes: [] });
    expect([seen.latest.read_rows, seen.nodes.map(({ isDone }) => isDone), seen.whyLonger]).toEqual([300, [true, true], ""]);
  });

  test("starts over with another insert", () => {
    const seen = seenInsert(seenInsert(null, first), { ...first, query_id: "other", read_rows: 1, nodes: [node("c", 1)] });
    expect([seen.latest.read_rows, seen.nodes.length, seen.whyLonger]).toEqual([1, 1, ""]);
  });
});
