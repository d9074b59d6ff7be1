import { expect, test } from "vitest";
import type { Load, PeriodRow } from "../src/api/types";
import { readText, sealText, sentence, shareText, stateText, withoutText } from "../src/periods/text";

const PERIOD = { state: "published", parts: 34, step: null, insert: null } as PeriodRow;

test("a period that merges, or has too many parts, says how many it has", () => {
  expect(stateText(PERIOD)).toBe("published");
  expect(stateText({ ...PERIOD, state: "merging" })).toBe("merging, 34 parts");
  expect(stateText({ ...PERIOD, state: "too_many_parts", parts: 1_200 })).toBe("too many parts, 1,200");
});

test("a load says what it reads: only the new objects, if it adds to a period", () => {
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

test("a period that was not loaded alone says whose share its seconds are", () => {
  const together = { periods: "2026-01 … 2026-04 (4 periods)", seconds: 41.2 };
  expect([shareText({ together: null }), shareText({ together })])
    .toEqual(["", "its share of one insert of 41 s that loaded 2026-01 … 2026-04 (4 periods)"]);
});

test("a seal has its date and what was compared", () => {
  expect(sealText({ ...PERIOD, seal: { proved_at: "2026-11-27 14:00:00", found: "20,000 rows" } })).toBe("proved 2026-11-27, 20,000 rows");
  expect(sealText({ ...PERIOD, seal: null })).toBe("");
});
