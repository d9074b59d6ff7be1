// A running load: which step it is in, how far, and for how much longer.
import { Box, Flex, Progress, Text } from "@chakra-ui/react";
import { useState } from "react";
import type { FinishedLoad, Inserting, PeriodDetails, PeriodRow } from "../api/types";
import { bytes, count, duration, number, orNone, percent, rate } from "../model/format";
import { nameOfPeriod } from "../model/period";
import { progressOf, seenInsert, SHORT_STEPS, timeLeft, type StepProgress, type TimeLeft } from "../model/steps";
import { Facts, Faint, NAMES_WIDTH, Section } from "../ui/parts";

const AFTER_INSERT = {
  insert: "The insert has begun.",
  verify: "The insert has ended. The load lists the objects again and counts the staged rows: they are not in the table yet.",
  publish: "The staged rows are exactly those of the objects. On each node they replace the period in one step.",
};
const MARK = { done: "✓ ", current: "", waiting: "" };
const FILL = { done: "blue.solid", current: "blue.emphasized", waiting: "bg.emphasized" };

function Stepper({ steps, last }: { steps: readonly StepProgress[]; last: FinishedLoad | null }) {
  return (
    <Box mb={4}>
      <Box as="ol" listStyle="none" display="grid" gap={2} gridTemplateColumns="repeat(auto-fit, minmax(4.25rem, 1fr))" aria-label="Steps">
        {steps.map(({ step, state, seconds, lastSeconds }) => (
          <Box as="li" key={step} minW={0} fontSize="xs" fontVariantNumeric="tabular-nums" aria-current={state === "current" ? "step" : undefined}>
            <Box height="4px" rounded="full" bg={FILL[state]} mb={1} />
            <Text fontWeight={state === "current" ? "bold" : "normal"} color={state === "waiting" ? "fg.muted" : "fg"}>{MARK[state]}{SHORT_STEPS[step]}</Text>
            <Text color={state === "waiting" ? "fg.muted" : "fg"}>{state === "current" && seconds === null ? "now" : orNone(seconds, duration)}</Text>
            {last ? <Text color="fg.muted">last {orNone(lastSeconds, duration)}</Text> : null}
          </Box>
        ))}
      </Box>
      {last ? <Box mt={1}><Faint>Last: this table's newest load that published, {last.period}, {count(last.rows, "row")}.</Faint></Box> : null}
    </Box>
  );
}

function Bar({ value, label }: { value: number | null; label: string }) {
  return (
    <Progress.Root value={value} max={100} size="sm" colorPalette="blue" aria-label={label} flex="1">
      <Progress.Track><Progress.Range /></Progress.Track>
    </Progress.Root>
  );
}

export function Running({ period, details }: { period: PeriodRow; details: PeriodDetails | null }) {
  const { insert } = period;
  const inserting: Inserting | null = details?.inserting ?? null;
  return (
    <Section title="Running">
      {inserting ? <Stepper steps={progressOf(inserting, period, details?.last_finished ?? null)} last={details?.last_finished ?? null} /> : null}
      {insert ? <Inserts period={period} insert={insert} last={details?.last_finished ?? null} />
        : <Faint>{period.step ? AFTER_INSERT[period.step] : "No insert of this load is running: its task is between two steps, or about to continue."}</Faint>}
    </Section>
  );
}

function textOf({ leastSeconds, usualSeconds }: TimeLeft): string {
  if (usualSeconds !== null) {
    return `about ${duration(usualSeconds)}, at the speed of the last load`;
  }
  return leastSeconds
    ? `at least ${duration(leastSeconds)} to read; the last rows are written after that`
    : "all rows are read; the rest are being written";
}

function Inserts({ period, insert, last }: {
  period: PeriodRow; insert: NonNullable<PeriodRow["insert"]>; last: FinishedLoad | null;
}) {
  const [asked, note] = useState(insert);
  const [seen, remember] = useState(() => seenInsert(null, insert));
  if (asked !== insert) {
    note(insert);
    remember(seenInsert(seen, insert));
  }
  const left = timeLeft(seen.latest, last);
  const { total_rows: total, read_rows: read } = seen.latest;
  const written = seen.nodes.reduce((sum, node) => sum + node.written_rows, 0);
  const share = total ? Math.min(100, (100 * read) / total) : null;
  return (
    <>
      <Flex gap={3} align="center" mb={2}>
        <Bar value={share} label={`Insert of ${nameOfPeriod(period.period)}`} />
        <Text fontWeight="bold" fontVariantNumeric="tabular-nums">{total ? `${percent(Math.min(read, total), total)} read` : "running"}</Text>
      </Flex>
      <Facts rows={[
        ["Rows read", total ? `${number(read)} of ${number(total)}` : number(read)],
        ["Rows written", number(written)],
        ["Speed", `${rate(insert.rows_per_second)}, ${bytes(insert.read_bytes)} in ${duration(insert.seconds)}`],
        left && ["Time left", [textOf(left), seen.whyLonger].filter(Boolean).join("; ")],
      ]} />
      {seen.nodes.map((node) => (
        <Flex key={node.name} columnGap={4} align="center" mt={2} fontSize="sm" wrap="wrap">
          <Text minW={NAMES_WIDTH} overflowWrap="anywhere">{node.name}</Text>
          <Bar value={read ? (100 * node.read_rows) / read : 0} label={`Share of ${node.name}`} />
          <Text fontVariantNumeric="tabular-nums">{percent(node.read_rows, read)} of the rows read, {node.isDone ? "done reading" : `${bytes(node.memory_bytes)} of memory`}</Text>
        </Flex>
      ))}
    </>
  );
}
