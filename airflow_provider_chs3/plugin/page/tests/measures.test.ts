import { expect, test } from "vitest";
import type { PeriodRow } from "../src/api/types";
import { extentOf, measureOf, rangeText } from "../src/model/measures";
import { layoutOf } from "../src/periods/layout";

const period = (facts: Partial<PeriodRow>) => ({ rows: 0, published_at: "", insert_seconds: null, ...facts }) as PeriodRow;
const tables = [
  { periods: [period({ rows: 600, published_at: "2026-01-01 00:00:00", insert_seconds: 0.5 }), period({})] },
  { periods: [period({ rows: 1_200_000, insert_seconds: 90 })] },
];

test("strips show rows or durations, of periods that have some", () => {
  const [rows, duration] = [measureOf("rows"), measureOf("duration")];
  expect([measureOf("state"), measureOf("")]).toEqual([null, null]);
  if (!rows || !duration) {
    throw new Error("a measure is missing");
  }
  expect(tables.flatMap(({ periods }) => periods.map(rows.of))).toEqual([600, null, 1_200_000]);
  expect([extentOf(tables, rows), extentOf(tables, duration)]).toEqual([{ least: 600, most: 1_200_000 }, { least: 0.5, most: 90 }]);
  expect(extentOf([{ periods: [period({})] }], rows)).toBeNull();
  expect([rows.text(1), rows.text(1_200)]).toEqual(["1 row", "1,200 rows"]);
});

test("a period that was published without rows has none, which is measured", () => {
  expect(measureOf("rows")?.of(period({ published_at: "2026-01-01 00:00:00" }))).toBe(0);
});

test("a range is shown once where both ends read alike", () => {
  const short = measureOf("rows")?.short ?? String;
  expect([rangeText({ least: 600, most: 1_200_000 }, short), rangeText({ least: 5, most: 5 }, short)]).toEqual(["600 – 1.2M", "5"]);
});

test("the DAG stands where the periods leave room, and when it was published last always does", () => {
  const layouts = [[1_100, 12], [1_100, 60], [500, 12]].map(([width = 0, wanted = 0]) => layoutOf(width, wanted, null, false));
  expect(layouts.map(({ hasDag, columns }) => [hasDag, columns.includes("0.6fr")])).toEqual([[true, true], [false, true], [false, true]]);
  expect(layouts.map(({ fits }) => fits)).toEqual([27, 27, 21]);
});
