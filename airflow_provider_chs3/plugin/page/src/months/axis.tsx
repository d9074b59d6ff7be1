// The head of the list of tables: what stands in its columns, and which months.
import { Button, Flex, Text } from "@chakra-ui/react";
import { axisLabel } from "../model/fleet";
import { FACTS_PIXELS, NAME_PIXELS, type Layout } from "./layout";

export interface Moves {
  // Null where there are no further ones.
  earlier: (() => void) | null;
  later: (() => void) | null;
}

function Move({ text, label, move }: { text: string; label: string; move: (() => void) | null }) {
  return <Button size="2xs" variant="ghost" disabled={!move} onClick={() => move?.()} aria-label={label}>{text}</Button>;
}

export function Axis({ layout: { months, isNarrow, hasFacts, measure, lastPixels }, earlier, later }: { layout: Layout } & Moves) {
  return (
    <Flex px={3} py={1.5} minH="36px" bg="bg.subtle" borderBottomWidth={1} align="center" justify="space-between" fontSize="xs" fontWeight="medium"
      color="fg.muted" gap={2} wrap={isNarrow ? "wrap" : "nowrap"}>
      <Flex gap={1} flex={isNarrow ? "1 1 100%" : "1"} minW={isNarrow || hasFacts ? 0 : `${NAME_PIXELS}px`} align="center" justify="space-between">
        {isNarrow ? null : <Text flex="1">Table</Text>}
        {earlier || later ? (
          <>
            <Move text="‹ earlier" label="Earlier months" move={earlier} />
            <Move text="later ›" label="Later months" move={later} />
          </>
        ) : null}
      </Flex>
      {hasFacts ? (
        <>
          <Text width={`${FACTS_PIXELS.dag}px`}>DAG</Text>
          <Text width={`${FACTS_PIXELS.newest}px`}>Last published</Text>
        </>
      ) : null}
      <Flex aria-hidden position="relative" className="axis" fontWeight="normal">
        {months.map((month, index) => (
          <span key={month}>{axisLabel(months, index)}</span>
        ))}
      </Flex>
      {isNarrow ? null : <Text width={`${lastPixels}px`} textAlign="end">{measure?.name ?? "Rows"}</Text>}
    </Flex>
  );
}
