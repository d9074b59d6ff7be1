// Airflow's assets around the load of a table: those that start it, and those that it has an event for.
import type { Task } from "../api/types";

// Of Airflow's own answer, what is shown.
export interface Asset {
  id: number;
  name: string;
  scheduled_dags: { dag_id: string }[];
  producing_tasks: { dag_id: string; task_id: string }[];
}

export interface Neighbour {
  id: number;
  name: string;
  // Whose tasks have events for it, or whose runs it starts.
  dags: string[];
}

const once = (found: readonly { dag_id: string }[]) => [...new Set(found.map((each) => each.dag_id))].sort();

// What emits events stands in the group of what loads; without a group, it is the load itself.
function isOfLoad(task: Task, { dag_id: dagId, task_id: taskId }: Asset["producing_tasks"][number]): boolean {
  const group = task.task_id.slice(0, task.task_id.lastIndexOf(".") + 1);
  return dagId === task.dag_id && (group ? taskId.startsWith(group) : taskId === task.task_id);
}

export function neighboursOf(task: Task, assets: readonly Asset[]): { before: Neighbour[]; after: Neighbour[] } {
  const before = assets.filter(({ scheduled_dags: started }) => started.some((each) => each.dag_id === task.dag_id));
  const after = assets.filter(({ producing_tasks: producing }) => producing.some((each) => isOfLoad(task, each)));
  return {
    before: before.map(({ id, name, producing_tasks: producing }) => ({ id, name, dags: once(producing) })),
    after: after.map(({ id, name, scheduled_dags: started }) => ({ id, name, dags: once(started) })),
  };
}
