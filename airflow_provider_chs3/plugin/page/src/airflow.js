// Links into Airflow's own pages. Airflow shows this page in a frame that may not navigate: use its router there.
import { element } from "./dom.js";

// This page is one level below Airflow, whatever its path.
const AIRFLOW = new URL("../", location.href).pathname;

function goThere(event, path) {
  const airflow = window.parent;
  if (airflow === window || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) {
    return; // outside the frame, or in a new tab: leave it to the browser
  }
  event.preventDefault();
  const { idx = 0 } = airflow.history.state || {};
  const state = { usr: null, key: Math.random().toString(36).slice(2, 10), idx: idx + 1 }; // as its router keeps them
  airflow.history.pushState(state, "", path);
  airflow.dispatchEvent(new PopStateEvent("popstate", { state }));
}

function linkTo(page, text) {
  const path = AIRFLOW + page;
  const link = element("a", { href: path }, text);
  link.addEventListener("click", (event) => goThere(event, path));
  return link;
}

export function runLink(dagId, runId) {
  return linkTo(`dags/${encodeURIComponent(dagId)}/runs/${encodeURIComponent(runId)}`, `run ${runId} of DAG ${dagId}`);
}

// The page of a task instance: `task` has dag_id, run_id, task_id and map_index, which is -1 if it is not mapped.
export function taskLink(task) {
  const [dagId, runId, taskId] = [task.dag_id, task.run_id, task.task_id].map(encodeURIComponent);
  const mapped = task.map_index >= 0 ? `/mapped/${task.map_index}` : "";
  const text = `${task.dag_id}, ${task.task_id}${mapped && ` [${task.map_index}]`}, run ${task.run_id}`;
  return linkTo(`dags/${dagId}/runs/${runId}/tasks/${taskId}${mapped}`, text);
}
