// The periods that need a person: what happened, since when, whose it is, and the one action that helps.
import { Box, Button, Flex, Heading, Text } from "@chakra-ui/react";
import { useState, type ReactNode } from "react";
import { KINDS, refusal, type Kind } from "../actions/kinds";
import type { FailedRun, PeriodRow, Periods, State } from "../api/types";
import { nameOf, titleOf, type Problem } from "../model/fleet";
import { count, ended, parseUtc } from "../model/format";
import { namesOf, needsOf, statementOf, type Need } from "../model/needs";
import { STATES } from "../model/states";
import { DagLink, RunLink } from "../ui/links";
import { Ago, CopyButton } from "../ui/parts";
import { RunFailure } from "../ui/run-failure";
import { StateTag } from "../ui/sign";
import { useAddress } from "../ui/url";
import { sentence } from "./text";

const FEW = 5;
// The one action that helps, where there is one.
const WAY_OUT: Partial<Record<State, Kind>> = { failed: "reload", changed: "reload", pinned: "unpin", held: "approve", paused: "unpause", gone: "forget" };

// Who owns DAGs, and which of them the user may change.
export type Rights = Pick<Periods, "owners" | "editable_dags" | "startable_dags" | "actions_dag_id">;

export function Needs({ problems, data, missed, runs, areAll, checkedAt }: {
  problems: readonly Problem[]; data: Periods; missed: readonly string[]; runs: readonly FailedRun[]; areAll: boolean; checkedAt: number | null;
}) {
  const [areAllShown, showAll] = useState(false);
  const { broken_dags: broken, owners } = data;
  const needs = needsOf(problems);
  const rows = [
    ...missed.map((node) => <MissedNode key={`node ${node}`} node={node} />),
    ...needs.map((need) => <Row key={`${need.table.key}-${need.first.period}`} need={need} rights={data} />),
    ...broken.map((dagId) => <BrokenDag key={`dag ${dagId}`} dagId={dagId} owner={owners[dagId]} />),
    ...runs.map((run) => <FailedRunRow key={`run ${run.dag_id}`} run={run} owner={owners[run.dag_id]} />),
  ];
  if (!rows.length) {
    return (
      <Flex align="center" gap={2} rounded="md" px={4} py={2} wrap="wrap" bg="green.subtle" color="green.fg">
        <Text as="span" aria-hidden>✓</Text>
        <Text>{areAll ? "No period needs attention." : "None of these periods needs attention."}</Text>
        <Text fontSize="sm">{checkedAt === null ? null : <>Checked <Ago seconds={checkedAt} />.</>}</Text>
      </Flex>
    );
  }
  const dags = new Set([...broken, ...runs.map((run) => run.dag_id)]).size;
  const counts = [[missed.length, "node"], [problems.length, "period"], [dags, "DAG"]] as const;
  const what = counts.filter(([found]) => found).map(([found, noun]) => count(found, noun)).join(" and ");
  return (
    <Box as="section" aria-label="What needs attention" borderWidth={1} rounded="lg" overflow="clip">
      <Flex px={4} py={2} bg="bg.muted" borderBottomWidth={1} justify="space-between" align="center" gap={2}>
        <Heading as="h2" size="sm">{what} {missed.length + problems.length + dags > 1 ? "need" : "needs"} attention</Heading>
        {rows.length > FEW ? (
          <Button size="xs" variant="ghost" onClick={() => { showAll(!areAllShown); }}>
            {areAllShown ? "Show the first" : "Show all"}
          </Button>
        ) : null}
      </Flex>
      <Box as="ul" listStyle="none" display={{ lg: "grid" }} gridTemplateColumns={{ lg: "max-content 1fr max-content" }}>
        {areAllShown ? rows : rows.slice(0, FEW)}
      </Box>
    </Box>
  );
}

function Entry({ label, tag, head, children, buttons }: {
  label: string; tag: ReactNode; head: ReactNode; children: ReactNode; buttons?: ReactNode;
}) {
  return (
    <Flex as="li" aria-label={label} px={4} py={3} gap={{ base: 2, lg: 4 }} align="center" wrap="wrap" borderTopWidth={1}
      display={{ lg: "grid" }} gridColumn={{ lg: "1 / -1" }} gridTemplateColumns={{ lg: "subgrid" }}
      _first={{ borderTopWidth: 0 }} _hover={{ bg: "bg.subtle" }}>
      <Box flexShrink={0}>{tag}</Box>
      <Box flex="1" minW={{ base: "100%", lg: 0 }} gridColumn={buttons ? undefined : { lg: "2 / -1" }}>
        <Flex columnGap={2} align="baseline" wrap="wrap">{head}</Flex>
        {children}
      </Box>
      {buttons ? <Flex gap={2} flexShrink={0} justify={{ lg: "end" }} mt={{ base: 1, lg: 0 }}>{buttons}</Flex> : null}
    </Flex>
  );
}

// Of whose shard no replica answers: what it has is in no figure, and may be in any state.
function MissedNode({ node }: { node: string }) {
  return (
    <Entry label={`Node ${node} is down`} tag={<StateTag state="stuck" name="no answer" />} head={<Text fontWeight="semibold">Node {node}</Text>}>
      <Text fontSize="sm">No replica of its shard answers: its rows are in no figure, and the states of periods come from the other nodes.</Text>
    </Entry>
  );
}

// One that loads periods and that Airflow cannot import: its periods stay as they are, and so look well.
function BrokenDag({ dagId, owner }: { dagId: string; owner: string | undefined }) {
  return (
    <Entry label={`DAG ${dagId} cannot be imported`} tag={<StateTag state="stuck" name="DAG is broken" />} head={<OfDag dagId={dagId} owner={owner} />}>
      <Text fontSize="sm">Airflow cannot import it: it loads nothing until its file is fixed. Airflow&apos;s home page has the error.</Text>
    </Entry>
  );
}

// A run that failed before a load could record why, such as one whose plan could not read the bucket.
function FailedRunRow({ run: { dag_id: dagId, run_id: runId, ended_at: ended }, owner }: { run: FailedRun; owner: string | undefined }) {
  return (
    <Entry label={`Run of DAG ${dagId} failed`} tag={<StateTag state="failed" name="run failed" />}
      head={<><OfDag dagId={dagId} owner={owner} />{ended === null ? null : <Text fontSize="sm" color="fg.muted"><Ago seconds={ended} /></Text>}</>}>
      <Text fontSize="sm">Its <RunLink dagId={dagId} runId={runId} text="newest run" /> failed before any period could show it.</Text>
      <RunFailure dagId={dagId} runId={runId} />
    </Entry>
  );
}

function OfDag({ dagId, owner }: { dagId: string; owner: string | undefined }) {
  return <><Text fontWeight="semibold">DAG <DagLink dagId={dagId} /></Text>{owner ? <Text fontSize="sm" color="fg.muted">owner {owner}</Text> : null}</>;
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
    <Entry label={what} tag={<StateTag state={first.state} />} head={(
      <>
        <Text fontWeight="semibold" overflowWrap="anywhere">{nameOf(table)}</Text>
        <Text fontWeight="semibold">{namesOf(periods)}</Text>
        {first.since ? <Text fontSize="sm" color="fg.muted">{isOne ? "" : "last "}<Ago seconds={parseUtc(first.since).getTime() / 1_000} /></Text> : null}
        {first.task ? (
          <Text fontSize="sm" color="fg.muted">DAG <DagLink dagId={first.task.dag_id} />{owner ? `, owner ${owner}` : ""}</Text>
        ) : null}
      </>
    )} buttons={(
      <>
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
      </>
    )}>
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
    </Entry>
  );
}
