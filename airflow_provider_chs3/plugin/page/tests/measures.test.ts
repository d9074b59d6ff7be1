import { expect, test } from "vitest";
import type { MonthRow } from "../src/api/types";
import { extentOf, measureOf, rangeText } from "../src/model/measures";
import { layoutOf } from "../src/months/layout";

const month = (facts: Partial<MonthRow>) => ({ rows: 0, published_at: "", insert_seconds: null, ...facts }) as MonthRow;
const tables = [
  { months: [month({ rows: 600, published_at: "2026-01-01 00:00:00", insert_seconds: 0.5 }), month({})] },
  { months: [month({ rows: 1_200_000, insert_seconds: 90 })] },
];

test("strips show rows or durations, of months that have some", () => {
  const [rows, duration] = [measureOf("rows"), measureOf("duration")];
  expect([measureOf("state"), measureOf("")]).toEqual([null, null]);
  if (!rows || !duration) {
    throw new Error("a measure is missing");
  }
  expect(tables.flatMap(({ months }) => months.map(rows.of))).toEqual([600, null, 1_200_000]);
  expect([extentOf(tables, rows), extentOf(tables, duration)]).toEqual([{ least: 600, most: 1_200_000 }, { least: 0.5, most: 90 }]);
  expect(extentOf([{ months: [month({})] }], rows)).toBeNull();
  expect([rows.tell(1), rows.tell(1_200)]).toEqual(["1 row", "1,200 rows"]);
});

test("a month that was published without rows has none, which is measured", () => {
  expect(measureOf("rows")?.of(month({ published_at: "2026-01-01 00:00:00" }))).toBe(0);
});

test("a range is told once where both ends read alike", () => {
  const short = measureOf("rows")?.short ?? String;
  expect([rangeText({ least: 600, most: 1_200_000 }, short), rangeText({ least: 5, most: 5 }, short)]).toEqual(["600 – 1.2M", "5"]);
});

test("columns of facts stand where the months leave room", () => {
  const layouts = [[1_100, 12], [1_100, 60], [500, 12]].map(([width = 0, wanted = 0]) => layoutOf(width, wanted, null));
  expect(layouts.map(({ hasFacts }) => hasFacts)).toEqual([true, false, false]);
  expect(layouts.map(({ fits }) => fits)).toEqual([32, 32, 21]);
});
