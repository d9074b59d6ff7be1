// The error of the newest load. Users who may not read the task's logs get its class and the remedy.
import { Text } from "@chakra-ui/react";
import type { Failure } from "../api/types";
import { Note, UtcTime } from "../ui/parts";

export function FailureNote({ failure }: { failure: Failure }) {
  return (
    <Note title={`The newest load failed: ${failure.type ?? "an error"}`}>
      {failure.message === null
        ? <Text>The message may quote rows: only users who may read the task&apos;s logs see it.</Text>
        : <Text whiteSpace="pre-wrap">{failure.message}</Text>}
      {failure.hint ? <Text mt={2} fontWeight="medium">{failure.hint}</Text> : null}
      <Text mt={2} color="fg.muted">
        <UtcTime text={failure.recorded_at} />
        {failure.host ? `, on ${failure.host}` : ""}{failure.code ? `, ClickHouse error ${failure.code}` : ""}
        {failure.is_terminal ? ". A retry would fail the same way." : ""}
      </Text>
    </Note>
  );
}
