// Which task of a failed run failed, and why, for those whom Airflow lets read its log.
import { Box, Text } from "@chakra-ui/react";
import { useRunFailure } from "../api/queries";
import { ended } from "../model/format";
import { listed } from "../model/needs";
import { TaskLink } from "./links";

// The short one says nothing where no cause is known.
export function RunFailure({ dagId, runId, isShort = false }: { dagId: string; runId: string; isShort?: boolean }) {
  const { data } = useRunFailure(dagId, runId);
  if (!data || (isShort && !data.error)) {
    return null;
  }
  const { task, error, connections, others, note } = data;
  if (!task) {
    return (
      <Box fontSize="sm" overflowWrap="anywhere">
        <Text as="span" fontWeight="semibold">No task of it failed</Text>
        : {error ? ended(error) : "it lasted longer than its DAG's dagrun_timeout, none of its tasks could start, or somebody ended it."}
        {note ? ` Its note: ${ended(note)}` : ""}
      </Box>
    );
  }
  const index = task.map_index >= 0 ? ` [${task.map_index}]` : "";
  return (
    <Box fontSize="sm" overflowWrap="anywhere">
      <Text as="span" fontWeight="semibold">Task {task.task_id}{index} failed</Text>{others ? `, the first of ${others + 1}` : ""}
      {connections.length && !connections.some((name) => error?.includes(name)) ? ` (${connections.length > 1 ? "connections" : "connection"} ${listed(connections)})` : ""}:{" "}
      {error === null ? "its error is shown only to users who may read its log." : error ? ended(error) : "its log shows no error."}{" "}
      <TaskLink task={task} logs />
    </Box>
  );
}
