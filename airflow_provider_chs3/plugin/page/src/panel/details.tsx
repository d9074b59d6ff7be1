// What the ledgers of all nodes know of a period.
import { Box, Flex, Text } from "@chakra-ui/react";
import type { PeriodPlace } from "../api/queries";
import type { Inserting, Load, PeriodDetails, PeriodRow, NodeOfPeriod, Setting } from "../api/types";
import { byteRate, bytes, count, duration, number, orNone, rate, share } from "../model/format";
import { badObjectIn } from "../model/needs";
import { STEPS } from "../model/steps";
import { readText } from "../periods/text";
import { Figures } from "../ui/figures";
import { CopyButton, Facts, Faint, Note, Section, UtcTime } from "../ui/parts";
import { History, Objects } from "./history";
import { PartsOverTime } from "./parts-over-time";
import { InsertSql } from "./insert-sql";
import { Settings } from "./settings";

export function Details({ details, period, place }: { details: PeriodDetails; period: PeriodRow; place: PeriodPlace }) {
  if (details.error) {
    return <Note title="The cluster cannot be queried for details">{details.error}</Note>;
  }
  const newest = details.inserting ?? details.load;
  const settings: Setting[] = newest?.settings ?? [];
  const ids = newest?.query_ids ?? [];
  return (
    <>
      {details.inserting ? <Newest inserting={details.inserting} isLoading={period.state === "loading"} /> : null}
      {details.load ? <Published load={details.load} nodes={details.nodes} /> : null}
      {details.load?.checks.length ? <Checks checks={details.load.checks} /> : null}
      {details.load ? <Steps load={details.load} together={period.together} /> : null}
      <Nodes nodes={details.nodes} />
      <PartsOverTime place={place} />
      {details.load?.is_published ? <Proof load={details.load} period={period} nodes={details.nodes} /> : null}
      {details.history.length ? <History history={details.history} /> : null}
      {details.load ?? details.inserting ? <Objects place={place} failed={period.state === "failed" ? badObjectIn(period.why) : ""} areSomeGone={Boolean(details.load?.object_changes.deleted)} /> : null}
      {ids.length ? <InsertSql sql={details.insert_sql} queryIds={ids} /> : null}
      {settings.length ? <Settings settings={settings} /> : null}
    </>
  );
}

function Newest({ inserting, isLoading }: { inserting: Inserting; isLoading: boolean }) {
  return (
    <Section title={isLoading ? "This load" : "Newest load, not published"}>
      <Facts rows={[
        ["Recorded", <><UtcTime key="at" text={inserting.recorded_at} />, attempt {inserting.attempt}</>],
        inserting.reason !== "" && ["Reason", inserting.reason],
        ["Reads", readText(inserting)],
        ["Memory per node", `${orNone(inserting.memory_bytes, bytes)} granted`],
        ["Query IDs", <Ids key="ids" ids={inserting.query_ids} />],
      ]} />
    </Section>
  );
}

function Ids({ ids }: { ids: readonly string[] }) {
  return (
    <Flex gap={2} align="center" wrap="wrap">
      <Text as="span" fontFamily="mono" fontSize="xs" overflowWrap="anywhere">{ids.join(", ")}</Text>
      {ids.length ? <CopyButton text={ids.join("\n")} /> : null}
    </Flex>
  );
}

const OBJECTS = ["new", "overwritten", "deleted"];

// Servers count memory in steps of some MiB: a short insert ends before the first.
function memoryText({ peak_memory_bytes: peak, memory_bytes: granted }: Load): string {
  const allowed = `${orNone(granted, bytes)} granted`;
  return peak ? `peak ${bytes(peak)} of ${allowed}` : `${allowed}, peak ${peak === 0 ? "too low to measure" : "unknown"}`;
}

function Published({ load, nodes }: { load: Load; nodes: readonly NodeOfPeriod[] }) {
  const parts = nodes.reduce((sum, node) => sum + (node.share?.parts ?? 0), 0);
  const changes = Object.entries(load.object_changes)
    .sort(([one], [other]) => OBJECTS.indexOf(one) - OBJECTS.indexOf(other)).map(([what, found]) => `${number(found)} ${what}`);
  return (
    <Section title={load.is_published ? "Load that published it" : "Last load that published; its rows may have changed since"}>
      <Facts rows={[
        ["Recorded", <><UtcTime key="at" text={load.recorded_at} />, attempt {load.attempt}</>],
        Boolean(load.reason) && ["Reason", load.reason],
        ["Rows", `${orNone(load.rows, number)}, ${orNone(load.rows_per_second, rate)}`],
        ["Objects", `${readText(load)}, ${orNone(load.bytes_per_second, byteRate)}`],
        changes.length > 0 && ["Since the previous load", changes.join(", ")],
        ["Parts", `${orNone(load.parts, number)} at publishing, ${number(parts)} now`],
        ["Memory per node", memoryText(load)],
        Boolean(load.other_period_rows) && ["Left out", `${number(load.other_period_rows ?? 0)} rows of other periods`],
        Boolean(load.memory_steps) && ["Memory reduced", `${count(load.memory_steps ?? 0, "time")}, because nodes ran out of it`],
        ["Query IDs", <Ids key="ids" ids={load.query_ids ?? []} />],
      ]} />
    </Section>
  );
}

function Checks({ checks }: { checks: Load["checks"] }) {
  const rows = checks.map(({ name, wanted, found, has_passed: isGood }) => [
    <Text key="name" fontWeight={isGood ? undefined : "semibold"} color={isGood ? undefined : "fg.error"}>{isGood ? "✓" : "✕"} {name}</Text>,
    wanted, found ?? "hidden: may quote rows",
  ]);
  return (
    <Section title="Checks of its rows">
      <Figures name="Checks of its rows" rows={rows} columns={[["Check"], ["Wanted"], ["Found"]]} />
    </Section>
  );
}

const COLOURS = ["gray.solid", "teal.solid", "cyan.solid", "purple.solid", "blue.solid", "green.solid", "yellow.solid", "red.solid"];

function Steps({ load, together }: { load: Load; together: PeriodRow["together"] }) {
  const steps = Object.entries(load.seconds_by_step);
  const all = steps.reduce((sum, [, seconds]) => sum + seconds, 0);
  if (!all) {
    return null;
  }
  const names = Object.keys(STEPS);
  const colour = (step: string) => COLOURS[names.indexOf(step)] ?? "gray.solid";
  return (
    <Section title="Where the time went" aside={<Text fontSize="sm">{duration(all)}</Text>}>
      {together ? <Box mb={2}><Faint>Its share of the time that {together.periods} took together.</Faint></Box> : null}
      <Flex height="14px" rounded="sm" overflow="clip" gap="1px" mb={2} aria-hidden>
        {steps.map(([step, seconds]) => <Box key={step} bg={colour(step)} style={{ flexGrow: seconds / all }} />)}
      </Flex>
      <Box display="grid" gridTemplateColumns="repeat(auto-fill, minmax(15rem, 1fr))" columnGap={6} rowGap={1} as="ul" listStyle="none">
        {steps.map(([step, seconds]) => (
          <Flex as="li" key={step} gap={2} fontSize="sm" align="center">
            <Box boxSize="10px" rounded="2px" bg={colour(step)} flexShrink={0} />
            <Text flex="1">{STEPS[step] ?? step}</Text>
            <Text fontVariantNumeric="tabular-nums">{duration(seconds)}</Text>
            <Text color="fg.muted" minW="2.5rem" textAlign="end" fontVariantNumeric="tabular-nums">{share(seconds, all)}</Text>
          </Flex>
        ))}
      </Box>
    </Section>
  );
}

function Nodes({ nodes }: { nodes: readonly NodeOfPeriod[] }) {
  const all = nodes.reduce((sum, { share: own }) => sum + (own?.rows ?? 0), 0);
  const rows = nodes.map(({ name, error, share: own }) => own
    ? [name, number(own.rows), share(own.rows, all), orNone(own.published_rows, number), number(own.parts), bytes(own.size_bytes)]
    : [name, `does not answer: ${error}`, "", "", "", ""]);
  return (
    <Section title="Rows by node">
      <Figures name="Nodes" rows={rows} columns={[["Node"], ["Rows now", "number"], ["Share", "number"],
        ["Rows at publishing", "number"], ["Parts", "number"], ["On disk", "number"]]} />
    </Section>
  );
}

function Proof({ load, period, nodes }: { load: Load; period: PeriodRow; nodes: readonly NodeOfPeriod[] }) {
  const published = nodes.reduce((sum, node) => sum + (node.share?.published_rows ?? 0), 0);
  const isSame = period.state !== "changed" && nodes.every((node) => !node.error);
  return (
    <Section title="Proof">
      <Text fontSize="sm">
        Before publishing, the load counted {orNone(load.rows, number)} rows{load.objects > 0 ? ` in ${count(load.objects, "object")}` : ""}; the nodes&apos; ledgers
        have {number(published)}. {isSame ? `The table has ${number(period.rows)} now, in parts that the load wrote or that were merged from them.`
          : "The partition may have changed since then."}
      </Text>
    </Section>
  );
}
