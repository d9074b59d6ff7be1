// The periods that need a person: what happened, since when, whose it is, and the one action that helps.
import { Box, Button, Flex, Heading, Text } from "@chakra-ui/react";
import { useState } from "react";
import { KINDS, refusal, type Kind } from "../actions/kinds";
import type { FailedRun, PeriodRow, Periods, State } from "../api/types";
import { nameOf, titleOf, withoutProblem, type Problem } from "../model/fleet";
import { count, ended, parseUtc } from "../model/format";
import { namesOf, needsOf, statementOf, type Need } from "../model/needs";
import { STATES } from "../model/states";
import { DagLink, LINKS_IN_COLOUR, RunLink } from "../ui/links";
import { Ago, CopyButton } from "../ui/parts";
import { RunFailure } from "../ui/run-failure";
import { StateTag } from "../ui/sign";
import { useAddress } from "../ui/url";
import { sentence } from "./text";

const FEW = 5;
// The one action that helps, where there is one.
const WAY_OUT: Partial<Record<State, Kind>> = { failed: "reload", changed: "reload", pinned: "unpin", held: "unpause", gone: "forget" };

// Who owns DAGs, and which of them the user may change.
export type Rights = Pick<Periods, "owners" | "editable_dags" | "startable_dags" | "actions_dag_id">;

export function Needs({ problems, rights, areAll, isCalm, checkedAt }: {
  problems: readonly Problem[]; rights: Rights; areAll: boolean; isCalm: boolean; checkedAt: number | null;
}) {
  const [areAllShown, showAll] = useState(false);
  if (!problems.length) {
    return (
      <Flex align="center" gap={2} rounded="md" px={4} py={2} wrap="wrap" bg={isCalm ? "green.subtle" : "bg.muted"} color={isCalm ? "green.fg" : "fg"}>
        {isCalm ? <Text as="span" aria-hidden>✓</Text> : null}
        <Text>{areAll ? "No period needs attention." : "None of these periods needs attention."}</Text>
        <Text fontSize="sm">{checkedAt === null ? null : <>Checked <Ago seconds={checkedAt} />.</>}</Text>
      </Flex>
    );
  }
  const needs = needsOf(problems);
  const shown = areAllShown ? needs : needs.slice(0, FEW);
  return (
    <Box as="section" aria-label="What needs attention" borderWidth={1} rounded="lg" overflow="clip">
      <Flex px={4} py={2} bg="bg.muted" borderBottomWidth={1} justify="space-between" align="center" gap={2}>
        <Heading as="h2" size="sm">{count(problems.length, "period needs attention", "periods need attention")}</Heading>
        {needs.length > FEW ? (
          <Button size="xs" variant="ghost" onClick={() => { showAll(!areAllShown); }}>
            {areAllShown ? "Show the first" : "Show all"}
          </Button>
        ) : null}
      </Flex>
      <Box as="ul" listStyle="none" display={{ lg: "grid" }} gridTemplateColumns={{ lg: "max-content 1fr max-content" }}>
        {shown.map((need) => (
          <Row key={`${need.table.key}-${need.first.period}`} need={need} rights={rights} />
        ))}
      </Box>
    </Box>
  );
}

// Runs that failed before a load could record why, such as one whose plan could not read the bucket.
export function FailedRuns({ runs, problems, owners }: {
  runs: readonly FailedRun[]; problems: readonly Problem[]; owners: Record<string, string>;
}) {
  const others = withoutProblem(runs, problems);
  if (!others.length) {
    return null;
  }
  return (
    <Box as="section" aria-label="Runs that failed" css={LINKS_IN_COLOUR} bg="red.subtle" color="red.fg" rounded="md" px={4} py={2}>
      {others.map((run) => (
        <Box key={run.dag_id} _notFirst={{ mt: 2 }}>
          <Flex gap={2} align="baseline" wrap="wrap">
            <Text as="span" aria-hidden>✕</Text>
            <Text>The newest <RunLink dagId={run.dag_id} runId={run.run_id} /> failed before any period could show it.</Text>
            {owners[run.dag_id] ? <Text fontSize="sm">Owner {owners[run.dag_id]}.</Text> : null}
            {run.ended_at === null ? null : <Text fontSize="sm"><Ago seconds={run.ended_at} /></Text>}
          </Flex>
          <RunFailure dagId={run.dag_id} runId={run.run_id} />
        </Box>
      ))}
    </Box>
  );
}

function Row({ need: { table, first, periods }, rights }: { need: Need; rights: Rights }) {
  const { change } = useAddress();
  const [isUnfolded, unfold] = useState(false);
  const open = ({ period }: PeriodRow, act: string | null) => {
    change({ conn_id: table.connIds[0] ?? null, database: table.database, table: table.table, period, act });
  };
  const what = titleOf(table, first);
  const { next } = STATES[first.state];
  const owner = first.task ? rights.owners[first.task.dag_id] : undefined;
  const help = WAY_OUT[first.state];
  // A run of one DAG forgets, one of another loads.
  const dagId = help === "forget" || help === "unpin" ? rights.actions_dag_id : first.task?.dag_id;
  const mayHelp = dagId !== undefined && help && rights[help === "unpause" ? "editable_dags" : "startable_dags"].includes(dagId);
  const isOne = periods.length === 1;
  // Where causes differ in a detail, say whose this one is.
  const isSame = periods.every(({ why }) => why === first.why);
  const statement = statementOf(periods);
  return (
    <Flex as="li" px={4} py={3} gap={{ base: 2, lg: 4 }} align="center" wrap="wrap" borderTopWidth={1}
      display={{ lg: "grid" }} gridColumn={{ lg: "1 / -1" }} gridTemplateColumns={{ lg: "subgrid" }}
      _first={{ borderTopWidth: 0 }} _hover={{ bg: "bg.subtle" }}>
      <Box flexShrink={0}><StateTag state={first.state} /></Box>
      <Box flex="1" minW={{ base: "100%", lg: 0 }}>
        <Flex columnGap={2} align="baseline" wrap="wrap">
          <Text fontWeight="semibold" overflowWrap="anywhere">{nameOf(table)}</Text>
          <Text fontWeight="semibold">{namesOf(periods)}</Text>
          {first.since ? <Text fontSize="sm" color="fg.muted">{isOne ? "" : "last "}<Ago seconds={parseUtc(first.since).getTime() / 1_000} /></Text> : null}
          {first.task ? (
            <Text fontSize="sm" color="fg.muted">DAG <DagLink dagId={first.task.dag_id} />{owner ? `, owner ${owner}` : ""}</Text>
          ) : null}
        </Flex>
        <Text fontSize="sm" lineClamp={2} overflowWrap="anywhere" title={first.why}>
          {isSame ? "" : `${first.period}: `}{isSame ? sentence(first.why) : ended(first.why)}
        </Text>
        {next ? <Text fontSize="sm" color="fg.muted">{next}</Text> : null}
        {dagId !== undefined && help && !mayHelp ? (
          <Text fontSize="sm" color="fg.muted">{refusal(KINDS[help].right, dagId, dagId === rights.actions_dag_id ? undefined : owner)}</Text>
        ) : null}
        {isUnfolded ? (
          <Flex gap={1} mt={2} wrap="wrap" role="group" aria-label="Periods with this cause">
            {periods.map((each) => (
              <Button key={each.period} size="2xs" variant="outline" title={each.why} aria-label={`Open ${titleOf(table, each)}`}
                onClick={() => { open(each, null); }}>{each.period}</Button>
            ))}
          </Flex>
        ) : null}
      </Box>
      <Flex gap={2} flexShrink={0} justify={{ lg: "end" }} mt={{ base: 1, lg: 0 }}>
        {statement ? <CopyButton text={statement} label={`Copy the SQL to fix ${isOne ? "it" : "them"}`} size="xs" /> : null}
        {mayHelp ? (
          // A DAG is unpaused for all of its periods, and all periods of a table that is gone are forgotten, but one is reloaded.
          <Button size="xs" variant="outline" aria-label={`${KINDS[help].verb} ${what}`} onClick={() => { open(first, help); }}>
            {KINDS[help].verb}{isOne || help !== "reload" ? "" : ` ${first.period}`}…
          </Button>
        ) : null}
        {isOne ? <Button size="xs" variant="outline" aria-label={`Open ${what}`} onClick={() => { open(first, null); }}>Open</Button> : (
          <Button size="xs" variant="outline" aria-expanded={isUnfolded} onClick={() => { unfold(!isUnfolded); }}>
            {isUnfolded ? "Hide the periods" : `Show ${count(periods.length, "period")}`}
          </Button>
        )}
      </Flex>
    </Flex>
  );
}
