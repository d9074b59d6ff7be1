// Where Airflow's own API has the runs of a DAG.
export const runsOf = (dagId: string) => `api/v2/dags/${encodeURIComponent(dagId)}/dagRuns`;

export const runPath = (dagId: string, runId: string) => `${runsOf(dagId)}/${encodeURIComponent(runId)}`;
