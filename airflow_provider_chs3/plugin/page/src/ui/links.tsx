// Links into Airflow's own pages, by its router. The page links to nothing else.
import { Link as Styled } from "@chakra-ui/react";
import type { ReactNode } from "react";
import { Link } from "react-router-dom";
import type { Task } from "../api/types";

function To({ path, children }: { path: string; children: ReactNode }) {
  return <Styled asChild color="fg.info" overflowWrap="anywhere"><Link to={path}>{children}</Link></Styled>;
}

const quoted = encodeURIComponent;

export function RunLink({ dagId, runId, text }: { dagId: string; runId: string; text?: string }) {
  return <To path={`/dags/${quoted(dagId)}/runs/${quoted(runId)}`}>{text ?? `run ${runId} of DAG ${dagId}`}</To>;
}

export function DagLink({ dagId }: { dagId: string }) {
  return <To path={`/dags/${quoted(dagId)}`}>{dagId}</To>;
}

export function AssetLink({ id, name }: { id: number; name: string }) {
  return <To path={`/assets/${id}`}>{name}</To>;
}

export function TaskLink({ task, logs = false }: { task: Task; logs?: boolean }) {
  const mapped = task.map_index >= 0 ? `/mapped/${task.map_index}` : "";
  const index = mapped && ` [${task.map_index}]`;
  return (
    <To path={`/dags/${quoted(task.dag_id)}/runs/${quoted(task.run_id)}/tasks/${quoted(task.task_id)}${mapped}`}>
      {logs ? "Open the log" : `${task.dag_id}, ${task.task_id}${index}, run ${task.run_id}`}
    </To>
  );
}
