import { describe, expect, test } from "vitest";
import type { PeriodRow, State } from "../src/api/types";
import type { Problem, TableRow } from "../src/model/fleet";
import { adoptCommand, badObjectIn, namesOf, needsByCause, needsOf, runsByCause, statementOf, wayOut } from "../src/model/needs";

function period(name: string, why: string, more: Partial<PeriodRow> = {}): PeriodRow {
  return {
    period: name, state: "failed", why, since: "", statement: "", hint: "", rows: 1, size_bytes: 1, parts: 1, objects: 1, source_bytes: 1, published_at: "",
    insert_seconds: null, loaded_rows: 1, together: null, ledger_database: "", rows_per_second: null, task: null, seal: null, step: null, insert: null, ...more,
  };
}

const table = (key: string) => ({ key } as TableRow);
const T = table("t");
const problems = (...periods: PeriodRow[]): Problem[] => periods.map((each) => ({ table: T, period: each }));
const folded = (found: readonly Problem[]) => needsOf(found).map(({ first, periods }) => [first.period, ...periods.map((each) => each.period)]);

const refused = (name: string, row: number) =>
  `its newest load failed: Column 'fare' cannot be filled from row ${row} of lake/trips/${name}/part-${row}.parquet: "x" is no number`;

describe("periods that need a person", () => {
  test("are one row if the cause is the same but for their files and numbers, and the newest trouble stands for them", () => {
    expect(folded(problems(period("2026-03", refused("2026-03", 7)), period("2026-01", refused("2026-01", 1)), period("2026-02", refused("202602", 12)))))
      .toEqual([["2026-03", "2026-01", "2026-02", "2026-03"]]);
  });

  test("are one row by day and by hour, too", () => {
    for (const [one, other] of [["2026-10-05", "2026-10-06"], ["2026-10-05T13Z", "2026-10-05T14Z"], ["2026-W41", "2026-W42"]] as const) {
      expect(folded(problems(period(other, refused(other, 7)), period(one, refused(one.replace("T", "/"), 1))))).toEqual([[other, one, other]]);
    }
  });

  test("of whole tables are rows of their own if the cause is another", () => {
    const [one, other] = [period("all", "no space left"), period("all", "no such column")];
    expect(folded([{ table: T, period: one }, { table: T, period: other }])).toHaveLength(2);
  });

  test("are one row if they are held with one arrival", () => {
    const [one, two, three] = ["a", "a", "b"].map((arrival, number) => period(`2026-0${number + 1}`, `held, ${number} and more`, { arrival, state: "held" })) as
      [PeriodRow, PeriodRow, PeriodRow];
    expect(folded(problems(one, two, three))).toEqual([["2026-01", "2026-01", "2026-02"], ["2026-03", "2026-03"]]);
  });

  test("are rows of their own if the column, the node, the state, the DAG or the table is another", () => {
    const why = refused("2026-01", 1);
    const task = { dag_id: "d", run_id: "r", task_id: "t", map_index: -1 };
    const others = [
      period("2026-02", why.replace("fare", "tip")), period("2026-03", why, { state: "held" as State }), period("2026-04", why, { task }),
      period("2026-05", "no space on node-1:9000"), period("2026-06", "no space on node-2:9000"),
    ];
    expect(folded([...problems(period("2026-01", why), ...others), { table: table("u"), period: period("2026-07", why) }])).toHaveLength(7);
  });
});

test("tables of one connection whose loads failed for the same cause are together, whatever it names of them", () => {
  const at = (name: string, connId: string, why: string, state: State = "failed") =>
    ({ table: { key: `${connId}.${name}`, table: name, connIds: [connId] } as TableRow, period: period("2026-10", why, { state }) });
  const denied = (name: string) => `its newest load failed: access to lake/${name}/2026-10/ is denied, query chs3_0123456789abcdef_${name}`;
  const found = needsByCause(needsOf([
    at("a", "one", denied("a")), at("c+", "one", denied("c+")), at("a", "two", denied("a")), at("d", "one", "no such column"),
    at("e", "one", "as published", "held"), at("f", "one", "as published", "held"),
  ]));
  expect(found.map((those) => those.map(({ table: { key } }) => key))).toEqual([["one.a", "one.c+"], ["two.a"], ["one.d"], ["one.e"], ["one.f"]]);
});

test.each([
  [["2026-01"], "2026-01"],
  [["2026-01", "2026-02"], "2026-01 and 2026-02"],
  [["2026-01", "2026-02", "2026-03"], "2026-01, 2026-02 and 2026-03"],
  [["2026-01", "2026-02", "2026-03", "2026-04"], "2026-01, 2026-02 and 2 more"],
])("%j are named %s", (names, text) => {
  expect(namesOf(names.map((name) => period(name, "")))).toBe(text);
});

test("the statements that help them are all that there are, each once", () => {
  expect(statementOf([period("1", "", { statement: "KILL a" }), period("2", "", { statement: "KILL b" }), period("3", "", { statement: "KILL a" }), period("4", "")]))
    .toBe("KILL a\nKILL b");
});

test("failed runs of one cause are together, whatever it names of their DAG and day", () => {
  const run = (dag_id: string) => ({ dag_id, run_id: "r", ended_at: null });
  const runs = ["a_nightly", "b_nightly", "c", "d", "e"].map(run);
  const denied = (dag: string, day: string) => `Access denied to s3://lake/${day}/ for ${dag} after 3 tries`;
  const causes = new Map([["a_nightly", denied("a_nightly", "2026-10-05")], ["b_nightly", denied("b_nightly", "2026-10-06")], ["c", "no such column"]]);
  expect(runsByCause(runs, causes).map((those) => those.map(({ dag_id: id }) => id))).toEqual([["a_nightly", "b_nightly"], ["c"], ["d"], ["e"]]);
});

test.each([
  ["its newest load failed: Column 'fare' cannot be filled from row 1,007 of lake/trips/2026-10/a.parquet: no. Fix the file.", "lake/trips/2026-10/a.parquet"],
  ["its newest load failed: lake/trips/2026-10/a.parquet cannot be read as Parquet: no magic bytes", "lake/trips/2026-10/a.parquet"],
  ["its newest load failed: the bucket cannot be read from row to row of time", ""],
])("%s names the object %j", (text, object) => {
  expect(badObjectIn(text)).toBe(object);
});

test.each([
  ["Column 'fare' is Float64, but row 1,007 of lake/a.parquet has 'x' for it. Widen the column.", "Correct select, or replace this object"],
  ["lake/a.parquet cannot be read as Parquet: no magic bytes", "Correct files or csv, or replace this object"],
])("the way out of %s is: %s", (text, way) => {
  expect(wayOut(text, "this object")).toBe(way);
});

test("the command that adopts names connection, table and periods, quoted for a shell", () => {
  const at = { ...T, table: "it's", database: "taxi", connIds: ["chs3_default", "other"], cluster: "c 1" } as TableRow;
  expect(adoptCommand(at, [period("2026-10", ""), period("2026-11", "")])).toBe(
    "chs3 adopt --conn-id chs3_default --database taxi --table 'it'\\''s' --cluster 'c 1' --period 2026-10 --period 2026-11 --bucket BUCKET --key KEY");
  expect(adoptCommand({ ...at, table: "t", cluster: null }, [period("all", "")])).toBe("chs3 adopt --conn-id chs3_default --database taxi --table t --bucket BUCKET --key KEY");
});

test("periods whose merges wait are one row, whichever nodes and parts they name", () => {
  const waiting = ["1", "2"].map((name) => period(`2026-0${name}`, `unchanged for ${name} s (node-${name}: 1${name} parts)`, { state: "too_many_parts" }));
  expect(folded(problems(...waiting))).toEqual([["2026-01", "2026-01", "2026-02"]]);
});
