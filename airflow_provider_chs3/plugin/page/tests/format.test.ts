import { expect, test } from "vitest";
import { age, bytes, duration, ended, parseUtc, percent, share, time } from "../src/model/format";
import { describe as scopeOf, queryOf } from "../src/model/place";

test("sizes and durations have units", () => {
  expect([0, 1023, 1024, 1536, 1024 ** 3 * 250].map(bytes)).toEqual(["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "250 GiB"]);
  expect([0.5, 9.5, 59, 61, 3_661, 90_000].map(duration)).toEqual(["0.50 s", "9.5 s", "59 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]);
  expect([-1, 5, 70, 7_300, 200_000].map(age)).toEqual(["0 s", "5 s", "1 min", "2 h", "2 d"]);
  expect([0, 0.001, 0.01].map(duration)).toEqual(["0 s", "< 0.01 s", "0.01 s"]);
  expect([percent(2, 3), percent(1, 0), share(2, 3), share(1, 0)]).toEqual(["66%", "–", "67%", "–"]);
});

test("an error has a full stop before what follows it", () => {
  expect(["Connection refused", "Fix it.", "it waits …", "no answer (is it up?)"].map(ended)).toEqual(["Connection refused.", "Fix it.", "it waits …", "no answer (is it up?)"]);
});

test("a time is shown in the zone that was chosen", () => {
  const at = parseUtc("2026-01-01 23:30:00");
  expect([time(at, "UTC"), time(at, "Asia/Tokyo")]).toEqual(["2026-01-01 23:30:00", "2026-01-02 08:30:00"]);
});

test("the page of a mapped task asks for its periods and says so", () => {
  const place = { dagId: "d", runId: "r&s", taskId: "t", mapIndex: "1" };
  expect(queryOf(place).toString()).toBe("dag_id=d&run_id=r%26s&task_id=t&map_index=1");
  expect(scopeOf(place)).toBe("Periods that task t [1] of run r&s of DAG d is about.");
  expect(scopeOf({ dagId: "d" })).toBe("Periods that DAG d loaded last.");
  expect(scopeOf({})).toBe("");
});
