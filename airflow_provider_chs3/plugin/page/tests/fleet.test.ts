import { describe, expect, test } from "vitest";
import type { ConnectionPeriods, PeriodRow, State } from "../src/api/types";
import { axisLabel, byGrain, countStates, gapBefore, isBusy, madeOf, matches, nested, periodsBetween, problemsOf, rowsOf, sorted, tablesOf, withoutProblem, withChosen, type Filter } from "../src/model/fleet";

function period(name: string, state: State = "published", more: Partial<PeriodRow> = {}): PeriodRow {
  return {
    period: name, state, why: "", since: "", statement: "", hint: "", rows: 1, size_bytes: 1, parts: 1, objects: 1, source_bytes: 1, published_at: "",
    insert_seconds: null, together: null, ledger_database: "", rows_per_second: null, task: null, seal: null, step: null, insert: null, ...more,
  };
}

const NOTHING = { published: 0, newest: "", never_loaded: 0, rows: 0, published_at: "", dag_ids: [] };

function connection(connId: string, nodes: string[], tables: Record<string, PeriodRow[]>): ConnectionPeriods {
  return {
    conn_id: connId, error: "", seen_at: 1, unread: "", cluster: "c", nodes: nodes.map((name) => ({ name, error: "", is_missed: false })),
    tables: Object.entries(tables).map(([table, periods]) => ({ database: "d", table, base: null, view: "", periods, unread: NOTHING })), axis: [],
  };
}

const NONE: Filter = { search: "", states: new Set(), connection: "", database: "", dag: "", named: null };

describe("tables", () => {
  test("of two connections to the same nodes are listed once, with both named", () => {
    const found = tablesOf([connection("a", ["n1", "n2"], { t: [period("2026-01")] }), connection("b", ["n2", "n1"], { t: [period("2026-01")] })]);
    expect(found.map((table) => table.connIds)).toEqual([["a", "b"]]);
  });

  test("name the nodes that do not answer, and of these the ones whose rows no replica has", () => {
    const seen = connection("a", ["n1"], { t: [period("2026-01")] });
    const silent = [{ name: "n2", error: "refused", is_missed: false }, { name: "n3", error: "refused", is_missed: true }];
    const found = tablesOf([{ ...seen, nodes: [...seen.nodes, ...silent] }]);
    expect(found.map((table) => [table.silentNodes, table.missedNodes])).toEqual([[["n2", "n3"], ["n3"]]]);
  });

  test("of the same name on other nodes are two", () => {
    const found = tablesOf([connection("a", ["n1"], { t: [period("2026-01")] }), connection("b", ["n2"], { t: [period("2026-01")] })]);
    expect(found).toHaveLength(2);
  });

  test("of connections whose nodes nobody knows are not taken for the same", () => {
    expect(tablesOf([connection("a", [], { t: [period("2026-01")] }), connection("b", [], { t: [period("2026-01")] })])).toHaveLength(2);
  });

  test("come in the order of their worst period, then by name, of which the 2nd stands before the 10th", () => {
    const tables = tablesOf([connection("a", ["n"], {
      t10: [period("2026-01")], t2: [period("2026-01")], z: [period("2026-01"), period("2026-02", "failed")], s: [period("2026-01", "stuck")],
    })]);
    expect(sorted(tables, "urgency").map((table) => table.table)).toEqual(["s", "z", "t2", "t10"]);
  });

  test("that are derived stand below what they are made of, however they are sorted, and at the top where that is not shown", () => {
    const tables = tablesOf([connection("a", ["n"], { a: [], trips: [], zones: [], years: [], m: [], o: [] })]);
    const bases: Record<string, string> = { a: "d.zones", zones: "d.trips", years: "d.elsewhere", m: "d.o", o: "d.m" };
    const found = nested(tables.map((table) => ({ ...table, base: bases[table.table] ?? null })));
    expect(found.map(({ table, depth }) => [table.table, depth])).toEqual([
      ["trips", 0], ["zones", 1], ["a", 2], ["years", 0], ["m", 0], ["o", 0],
    ]);
    expect([madeOf({ base: null, view: "" }), madeOf({ base: "d.t", view: "" }), madeOf({ base: "d.t", view: "d.v" })])
      .toEqual(["", "Derived from d.t", "Derived from d.t by the view d.v"]);
  });

  test("match only if all that is chosen fits", () => {
    const task = { dag_id: "mine", run_id: "r", task_id: "t", map_index: -1 };
    const [table] = tablesOf([connection("a", ["n"], { Trips: [period("2026-01", "failed", { task })] })]);
    const fits = (filter: Partial<Filter>) => table && matches(table, { ...NONE, ...filter });
    expect([
      fits({ search: " trip " }), fits({ search: "x" }), fits({ states: new Set(["failed"]) }), fits({ states: new Set(["stuck"]) }),
      fits({ dag: "mine" }), fits({ dag: "other" }), fits({ connection: "a" }), fits({ connection: "b" }),
      fits({ named: { connId: null, database: "d", table: "Trips" } }), fits({ named: { connId: null, database: "e", table: "Trips" } }),
    ]).toEqual([true, false, true, false, true, false, true, false, true, false]);
  });
});

test("periods that are not shown count, and those of earlier times that were asked for count once", () => {
  const unread = { published: 40, newest: "2025-12", never_loaded: 2, rows: 400, published_at: "2026-01-01 00:00:00", dag_ids: ["mine"] };
  const seen = connection("a", ["n"], { t: [period("2026-01", "failed")] });
  const newest = { ...seen, tables: seen.tables.map((table) => ({ ...table, unread })) };
  const earlier = connection("a", ["n"], { t: [period("2025-10"), period("2025-11", "never_loaded", { rows: 0 }), period("2026-01", "failed")] });
  for (const found of [tablesOf([newest]), tablesOf([newest], [earlier])]) {
    expect(Object.fromEntries(countStates(found))).toEqual({ failed: 1, published: 40, never_loaded: 2 });
    expect(found.map((table) => [rowsOf(table), table.dags, matches(table, { ...NONE, states: new Set(["published"]) })])).toEqual([[401, ["mine"], true]]);
  }
  expect(tablesOf([newest], [earlier]).map((table) => table.periods.map((each) => each.period))).toEqual([["2025-10", "2025-11", "2026-01"]]);
  expect(periodsBetween(tablesOf([newest]), ["2025-12", "2024-01-05", "2026-01"])).toEqual(["2025-12", "2026-01"]);
});

describe("problems", () => {
  const task = { dag_id: "g", run_id: "r", task_id: "t", map_index: -1 };
  const tables = tablesOf([connection("a", ["n"], { t: [
    period("2026-01", "failed", { since: "2026-02-01 00:00:00" }), period("2026-02", "failed", { since: "2026-03-01 00:00:00" }),
    period("2026-03", "stuck"), period("2026-04", "unfinished", { task }), period("2026-05", "loading"),
  ] })]);

  test("are the periods that need a person, the most urgent and newest first, and those that wait for a run", () => {
    expect(problemsOf(tables, new Set()).map(({ period: { period: name } }) => name)).toEqual(["2026-03", "2026-02", "2026-01", "2026-04"]);
  });

  test("are not the periods whose DAG is running", () => {
    expect(problemsOf(tables, new Set(["unfinished"] as const), ["other"])).toHaveLength(1);
    expect(problemsOf(tables, new Set(["unfinished"] as const), ["g"])).toEqual([]);
  });

  test("that began in the same second come with the newest period first", () => {
    const since = "2026-02-01 00:00:00";
    const both = tablesOf([connection("a", ["n"], { t: [period("2026-01", "failed", { since }), period("2026-02", "failed", { since })] })]);
    expect(problemsOf(both, new Set()).map(({ period: { period: name } }) => name)).toEqual(["2026-02", "2026-01"]);
  });

  test("are those of the chosen states", () => {
    expect(problemsOf(tables, new Set(["stuck"] as const)).map(({ period: { period: name } }) => name)).toEqual(["2026-03"]);
    expect(problemsOf(tables, new Set(["loading"] as const))).toEqual([]);
  });

  test("are counted by state", () => {
    expect(Object.fromEntries(countStates(tables))).toEqual({ failed: 2, stuck: 1, unfinished: 1, loading: 1 });
  });
});

test("strips have every period from the first to the last of all tables", () => {
  const tables = tablesOf([connection("a", ["n"], { t: [period("2025-11")], u: [period("2026-02")] })]);
  expect(periodsBetween(tables)).toEqual(["2025-11", "2025-12", "2026-01", "2026-02"]);
});

test("a period that is years away from all others leaves them in sight", () => {
  const run = (length: number) => Array.from({ length }, (_, index) => period(`${2027 + Math.floor(index / 12)}-${String((index % 12) + 1).padStart(2, "0")}`, "never_loaded"));
  // As the server answers: longer runs of periods that are not there are left out.
  const tables = tablesOf([connection("a", ["n"], { t: [period("2026-12"), period("2029-02")], u: [period("2026-11")] })]);
  const periods = periodsBetween(tables);
  expect(periods).toEqual(["2026-11", "2026-12", gapBefore("2029-02"), "2029-02"]);
  expect(periods.map((_, index) => axisLabel(periods, index))).toEqual(["Nov 2026", "", "", "Feb 2029"]);
  const near = tablesOf([connection("a", ["n"], { t: [period("2026-12"), ...run(24), period("2029-01")] })]);
  expect([periodsBetween(near).length, countStates(near).get("never_loaded")]).toEqual([26, 24]);
});

test.each([
  ["2025-10", "2026-01", ["Oct", "", "", "2026"]],
  ["2025-11", "2026-02", ["Nov", "", "2026", ""]],
  ["2025-12", "2026-05", ["", "2026", "", "", "Apr", ""]],
  ["2026-01", "2026-04", ["2026", "", "", "Apr"]],
  ["2025-03", "2025-11", ["Mar 2025", "", "", "", "Jul", "", "", "Oct", ""]],
  ["2025-05", "2025-10", ["May 2025", "", "", "", "", "Oct"]],
])("the axis from %s to %s shows its first period, years and quarters, none over another", (first, last, labels) => {
  const periods = periodsBetween(tablesOf([connection("a", ["n"], { t: [period(first)], u: [period(last)] })]));
  expect(periods.map((_, index) => axisLabel(periods, index))).toEqual(labels);
});

test.each([
  ["2026-10-05T09Z", "2026-10-06T01Z", ["5 Oct 09Z", "", "", "", "", "", "", "", "", "18Z", "", "", "", "", "", "6 Oct", ""]],
  ["2026-10-24", "2026-11-08", ["24 Oct 2026", "", "", "", "", "", "", "", "Nov", "", "", "", "", "", "", "8"]],
  ["2026-12-30", "2027-01-02", ["30", "", "2027", ""]],
  ["2026-W48", "2027-W05", ["W48 2026", "", "", "", "", "", "2027", "", "", "", "W05"]],
  ["2025-Q4", "2026-Q4", ["", "2026", "", "Q3", ""]],
  ["2023", "2026", ["2023", "", "", "2026"]],
  ["all", "all", [""]],
])("the axis from %s to %s shows what its periods are called", (first, last, labels) => {
  const periods = periodsBetween(tablesOf([connection("a", ["n"], { t: [period(first)], u: [period(last)] })]));
  expect(periods.map((_, index) => axisLabel(periods, index))).toEqual(labels);
});

test("tables by day, by month and whole ones are lists of their own, the shortest periods first", () => {
  const tables = tablesOf([connection("a", ["n"], { whole: [period("all")], t: [period("2026-10")], u: [period("2026-10-05")], v: [period("2026-11")] })]);
  expect(byGrain(tables).map(([grain, those]) => [grain, ...those.map(({ table }) => table)])).toEqual([["day", "u"], ["month", "t", "v"], ["table", "whole"]]);
});

test("it is polled more often while a load or a run is active, and before the first load of all", () => {
  const calm = [connection("a", ["n"], { t: [period("2026-01")] })];
  const loading = [connection("a", ["n"], { t: [period("2026-01", "loading")] })];
  const [empty, down] = [connection("a", ["n"], {}), { ...connection("b", [], {}), error: "no answer" }];
  const busy = (connections: ConnectionPeriods[], dags: string[] = []) => isBusy({ connections, busy_dags: dags });
  expect([busy(calm), busy(calm, ["d"]), busy(loading), busy([empty]), busy([empty, down]), busy([])]).toEqual([false, true, true, true, false, false]);
});

test("a filter that an address has chosen can be seen and undone, though nothing is of it", () => {
  const options = [["a", "a"]] as const;
  expect([withChosen(options, ""), withChosen(options, "a")]).toEqual([options, options]);
  expect(withChosen(options, "gone")).toEqual([["a", "a"], ["gone", "gone (not here)"]]);
});

test("a failed run is shown by a period that failed in it, not by one that failed in an earlier run", () => {
  const run = { dag_id: "g", run_id: "new", ended_at: 1 };
  const explained = (state: State, runId: string, dagId = "g") => {
    const task = { dag_id: dagId, run_id: runId, task_id: "t", map_index: -1 };
    const [table] = tablesOf([connection("a", ["n"], { t: [period("2026-01", state, { task })] })]);
    return !withoutProblem([run], table ? problemsOf([table], new Set()) : []).length;
  };
  expect([explained("failed", "new"), explained("failed", "old"), explained("failed", "new", "other")]).toEqual([true, false, false]);
  expect([explained("unfinished", "new"), explained("unfinished", "old"), explained("changed_in_storage", "new")]).toEqual([true, false, false]);
  expect([explained("stuck", "old"), explained("changed", "old"), explained("published", "new")]).toEqual([true, true, false]);
});
