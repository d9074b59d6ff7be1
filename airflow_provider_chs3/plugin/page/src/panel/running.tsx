// A load at work: where it is, how far, and for how long still.
import { Box, Flex, Progress, Text } from "@chakra-ui/react";
import type { MonthRow } from "../api/types";
import { secondsLeft } from "../model/fleet";
import { bytes, duration, number, percent, rate } from "../model/format";
import { Facts, Section } from "../ui/parts";

// What a load has behind it once it inserts, and what is left.
const PHASES = ["List", "Inspect", "Plan", "Stage", "Insert", "Verify", "Publish"];
const NOW = PHASES.indexOf("Insert");

function Phases() {
  return (
    <Flex as="ol" listStyle="none" gap={1} mb={4} aria-label="Phases">
      {PHASES.map((phase, index) => (
        <Box as="li" key={phase} flex="1" minW={0} aria-current={index === NOW ? "step" : undefined}>
          <Box height="4px" rounded="full" bg={index < NOW ? "blue.solid" : index === NOW ? "blue.emphasized" : "bg.emphasized"} mb={1} />
          <Text fontSize="xs" fontWeight={index === NOW ? "bold" : "normal"} color={index === NOW ? "fg" : "fg.muted"}>
            {index < NOW ? "✓ " : ""}{phase}
          </Text>
        </Box>
      ))}
    </Flex>
  );
}

function Bar({ value, label }: { value: number | null; label: string }) {
  return (
    <Progress.Root value={value} max={100} size="sm" colorPalette="blue" aria-label={label} flex="1">
      <Progress.Track><Progress.Range /></Progress.Track>
    </Progress.Root>
  );
}

export function Running({ month, insert }: { month: MonthRow; insert: NonNullable<MonthRow["insert"]> }) {
  const left = secondsLeft(insert);
  const { total_rows: total, read_rows: read } = insert;
  const share = total ? Math.min(100, (100 * read) / total) : null;
  return (
    <Section title="Running">
      <Phases />
      <Flex gap={3} align="center" mb={2}>
        <Bar value={share} label={`Insert of ${month.month}`} />
        <Text fontWeight="bold" fontVariantNumeric="tabular-nums">{total ? percent(Math.min(read, total), total) : "running"}</Text>
      </Flex>
      <Facts rows={[
        ["Rows read", total ? `${number(read)} of ${number(total)}` : number(read)],
        ["Speed", `${rate(insert.rows_per_second)}, ${bytes(insert.read_bytes)} in ${duration(insert.seconds)}`],
        left !== null && ["Time left", `about ${duration(left)}`],
        ["Query id", insert.query_id],
      ]} />
      {insert.nodes.map((node) => (
        <Flex key={node.name} gap={3} align="center" mt={2} fontSize="sm" wrap="wrap">
          <Text minW="9rem" overflowWrap="anywhere">{node.name}</Text>
          <Bar value={read ? (100 * node.read_rows) / read : 0} label={`Share of ${node.name}`} />
          <Text fontVariantNumeric="tabular-nums">{number(node.read_rows)} rows, {bytes(node.memory_bytes)} of memory</Text>
        </Flex>
      ))}
    </Section>
  );
}
