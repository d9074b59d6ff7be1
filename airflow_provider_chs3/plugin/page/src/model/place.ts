// The page of Airflow on which this one is shown: what it names is all that is shown.
export interface Place {
  dagId?: string;
  runId?: string;
  taskId?: string;
  mapIndex?: string;
}

const PARTS = [["dagId", "dag_id"], ["runId", "run_id"], ["taskId", "task_id"], ["mapIndex", "map_index"]] as const;

export function queryOf(place: Place): URLSearchParams {
  const query = new URLSearchParams();
  for (const [part, name] of PARTS) {
    const value = place[part];
    if (value !== undefined) {
      query.set(name, value);
    }
  }
  return query;
}

export function describe(place: Place): string {
  if (place.dagId === undefined) {
    return "";
  }
  const mapped = /^\d+$/.test(place.mapIndex ?? "") ? ` [${place.mapIndex}]` : "";
  const whose = [
    place.taskId && `task ${place.taskId}${mapped}`, place.runId && `run ${place.runId}`, `DAG ${place.dagId}`,
  ].filter(Boolean).join(" of ");
  return place.runId ? `Periods that ${whose} is about.` : `Periods that ${whose} loaded last.`;
}
