import { expect, test } from "vitest";
import { meanwhile, slowOf, spellsOf } from "../src/model/slow";

const load = (at: number, seconds = 60, table = "t") => ({ published_at: at, seconds_to_published: seconds, database: "d", table });

test("slow loads of one busy hour are one spell, the newest first", () => {
  const [early, one, two] = [load(1_000), load(10_000), load(11_000, 500)];
  expect(spellsOf([two, early, one])).toEqual([
    { from: 9_940, to: 11_000, loads: [two, one] }, { from: 940, to: 1_000, loads: [early] },
  ]);
  expect(spellsOf([])).toEqual([]);
});

test("what else ran then is counted by table", () => {
  const slow = load(1_000, 100);
  const [spell] = spellsOf([slow]);
  const others = [load(950, 10, "u"), load(1_050, 100, "u"), load(901, 1, "v"), load(2_000, 10, "w"), load(890, 10, "w")];
  expect(spell && meanwhile(spell, [slow, ...others])).toBe("Meanwhile 3 other loads ran: of d.u (2), d.v (1).");
  expect(spell && meanwhile(spell, [slow, load(990)])).toBe("Meanwhile 1 other load ran: of d.t.");
  expect(spell && meanwhile(spell, [slow])).toBe("");
});

test("of the last day, the slow loads of the tables on the screen are reported", () => {
  const slow = (at: number, table: string, why = "It took long.") => ({ ...load(at, 60, table), why_slow: why });
  const [shown, old, other] = [slow(100_000, "t"), slow(10_000, "t"), slow(100_000, "u")];
  expect(slowOf([shown, old, other, slow(100_000, "t", "")], 100_500, new Set(["d.t"]))).toEqual([shown]);
});
