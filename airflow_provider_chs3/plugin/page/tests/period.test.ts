import { expect, test } from "vitest";
import { grainOf, indexOf, periodAt } from "../src/model/period";

test.each([
  ["hour", "2026-12-31T23Z", "2027-01-01T00Z"],
  ["day", "2028-02-28", "2028-02-29"],
  ["day", "1971-12-31", "1972-01-01"],
  ["week", "2026-W53", "2027-W01"],
  ["week", "2027-W52", "2028-W01"],
  ["week", "1971-W01", "1971-W02"],
  ["month", "2026-12", "2027-01"],
  ["quarter", "2026-Q4", "2027-Q1"],
  ["year", "2026", "2027"],
] as const)("after the %s %s follows %s", (grain, period, after) => {
  expect([grainOf(period), grainOf(after)]).toEqual([grain, grain]);
  expect(periodAt(grain, indexOf(period))).toBe(period);
  expect(periodAt(grain, indexOf(period) + 1)).toBe(after);
});

test("a whole table is one period", () => {
  expect([grainOf("all"), periodAt("table", indexOf("all"))]).toEqual(["table", "all"]);
});
