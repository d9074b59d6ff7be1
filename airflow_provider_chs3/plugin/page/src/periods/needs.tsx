// The periods that need a person: what happened, since when, whose it is, and the one action that helps.
import { Box, Button, Flex, Heading, Text, useMediaQuery } from "@chakra-ui/react";
import { useState, type ReactNode } from "react";
import { useCauses } from "../api/queries";
import { KINDS, refusal, type Kind } from "../actions/kinds";
import type { FailedRun, ShardNode, PeriodRow, Periods, State } from "../api/types";
import { nameOf, titleOf, type Problem } from "../model/fleet";
import { count, ended, parseUtc } from "../model/format";
import { adoptCommand, badObjectIn, listed, namesOf, needsByCause, needsOf, runsByCause, statementOf, wayOut, type Need } from "../model/needs";
import { AWAITS_LOAD, AWAITS_MERGES, NEEDS_PERSON, STATES } from "../model/states";
import { DagLink, RunLink } from "../ui/links";
import { Ago, CopyButton, Time } from "../ui/parts";
import { RunFailure } from "../ui/run-failure";
import { StateTag } from "../ui/sign";
import { useAddress } from "../ui/url";
import { useWhatChanged } from "../ui/what-changed";
import { Entry } from "./entry";
import { Slow, type SlowLoads } from "./slow";
import { sentence } from "./text";

// The list of tables begins on the first screen, too, which of a laptop is low.
const FEW = { high: 5, low: 3 };
const LOW_SCREEN = "(max-height: 799px)";
// They are carried out by runs of a DAG of their own, not of the one that loads.
const OF_ACTIONS: ReadonlySet<Kind> = new Set<Kind>(["forget", "unpin", "merge"]);

// Of a load that ended without a word, Airflow may know why.
const KILLED: ReadonlySet<State> = new Set(["unfinished", "stranded"]);

// Who owns DAGs, and which of them the user may change.
export type Rights = Pick<Periods, "owners" | "editable_dags" | "startable_dags" | "actions_dag_id" | "next_runs">;

// If they are some of the periods, others may need attention, too.
export function Needs({ problems, data, missed, runs, slow, areSome, areAll, checkedAt, isOld }: {
  problems: readonly Problem[]; data: Periods; missed: readonly ShardNode[]; runs: readonly FailedRun[]; slow: readonly SlowLoads[]; areSome: boolean; areAll: boolean; checkedAt: number | null; isOld: boolean;
}) {
  const [areAllShown, showAll] = useState(false);
  const [isLow] = useMediaQuery([LOW_SCREEN]);
  const few = isLow ? FEW.low : FEW.high;
  const { broken_dags: broken, owners } = data;
  const needs = needsByCause(needsOf(problems));
  const rowsIf = (isPersonNeeded: boolean) => needs.filter(([need]) => need && NEEDS_PERSON.has(need.first.state) === isPersonNeeded)
    .map((those) => <Rows key={keyOf(those[0])} needs={those} rights={data} />);
  const causes = useCauses(runs);
  const rows = [
    ...missed.map(({ name, error }) => <MissedNode key={`node ${name}`} node={name} error={error} />),
    ...rowsIf(true),
    ...broken.map((dagId) => <BrokenDag key={`dag ${dagId}`} dagId={dagId} owner={owners[dagId]} />),
    ...runsByCause(runs, causes).map((those) => <FailedRuns key={`run ${those[0]?.dag_id ?? ""}`} runs={those} owners={owners} />),
    ...rowsIf(false),
    ...slow.map((each) => <Slow key={`slow ${each.seen.conn_id}`} slow={each} />),
  ];
  if (!rows.length) {
    return (
      <Flex align="center" gap={2} rounded="md" px={4} py={2} wrap="wrap" bg={isOld ? "bg.muted" : "green.subtle"} color={isOld ? "fg.muted" : "green.fg"}>
        <Text as="span" aria-hidden>{isOld ? "?" : "✓"}</Text>
        <Text>{areAll ? "No period" : "None of these periods"} {isOld ? "needed" : "needs"} attention.</Text>
        <Text fontSize="sm">{checkedAt === null ? null : <>Checked <Ago seconds={checkedAt} />.</>}</Text>
      </Flex>
    );
  }
  const dags = new Set([...broken, ...runs.map((run) => run.dag_id)]).size;
  const [waiting, unmerged] = [AWAITS_LOAD, AWAITS_MERGES].map((states) => problems.filter(({ period }) => states.has(period.state)).length) as [number, number];
  const counts = [[missed.length, "node"], [problems.length - waiting - unmerged, "period"], [dags, "DAG"]] as const;
  const found = counts.filter(([of]) => of);
  const what = [
    found.length ? `${found.map(([of, noun]) => count(of, noun)).join(" and ")} ${found.reduce((sum, [of]) => sum + of, 0) > 1 ? "need" : "needs"} attention` : "",
    waiting ? `${count(waiting, "period")} ${waiting > 1 ? "wait for their" : "waits for its"} next load` : "",
    unmerged ? `${count(unmerged, "period")} ${unmerged > 1 ? "wait" : "waits"} for merges` : "",
  ].filter(Boolean).join(", ") || "No period needs attention";
  return (
    <Box as="section" aria-label="What needs attention" borderWidth={1} rounded="lg" overflow="clip">
      <Flex px={4} py={1.5} minH={9} bg="bg.muted" borderBottomWidth={1} align="center">
        <Heading as="h2" size="sm">{what}{areSome ? " so far" : ""}</Heading>
      </Flex>
      <Box as="ul" listStyle="none">
        {areAllShown ? rows : rows.slice(0, few)}
      </Box>
      {rows.length > few ? (
        <Button size="xs" variant="ghost" width="100%" borderTopWidth={1} borderTopColor="border" rounded="none" aria-expanded={areAllShown} onClick={() => { showAll(!areAllShown); }}>
          {areAllShown ? `Show the first ${few}` : `Show ${rows.length - few} more`}
        </Button>
      ) : null}
    </Box>
  );
}

// Of whose shard no replica answers: what it has is in no figure, and may be in any state.
function MissedNode({ node, error }: { node: string; error: string }) {
  return (
    <Entry label={`Node ${node} is down`} tag={<StateTag state="stuck" name="no answer" />} head={<Text fontWeight="semibold">Node {node}</Text>}>
      <Text fontSize="sm" overflowWrap="anywhere">{ended(error)}</Text>
      <Text fontSize="sm" color="fg.muted">No replica of its shard answers, so loads into the cluster fail. Until one does, its rows are in no figure, and the states of periods come from the other nodes.</Text>
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

// Runs that failed where no load could record why, such as in their plan, or in a sensor.
function FailedRuns({ runs, owners }: { runs: readonly FailedRun[]; owners: Record<string, string> }) {
  const [isUnfolded, unfold] = useState(false);
  const [first, ...more] = runs;
  if (!first) {
    return null;
  }
  const { dag_id: dagId, run_id: runId, ended_at: ended } = first;
  const several = more.length > 0;
  return (
    <Entry label={several ? `Runs of ${runs.length} DAGs failed` : `Run of DAG ${dagId} failed`} tag={<StateTag state="failed" name="run failed" />} head={(
      <>
        {several ? <Text fontWeight="semibold" overflowWrap="anywhere">DAGs {listed(runs.map((run) => run.dag_id))}</Text> : <OfDag dagId={dagId} owner={owners[dagId]} />}
        {ended === null ? null : <Text fontSize="sm" color="fg.muted">{several ? "last " : ""}<Ago seconds={ended} /></Text>}
      </>
    )} buttons={several ? (
      <Button size="xs" variant="outline" aria-expanded={isUnfolded} onClick={() => { unfold(!isUnfolded); }}>
        {isUnfolded ? "Hide the runs" : `Show ${count(runs.length, "run")}`}
      </Button>
    ) : undefined}>
      <Text fontSize="sm">
        {several ? "Their newest runs failed for the same cause," : <>Its <RunLink dagId={dagId} runId={runId} text="newest run" /> failed,</>} and no period shows why.
      </Text>
      <RunFailure dagId={dagId} runId={runId} />
      {isUnfolded ? (
        <Box as="ul" listStyle="none" mt={1} fontSize="sm">
          {runs.map((run) => <li key={run.dag_id}><RunLink dagId={run.dag_id} runId={run.run_id} text={run.dag_id} />{owners[run.dag_id] ? `, owner ${owners[run.dag_id]}` : ""}</li>)}
        </Box>
      ) : null}
    </Entry>
  );
}

function OfDag({ dagId, owner }: { dagId: string; owner: string | undefined }) {
  return <><Text fontWeight="semibold">DAG <DagLink dagId={dagId} /></Text>{owner ? <Text fontSize="sm" color="fg.muted">owner {owner}</Text> : null}</>;
}

function nextOf(period: PeriodRow, all: number, nextRun: number | undefined): ReactNode {
  const { next } = STATES[period.state];
  if (nextRun && AWAITS_LOAD.has(period.state)) {
    const [first] = next?.split(/(?<=\.) /) ?? [];
    return <>{first} Its DAG runs next at <Time at={new Date(nextRun * 1_000)} />: reload if that is too late, or loads other periods.</>;
  }
  if (period.state === "failed" && badObjectIn(period.why)) {
    return `${wayOut(period.why, all > 1 ? "these objects" : "this object")}, then reload.`;
  }
  return next ?? period.hint;
}

// Its tag and its DAG stand beside it, what helps below it, and the panel names the query.
function shortWhy({ why, hint, task }: PeriodRow, next: ReactNode): string {
  const [, error = why] = /^its newest load failed: (.*)$/s.exec(next && next === hint ? why.slice(0, -hint.length) : why) ?? [];
  return error.replace(/, query chs3_\w+: (Received from \S+ )?/, ": ").replace(`the DAG ${task?.dag_id ?? ""}, which loaded it last,`, "its DAG").trim();
}

const keyOf = (need: Need | undefined) => (need ? `${need.table.key}-${need.first.period}` : "");

// Of several tables, one row that opens to a row of each.
function Rows({ needs, rights }: { needs: readonly Need[]; rights: Rights }) {
  const [isUnfolded, unfold] = useState(false);
  const [newest] = needs;
  const rows = needs.map((need) => <Row key={keyOf(need)} need={need} rights={rights} />);
  const names = [...new Set(needs.map((need) => nameOf(need.table)))];
  if (!newest || needs.length === 1) {
    return rows;
  }
  const { table, first } = newest;
  const why = shortWhy(first, null);
  const text = needs.every((need) => need.first.why === first.why) ? sentence(why) : `${titleOf(table, first)}: ${ended(why)}`;
  return (
    <>
      <Entry label={`${count(names.length, "table")} failed for one cause`} tag={<StateTag state={first.state} />} head={(
        <>
          <Text fontWeight="semibold" overflowWrap="anywhere">{listed(names)}</Text>
          <Text fontSize="sm" color="fg.muted">last <Ago seconds={parseUtc(first.since).getTime() / 1_000} />, connection {table.connIds[0]}</Text>
        </>
      )} buttons={(
        <Button size="xs" variant="outline" aria-expanded={isUnfolded} onClick={() => { unfold(!isUnfolded); }}>
          {isUnfolded ? "Hide the tables" : `Show ${count(names.length, "table")}`}
        </Button>
      )}>
        <Text fontSize="sm" lineClamp={2} overflowWrap="anywhere" title={why}>{text}</Text>
      </Entry>
      {isUnfolded ? rows : null}
    </>
  );
}

function Row({ need: { table, first, periods }, rights }: { need: Need; rights: Rights }) {
  const { change } = useAddress();
  const [isUnfolded, unfold] = useState(false);
  const place = { conn_id: table.connIds[0] ?? null, database: table.database, table: table.table };
  const open = ({ period }: PeriodRow) => { change({ ...place, period, periods: null, act: null }); };
  // A DAG is unpaused for all of its periods, and all periods of a table that is gone are forgotten.
  const act = (kind: Kind) => {
    const isOfFirst = isOne || kind === "unpause" || kind === "forget";
    change({ ...place, period: isOfFirst ? first.period : null, periods: isOfFirst ? null : periods.map((each) => each.period).join(","), act: kind });
  };
  const what = titleOf(table, first);
  const next = nextOf(first, periods.length, first.task ? rights.next_runs[first.task.dag_id] : undefined);
  const owner = first.task ? rights.owners[first.task.dag_id] : undefined;
  const { help, short } = STATES[first.state];
  const dagId = help && OF_ACTIONS.has(help) ? rights.actions_dag_id : first.task?.dag_id;
  const mayHelp = dagId !== undefined && help && rights[help === "unpause" ? "editable_dags" : "startable_dags"].includes(dagId);
  const isOne = periods.length === 1;
  const statement = statementOf(periods);
  const { connIds: [connId = ""], database, table: name } = table;
  const changed = useWhatChanged({ connId, database, table: name, period: first.period }, first.state);
  const why = changed || shortWhy(first, next);
  // Where causes differ in a detail, say whose this one is.
  const isSame = isOne || (!changed && periods.every((each) => each.why === first.why));
  return (
    <Entry label={what} tag={<StateTag state={first.state} name={short} />} head={(
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
        {first.state === "changed" ? <CopyButton text={adoptCommand(table, periods)} label="Copy chs3 adopt" size="xs" /> : null}
        {mayHelp ? (
          <Button size="xs" variant="outline" aria-label={`${KINDS[help].verb} ${nameOf(table)} ${namesOf(periods)}`} onClick={() => { act(help); }}>
            {KINDS[help].verb}{isOne || help === "unpause" || help === "forget" ? "" : ` ${periods.length}`}…
          </Button>
        ) : null}
        {isOne ? <Button size="xs" variant="outline" aria-label={`Open ${what}`} onClick={() => { open(first); }}>Open</Button> : (
          <Button size="xs" variant="outline" aria-expanded={isUnfolded} onClick={() => { unfold(!isUnfolded); }}>
            {isUnfolded ? "Hide the periods" : `Show ${count(periods.length, "period")}`}
          </Button>
        )}
      </>
    )}>
        <Text fontSize="sm" lineClamp={{ base: 3, lg: 2 }} overflowWrap="anywhere" title={why}>
          {isSame ? sentence(why) : `${first.period}: ${ended(why)}`}
        </Text>
        {KILLED.has(first.state) && first.task ? <RunFailure dagId={first.task.dag_id} runId={first.task.run_id} isShort /> : null}
        {next ? <Text fontSize="sm" color="fg.muted" overflowWrap="anywhere">{next}</Text> : null}
        {dagId !== undefined && help && !mayHelp ? (
          <Text fontSize="sm" color="fg.muted">
            {OF_ACTIONS.has(help) ? `${KINDS[help].verb} is offered here to those who may start runs of DAG ${dagId}, where Airflow has it.` : refusal(KINDS[help].right, dagId, owner)}
          </Text>
        ) : null}
        {isUnfolded ? (
          <Flex gap={1} mt={2} wrap="wrap" role="group" aria-label="Periods with this cause">
            {periods.map((each) => (
              <Button key={each.period} size="2xs" variant="outline" title={each.why} aria-label={`Open ${titleOf(table, each)}`}
                onClick={() => { open(each); }}>{each.period}</Button>
            ))}
          </Flex>
        ) : null}
    </Entry>
  );
}
