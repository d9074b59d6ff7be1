// The months that need a person: what, since when, whose, and the one thing that helps.
import { Box, Button, Flex, Heading, Text } from "@chakra-ui/react";
import { useState } from "react";
import { KINDS, type Kind } from "../actions/kinds";
import type { FailedRun, State } from "../api/types";
import { nameOf, untold, type Problem } from "../model/fleet";
import { count, parseUtc } from "../model/format";
import { STATES } from "../model/states";
import { DagLink, RunLink } from "../ui/links";
import { Ago, CopyButton } from "../ui/parts";
import { StateTag } from "../ui/sign";
import { useAddress } from "../ui/url";
import { sentence } from "./text";

const FEW = 5;
// The one action that helps, where there is one.
const WAY_OUT: Partial<Record<State, Kind>> = { failed: "reload", changed: "reload", held: "unpause" };

export function Needs({ problems, owners, isFiltered, checkedAt }: {
  problems: readonly Problem[]; owners: Record<string, string>; isFiltered: boolean; checkedAt: number | null;
}) {
  const [areAllShown, showAll] = useState(false);
  if (!problems.length) {
    return (
      <Flex align="center" gap={2} bg="green.subtle" color="green.fg" rounded="md" px={4} py={2} wrap="wrap">
        <Text as="span" aria-hidden>✓</Text>
        <Text>{isFiltered ? "None of these months needs attention." : "No month needs attention."}</Text>
        <Text fontSize="sm">{checkedAt === null ? null : <>Checked <Ago seconds={checkedAt} />.</>}</Text>
      </Flex>
    );
  }
  const shown = areAllShown ? problems : problems.slice(0, FEW);
  return (
    <Box as="section" aria-label="What needs attention" borderWidth={1} rounded="lg" overflow="clip">
      <Flex px={4} py={2} bg="bg.muted" borderBottomWidth={1} justify="space-between" align="center" gap={2}>
        <Heading as="h2" size="sm">{count(problems.length, "month needs attention", "months need attention")}</Heading>
        {problems.length > FEW ? (
          <Button size="xs" variant="ghost" onClick={() => { showAll(!areAllShown); }}>
            {areAllShown ? "Show the first" : `Show all ${problems.length}`}
          </Button>
        ) : null}
      </Flex>
      <Box as="ul" listStyle="none" display={{ lg: "grid" }} gridTemplateColumns={{ lg: "max-content 1fr max-content" }}>
        {shown.map((problem) => (
          <Need key={`${problem.table.key}-${problem.month.month}`} problem={problem} owners={owners} />
        ))}
      </Box>
    </Box>
  );
}

// Runs that failed before a load could record why, such as one whose plan could not read the bucket.
export function FailedRuns({ runs, problems, owners }: {
  runs: readonly FailedRun[]; problems: readonly Problem[]; owners: Record<string, string>;
}) {
  const others = untold(runs, problems);
  if (!others.length) {
    return null;
  }
  return (
    <Box as="section" aria-label="Runs that failed" bg="red.subtle" color="red.fg" rounded="md" px={4} py={2}>
      {others.map((run) => (
        <Flex key={run.dag_id} gap={2} align="baseline" wrap="wrap">
          <Text as="span" aria-hidden>✕</Text>
          <Text>The newest <RunLink dagId={run.dag_id} runId={run.run_id} /> failed, and no month says so.</Text>
          {owners[run.dag_id] ? <Text fontSize="sm">Owner {owners[run.dag_id]}.</Text> : null}
          {run.ended_at === null ? null : <Text fontSize="sm"><Ago seconds={run.ended_at} /></Text>}
        </Flex>
      ))}
    </Box>
  );
}

function Need({ problem: { table, month }, owners }: { problem: Problem; owners: Record<string, string> }) {
  const { change } = useAddress();
  const open = (act: string | null) => {
    change({ conn_id: table.connIds[0] ?? null, database: table.database, table: table.table, month: month.month, act });
  };
  const what = `${nameOf(table)} ${month.month}`;
  const { next } = STATES[month.state];
  const help = WAY_OUT[month.state];
  const owner = month.task ? owners[month.task.dag_id] : undefined;
  return (
    <Flex as="li" px={4} py={3} gap={{ base: 2, lg: 4 }} align="center" wrap="wrap" borderTopWidth={1}
      display={{ lg: "grid" }} gridColumn={{ lg: "1 / -1" }} gridTemplateColumns={{ lg: "subgrid" }}
      _first={{ borderTopWidth: 0 }} _hover={{ bg: "bg.subtle" }}>
      <Box flexShrink={0}><StateTag state={month.state} /></Box>
      <Box flex="1" minW={{ base: "100%", lg: 0 }}>
        <Flex columnGap={2} align="baseline" wrap="wrap">
          <Text fontWeight="semibold" overflowWrap="anywhere">{nameOf(table)}</Text>
          <Text fontWeight="semibold">{month.month}</Text>
          {month.since ? <Text fontSize="sm" color="fg.muted"><Ago seconds={parseUtc(month.since).getTime() / 1_000} /></Text> : null}
          {month.task ? (
            <Text fontSize="sm" color="fg.muted">DAG <DagLink dagId={month.task.dag_id} />{owner ? `, owner ${owner}` : ""}</Text>
          ) : null}
        </Flex>
        <Text fontSize="sm" lineClamp={2} overflowWrap="anywhere" title={month.why}>{sentence(month.why)}</Text>
        {next ? <Text fontSize="sm" color="fg.muted">{next}</Text> : null}
      </Box>
      <Flex gap={2} flexShrink={0} justify={{ lg: "end" }} mt={{ base: 1, lg: 0 }}>
        {month.statement ? <CopyButton text={month.statement} label="Copy the SQL to fix it" size="xs" /> : null}
        {help && month.task ? (
          <Button size="xs" variant="outline" aria-label={`${KINDS[help].verb} ${what}`} onClick={() => { open(help); }}>{KINDS[help].verb}…</Button>
        ) : null}
        <Button size="xs" variant="outline" aria-label={`Open ${what}`} onClick={() => { open(null); }}>Open</Button>
      </Flex>
    </Flex>
  );
}
