import { describe, expect, test } from "vitest";
import type { Changes } from "../src/api/types";
import { changesText, silentText } from "../src/model/changes";

const NOON = Date.UTC(2026, 9, 5, 12) / 1_000;
const AT = NOON - 3 * 3_600 - 600;
type Change = Changes["nodes"][number]["change"];
const node = (name: string, change: Partial<Change>) => ({ name, change: { rows: 610, published_rows: 600, since: null, statements: [], silent: [], ...change } });
const insert = { what: "INSERT", user: "etl", at: AT, rows: 10 };
const textOf = (...nodes: Changes["nodes"]) => changesText({ nodes }, NOON, "UTC");

describe("what was changed", () => {
  test("is said with node, time and user", () => {
    expect(textOf(node("n:1", { statements: [insert] }))).toBe("INSERT by user etl since 08:50: 10 rows more on node n:1");
  });

  test("has its date, if it was on another day", () => {
    expect(textOf(node("n:1", { since: AT - 86_400 }))).toBe("10 rows more on node n:1 since 2026-10-04 08:50");
  });

  test("is one text for all nodes with the same statements, each of which is said once", () => {
    const gone = { what: "ALTER TABLE … DELETE WHERE …", user: "", at: AT, rows: null };
    const change = { rows: 599, statements: [gone, { ...gone, at: AT + 60 }] };
    expect(textOf(node("a", change), node("b", change), node("c", { rows: 600, since: AT })))
      .toBe("ALTER TABLE … DELETE WHERE … since 08:50: 1 row fewer on nodes a and b; as many rows as published, but others on node c since 08:50");
  });

  test("are rows that no load wrote, where nothing is published", () => {
    expect(textOf(node("a", { rows: 7, published_rows: null }))).toBe("7 rows that no load wrote on node a");
  });

  test("comes with the reasons why more is not known, each once", () => {
    expect(silentText({ nodes: [node("a", { silent: ["no log"] }), node("b", { silent: ["no log"] })] })).toBe("no log");
  });
});
