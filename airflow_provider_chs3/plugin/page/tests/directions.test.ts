import { expect, test } from "vitest";
import { shown, stored } from "../src/model/directions";

const NAME = "a\u202eb\u2069";

test("what reverses the page's words is shown as an escape", () => {
  expect(JSON.parse(shown(JSON.stringify({ [NAME]: NAME })))).toEqual({ "a\\u202eb\\u2069": "a\\u202eb\\u2069" });
});

test("requests and copies have what is stored", () => {
  const text = JSON.parse(shown(JSON.stringify(NAME))) as string;
  expect(stored(text)).toBe(NAME);
  expect(JSON.parse(stored(JSON.stringify({ table: text })))).toEqual({ table: NAME });
  expect(new URL(stored(`a?${new URLSearchParams({ table: text })}`), "http://x").searchParams.get("table")).toBe(NAME);
});
