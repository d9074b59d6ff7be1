import { expect, test } from "vitest";
import type { Load, MonthRow } from "../src/api/types";
import { readText, sentence, shareText, stateText, withoutText } from "../src/months/text";

const MONTH = { state: "published", parts: 34, step: null, insert: null } as MonthRow;

test("a month that merges, or has too many parts, tells how many it has", () => {
  expect(stateText(MONTH)).toBe("published");
  expect(stateText({ ...MONTH, state: "merging" })).toBe("merging, 34 parts");
  expect(stateText({ ...MONTH, state: "too_many_parts", parts: 1_200 })).toBe("too many parts, 1,200");
});

test("a load tells what it reads, which of a month with new objects are these alone", () => {
  const load = { objects: 6, source_bytes: 6_144, loaded_objects: 6, loaded_bytes: 6_144 } as Load;
  expect(readText(load)).toBe("6 objects, 6.0 KiB");
  expect(readText({ ...load, loaded_objects: 1, loaded_bytes: 1_024 })).toBe("1 new of 6 objects, 6.0 KiB: 1.0 KiB");
});

test("rows of a database are no objects, and neither is nothing", () => {
  const load = { objects: 0, source_bytes: 6_144, loaded_objects: 0, loaded_bytes: 6_144 } as Load;
  expect(readText(load)).toBe("rows of about 6.0 KiB");
  expect(readText({ ...load, source_bytes: 0, loaded_bytes: 0 })).toBe("no objects");
});

test("a reason is a sentence", () => {
  expect([sentence("as published"), sentence("it waits …")]).toEqual(["As published.", "It waits …"]);
});

test("a figure says whose rows it lacks", () => {
  expect([withoutText([]), withoutText(["n2"]), withoutText(["n2", "n3"])])
    .toEqual(["", ", without n2, which does not answer", ", without n2, n3, which do not answer"]);
});

test("a month that was not loaded alone says whose share its seconds are", () => {
  const together = { months: "2026-01 … 2026-04 (4 months)", seconds: 41.2 };
  expect([shareText({ together: null }), shareText({ together })])
    .toEqual(["", "its share of one insert of 41 s that loaded 2026-01 … 2026-04 (4 months)"]);
});
