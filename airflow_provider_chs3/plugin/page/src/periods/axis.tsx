// The head of the list of tables: what stands in its columns, and which periods.
import { Box, Button, Flex, Text } from "@chakra-ui/react";
import { axisLabel } from "../model/fleet";
import type { Layout } from "./layout";

export interface Moves {
  // Null where there are no further ones.
  earlier: (() => void) | null;
  later: (() => void) | null;
}

function Move({ text, label, move }: { text: string; label: string; move: (() => void) | null }) {
  return <Button size="2xs" variant="ghost" disabled={!move} onClick={() => move?.()} aria-label={label}>{text}</Button>;
}

export function Axis({ title, layout: { periods, isNarrow, hasDag, hasDue, measure, columns }, earlier, later }: { title: string; layout: Layout } & Moves) {
  return (
    <Box px={3} py={1.5} minH="36px" bg="bg.muted" borderBottomWidth={1} display={isNarrow ? "flex" : "grid"} flexWrap="wrap" alignItems="center"
      gap={2} fontSize="xs" fontWeight="medium" color="fg.muted" style={isNarrow ? undefined : { gridTemplateColumns: columns }}>
      <Flex gap={1} flex="1 1 100%" align="center" justify="space-between" _empty={{ display: "none" }}>
        {isNarrow ? null : <Text flex="1">{title}</Text>}
        {earlier || later ? (
          <>
            <Move text="‹ earlier" label="Earlier periods" move={earlier} />
            <Move text="later ›" label="Later periods" move={later} />
          </>
        ) : null}
      </Flex>
      {hasDag ? <Text>DAG</Text> : null}
      {isNarrow ? null : <Text>Last published</Text>}
      {hasDue ? <Text>Fresh until</Text> : null}
      <Flex aria-hidden className="axis" fontWeight="normal">
        {periods.map((period, index) => (
          <span key={period}>{axisLabel(periods, index)}</span>
        ))}
      </Flex>
      {isNarrow ? null : <Text textAlign="end">{measure?.name ?? "Rows"}</Text>}
    </Box>
  );
}
