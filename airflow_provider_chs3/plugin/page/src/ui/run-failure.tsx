// Which task of a failed run failed, and why, for those whom Airflow lets read its log.
import { Box, Text } from "@chakra-ui/react";
import { useRunFailure } from "../api/queries";
import { ended } from "../model/format";
import { TaskLink } from "./links";

export function RunFailure({ dagId, runId }: { dagId: string; runId: string }) {
  const { data } = useRunFailure(dagId, runId);
  if (!data) {
    return null;
  }
  const { task, error, others } = data;
  const index = task.map_index >= 0 ? ` [${task.map_index}]` : "";
  return (
    <Box fontSize="sm" overflowWrap="anywhere">
      <Text as="span" fontWeight="semibold">Task {task.task_id}{index} failed</Text>{others ? `, the first of ${others + 1}` : ""}:{" "}
      {error === null ? "its error is shown only to users who may read its log." : error ? ended(error) : "its log shows no error."}{" "}
      <TaskLink task={task} logs />
    </Box>
  );
}
