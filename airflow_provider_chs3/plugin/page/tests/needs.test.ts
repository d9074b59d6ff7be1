import { describe, expect, test } from "vitest";
import type { PeriodRow, State } from "../src/api/types";
import type { Problem, TableRow } from "../src/model/fleet";
import { namesOf, needsOf, statementOf } from "../src/model/needs";

function period(name: string, why: string, more: Partial<PeriodRow> = {}): PeriodRow {
  return {
    period: name, state: "failed", why, since: "", statement: "", rows: 1, size_bytes: 1, parts: 1, objects: 1, source_bytes: 1, published_at: "",
    insert_seconds: null, loaded_rows: 1, together: null, ledger_database: "", rows_per_second: null, task: null, step: null, insert: null, ...more,
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
