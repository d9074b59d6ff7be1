import { expect, test } from "vitest";
import { beginOf, pathOf, silentOf, spanOf, totalOf } from "../src/model/parts";

const node = (parts: [number, number][], error = "") => ({ name: "n", error, parts });

test("the parts of all nodes are added up at each time at which they change", () => {
  expect(totalOf([node([[0, 1], [10, 4]]), node([[0, 2], [5, 3]])])).toEqual([[0, 3], [5, 4], [10, 7]]);
});

test("the total begins where the last log begins, and leaves out nodes without one", () => {
  expect(totalOf([node([[0, 1], [10, 4]]), node([[7, 2]]), node([], "no log")])).toEqual([[7, 3], [10, 6]]);
  expect(totalOf([node([], "no log")])).toEqual([]);
});

test("the line goes in steps, to now", () => {
  expect(pathOf([[0, 1], [5, 3]], (at) => at, (parts) => 10 - parts, 9)).toBe("M0.0 9.0H5.0V7.0H9.0");
});

test("nodes without a log for the same reason are named together", () => {
  expect([...silentOf([node([], "denied"), node([[0, 1]]), node([], "denied")])]).toEqual([["denied", ["n", "n"]]]);
});

test("a chart begins shortly before the first change, or where the log begins", () => {
  expect(beginOf([9_000, 9_500], 0, 10_000)).toBe(8_900);
  expect(beginOf([9_990], 0, 10_000)).toBe(9_930);
  expect(beginOf([10], 0, 10_000)).toBe(0);
  expect(beginOf([], 0, 10_000)).toBe(0);
});

test("a chart of a busy hour in a week shows that hour", () => {
  const [begun, now] = [0, 604_800];
  expect(spanOf([100_000, 103_600], begun, now)).toEqual({ from: 99_640, to: 103_996 });
  expect(spanOf([now - 10], begun, now)).toEqual({ from: now - 70, to: now });
  expect(spanOf([], begun, now)).toEqual({ from: begun, to: now });
});
