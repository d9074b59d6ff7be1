import { expect, test } from "vitest";
import { neighboursOf, type Asset } from "../src/model/assets";

const asset = (id: number, starts: string[], from: [string, string][]): Asset => ({
  id, name: `asset ${id}`, scheduled_dags: starts.map((dag_id) => ({ dag_id })), producing_tasks: from.map(([dag_id, task_id]) => ({ dag_id, task_id })),
});
const task = (task_id: string) => ({ dag_id: "mine", run_id: "r", task_id, map_index: -1 });

test("the assets of a load are those of its group of tasks, or of itself, and those that start its DAG come before", () => {
  const assets = [
    asset(1, ["mine"], [["landing", "land"], ["landing", "again"]]), asset(2, ["report", "bills"], [["mine", "trips.period.emit"]]),
    asset(3, [], [["mine", "zones.period.emit"], ["mine", "load"]]), asset(4, ["other"], [["other", "trips.period.emit"]]),
  ];
  expect(neighboursOf(task("trips.period.load"), assets)).toEqual({
    before: [{ id: 1, name: "asset 1", dags: ["landing"] }], after: [{ id: 2, name: "asset 2", dags: ["bills", "report"] }],
  });
  expect(neighboursOf(task("load"), assets).after).toEqual([{ id: 3, name: "asset 3", dags: [] }]);
});
