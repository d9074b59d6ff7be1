import { expect, test } from "vitest";
import { errorOf } from "../src/model/task-log";

const raised = (text: string, ...causes: string[]) => ({
  event: "Task failed with exception", level: "error",
  error_detail: [text, ...causes].map((value) => ({ exc_type: "AirflowFailException", exc_value: value })),
});

test("the error of a task is the first line of the last exception in its log, not of its cause", () => {
  const log = [{ event: "begun", level: "info" }, raised("of an earlier step"), raised("No bucket lake.\nCreate it.", "404"), { event: "sent a mail", level: "error" }];
  expect(errorOf(log)).toBe("No bucket lake.");
});

test("an exception without a text is shown by its type, and without exceptions the last error that was logged counts", () => {
  expect(errorOf([raised("")])).toBe("AirflowFailException");
  expect(errorOf([{ event: "first", level: "error" }, { event: "killed by 9", level: "critical" }, { event: "ended", level: "info" }])).toBe("killed by 9");
});

test("of other logs nothing is shown", () => {
  expect([errorOf([]), errorOf(["a line"]), errorOf([{ event: "ended", level: "info", error_detail: null }])]).toEqual(["", "", ""]);
});
