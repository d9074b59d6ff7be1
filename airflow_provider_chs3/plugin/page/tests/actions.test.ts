import { expect, test } from "vitest";
import { outcome } from "../src/actions/airflow";
import { heldOf, kindsFor as kindsOf, obstacle, runsLike } from "../src/actions/kinds";
import type { PeriodRow, Rights } from "../src/api/types";
import type { TableRow } from "../src/model/fleet";

const TASK = { dag_id: "d", run_id: "r", task_id: "t", map_index: -1 };
const PERIOD = { state: "published", parts: 1, published_at: "2026-01-01 00:00:00", task: TASK } as PeriodRow;
const RUN = { dag_id: "d", dag_run_id: "r2" };
const ALL = { dag_id: "d", is_paused: false, may_start_runs: true, may_end_tasks: true, may_edit: true };
const RIGHTS: Rights = { dag: ALL, actions_dag: { ...ALL, dag_id: "actions" }, actions_dag_id: "actions", reload_options: {} };

const kindsFor = (...periods: PeriodRow[]) => kindsOf(periods);

test("each state has the actions that make sense", () => {
  expect(kindsFor(PERIOD)).toEqual(["reload", "merge", "restore", "forget"]);
  expect(kindsFor({ ...PERIOD, state: "pinned" })).toEqual(["unpin", "merge", "forget"]);
  expect(kindsFor({ ...PERIOD, state: "loading" })).toEqual(["end"]);
  expect(kindsFor({ ...PERIOD, task: null })).toEqual(["merge", "restore", "forget"]);
  expect(kindsFor({ ...PERIOD, state: "paused" })).toEqual(["unpause", "reload", "merge", "forget"]);
  expect(kindsFor({ ...PERIOD, state: "held" })).toEqual(["approve", "discard", "reload", "merge", "forget"]);
  expect(kindsFor({ ...PERIOD, parts: 0, state: "gone" })).toEqual(["forget"]);
  expect(kindsFor({ ...PERIOD, parts: 0, published_at: "", state: "failed" })).toEqual(["reload"]);
  expect(kindsFor({ ...PERIOD, parts: 0, published_at: "", state: "overdue" })).toEqual(["reload"]);
});

test("what stands in the way is said", () => {
  expect(obstacle("reload", RIGHTS)).toBe("");
  expect(obstacle("reload", { ...RIGHTS, dag: null })).toContain("cannot be imported");
  expect(obstacle("end", { ...RIGHTS, dag: { ...ALL, may_end_tasks: false } })).toContain("end tasks of DAG d");
  expect(obstacle("unpause", { ...RIGHTS, dag: { ...ALL, may_edit: false } }, "me")).toBe("Airflow does not let you edit DAG d: ask its owner, me, or somebody with the permission.");
  expect(obstacle("merge", { ...RIGHTS, actions_dag: { ...ALL, dag_id: "actions", may_start_runs: false } }, "me")).toBe("Airflow does not let you start runs of DAG actions.");
  expect(obstacle("merge", { ...RIGHTS, actions_dag: null })).toContain("add the DAG actions");
});

test("a run that ends well without loading the period is no success", () => {
  const before = PERIOD.published_at;
  const again = { ...PERIOD, published_at: "2026-01-02 00:00:00", task: { ...TASK, run_id: RUN.dag_run_id } };
  expect(outcome({ ...RUN, state: "success" }, before, PERIOD, true)).toMatchObject({ isOver: true, isGood: false });
  expect(outcome({ ...RUN, state: "success" }, before, again, true)).toMatchObject({ isOver: true, isGood: true });
  expect(outcome({ ...RUN, state: "failed" }, before, PERIOD, true)).toMatchObject({ isOver: true, isGood: false });
  expect(outcome({ ...RUN, state: "running" }, before, PERIOD, false)).toMatchObject({ isOver: false });
});

test("what another run published meanwhile is not a run's own success", () => {
  const before = PERIOD.published_at;
  const byOther = { ...PERIOD, published_at: "2026-01-02 00:00:00" };
  const own = { ...byOther, task: { ...TASK, run_id: RUN.dag_run_id } };
  const textOf = (state: string, period: PeriodRow) => outcome({ ...RUN, state }, before, period, true).text;
  expect(textOf("running", byOther)).toBe("The run is running.");
  // It has begun after the other one had published.
  expect(textOf("running", { ...own, state: "loading" })).toBe("The run is running.");
  expect(textOf("running", own)).toContain("has been loaded again");
  expect(outcome({ ...RUN, state: "success" }, before, byOther, true)).toMatchObject({ isOver: true, isGood: false });
  expect(textOf("success", byOther)).toContain("belongs to another run");
});

test("a run that has just ended is not judged by a period that was looked at before", () => {
  expect(outcome({ ...RUN, state: "success" }, PERIOD.published_at, PERIOD, false)).toMatchObject({ isOver: false });
});

test("of several periods, what makes sense for each is offered, and what loads them again only if one DAG does", () => {
  const failed = { ...PERIOD, state: "failed" } as PeriodRow;
  const ofOther = { ...PERIOD, task: { ...TASK, dag_id: "e" } };
  expect(kindsFor(PERIOD, PERIOD)).toEqual(["reload", "merge", "restore", "forget"]);
  expect(kindsFor(PERIOD, failed)).toEqual(["reload", "merge", "forget"]);
  expect(kindsFor(PERIOD, ofOther)).toEqual(["merge", "restore", "forget"]);
  expect(kindsFor(PERIOD, { ...PERIOD, state: "loading" })).toEqual([]);
  expect(kindsFor({ ...PERIOD, state: "paused" }, { ...PERIOD, state: "paused" })).toEqual(["reload", "merge", "forget"]);
});

test("periods are loaded again by runs like those that loaded them last", () => {
  const [one, two, three] = ["r", "s", "r"].map((run_id, number) => ({ ...PERIOD, period: String(number), task: { ...TASK, run_id } }));
  expect(runsLike([one, two, three] as PeriodRow[])).toEqual([[one, three], [two]]);
});

test("an arrival is decided on as a whole, though one of its periods is chosen", () => {
  const [one, two, three, four] = ["a", "a", "b", ""].map((arrival, number) => ({ ...PERIOD, state: "held", period: String(number), arrival })) as
    [PeriodRow, PeriodRow, PeriodRow, PeriodRow];
  const table = { periods: [one, two, three, four] } as TableRow;
  expect(heldOf({ table, periods: [two] })).toEqual([one, two]);
  expect(heldOf({ table, periods: [four] })).toEqual([four]);
});
