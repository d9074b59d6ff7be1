// How fast loads were, which of them were slow and why, and the parts over time.
import { Box, Button, Flex, Heading, NativeSelect, Stack, Text } from "@chakra-ui/react";
import { useMemo, useState } from "react";
import { useSpeed } from "../api/queries";
import type { ConnectionSpeed, LoadSpeed } from "../api/types";
import { byteRate, bytes, compact, count, duration, number, orNone } from "../model/format";
import { listed } from "../model/needs";
import { beginOf, spanOf } from "../model/parts";
import type { Place } from "../model/place";
import { meanwhile, spellsOf, type Spell } from "../model/slow";
import { NoConnections, Troubles } from "../ui/connections";
import { Faint, Note, Section, Time, Waiting } from "../ui/parts";
import { Segments } from "../ui/segments";
import { useAddress } from "../ui/url";
import { Chart } from "./chart";
import { Costs, LoadFigures, PartFigures } from "./figures";
import { daysOf, RANGES } from "./range";

const DAY_SECONDS = 86_400;

interface Range {
  from: number;
  to: number;
}

export function ThroughputView({ place }: { place: Place }) {
  const { params, change } = useAddress();
  const days = daysOf(params);
  const { data, error } = useSpeed(place, days);
  if (data && !data.connections.length) {
    return <NoConnections />;
  }
  return (
    <>
      <Box mb={4}><Segments label="Time" value={String(days)} items={RANGES} choose={(value) => { change({ days: value }); }} /></Box>
      {error && !data ? <Note title="The loads cannot be shown">{error.message}</Note> : null}
      {data ? <Troubles connections={data.connections} /> : error ? null : <Waiting lines={3} height={48} />}
      {data?.connections.map((seen) => <Connection key={seen.conn_id} seen={seen} days={days} isOfDag={place.dagId !== undefined} />)}
    </>
  );
}

function silentLogs(seen: ConnectionSpeed): string[] {
  const nodes = new Map<string, string[]>();
  for (const node of seen.nodes) {
    node.silent.forEach((why) => nodes.set(why, [...(nodes.get(why) ?? []), node.name || "the server"]));
  }
  return [...nodes].map(([why, names]) => `${why} (${names.join(", ")}).`);
}

const nameOf = (load: LoadSpeed) => `${load.database}.${load.table}`;

function Connection({ seen, days, isOfDag }: { seen: ConnectionSpeed; days: number; isOfDag: boolean }) {
  const { params, change } = useAddress();
  // The table that was loaded last comes first, unless the address names another.
  const names = useMemo(() => [...new Set([...seen.loads].reverse().map(nameOf))], [seen.loads]);
  const wanted = [params.get("of") ?? "", `${params.get("database") ?? ""}.${params.get("table") ?? ""}`, names[0] ?? ""];
  const name = wanted.find((each) => names.includes(each)) ?? "";
  const loads = useMemo(() => seen.loads.filter((load) => nameOf(load) === name), [seen.loads, name]);
  const to = seen.seen_at ?? 0;
  const range = { from: to - days * DAY_SECONDS, to };
  const notes = [...silentLogs(seen), ...(seen.is_cut ? ["There are more loads than this page can show: the oldest are missing."] : [])];
  return (
    <Box as="section" aria-label={`Connection ${seen.conn_ids.join(", ")}`} mb={8}>
      <Flex gap={3} align="center" wrap="wrap" mb={2}>
        <Heading as="h2" size="md">{seen.conn_ids.join(", ")}</Heading>
        <Text color="fg.muted" fontSize="sm">{seen.seen_at === null ? "no data yet" : seen.cluster === null ? "one server" : `cluster ${seen.cluster}`}</Text>
        {names.length ? (
          <NativeSelect.Root size="sm" width="auto" minW="min(14rem, 100%)">
            <NativeSelect.Field aria-label="Table" value={name} onChange={(event) => { change({ of: event.currentTarget.value }); }}>
              {names.map((each) => <option key={each} value={each}>{each}</option>)}
            </NativeSelect.Field>
            <NativeSelect.Indicator />
          </NativeSelect.Root>
        ) : null}
      </Flex>
      {notes.map((note) => <Faint key={note}>{note}</Faint>)}
      {loads.length ? <Loads loads={loads} all={seen.loads} range={spanOf(loads.map((load) => load.published_at), range.from, to)} />
        : seen.error || seen.unread ? null : <Faint>{isOfDag ? "This DAG has" : "No load has"} published {isOfDag ? "nothing" : "anything"} in the last {RANGES[days]}.</Faint>}
      <Costs costs={seen.costs} days={days} />
      <Parts seen={seen} range={range} />
    </Box>
  );
}

// Fewer make no picture.
const LEAST_DRAWN = 5;

// Two beside each other, as there are four and two.
const GRID = { base: "minmax(0, 1fr)", lg: "repeat(2, minmax(0, 1fr))" };

function Loads({ loads, all, range }: { loads: LoadSpeed[]; all: LoadSpeed[]; range: Range }) {
  const times = useMemo(() => loads.map((load) => load.published_at), [loads]);
  type Field = "rows_per_second" | "bytes_per_second" | "seconds_to_published" | "seconds_to_healthy" | "peak_memory_bytes" | "memory_bytes";
  const areDrawn = loads.length >= LEAST_DRAWN;
  const hasSlow = loads.some((load) => load.why_slow);
  // The slow ones are ringed in the first of the series.
  const series = (...named: [string, Field][]) => [
    ...named.map(([name, field]) => ({ name, style: "points" as const, values: loads.map((load) => load[field]) })),
    ...(hasSlow ? [{ name: "slow loads", style: "rings" as const, values: loads.map((load) => (load.why_slow && named[0] ? load[named[0][1]] : null)) }] : []),
  ];
  return (
    <>
      <Slow loads={loads} all={all} />
      {areDrawn ? (
        <Box display="grid" gridTemplateColumns={GRID} gap={3} my={3}>
          <Chart title="Rows per second" times={times} format={(value) => `${compact(value)}/s`} {...range} series={series(["loads", "rows_per_second"])} />
          <Chart title="Bytes per second" times={times} format={byteRate} lines="binary" {...range} series={series(["loads", "bytes_per_second"])} />
          <Chart title="Time from listing" times={times} format={duration} {...range}
            series={series(["to published", "seconds_to_published"], ["to healthy", "seconds_to_healthy"])} />
          <Chart title="Memory on the busiest node" times={times} format={bytes} lines="binary" {...range}
            series={series(["peak", "peak_memory_bytes"], ["allowed", "memory_bytes"])} />
        </Box>
      ) : null}
      <LoadFigures loads={loads} isFolded={areDrawn} />
    </>
  );
}

// Fewer have no usual time.
const LEAST_LOADS = 3;
const FEW = 5;

function Slow({ loads, all }: { loads: readonly LoadSpeed[]; all: readonly LoadSpeed[] }) {
  const [areAllShown, showAll] = useState(false);
  const slow = loads.filter((load) => load.why_slow);
  if (!slow.length) {
    return <Faint>{loads.length < LEAST_LOADS ? "Too few loads to say whether one was slow." : "None of these loads was slow compared to the others."}</Faint>;
  }
  const spells = spellsOf(slow);
  return (
    <Box borderWidth={1} rounded="md" my={3}>
      <Flex px={3} py={1.5} minH={9} bg="bg.muted" borderBottomWidth={1} justify="space-between" align="center" gap={2}>
        <Text fontWeight="semibold" fontSize="sm">{count(slow.length, "load was", "loads were")} slow compared to the others of this table</Text>
        {spells.length > FEW ? <Button size="xs" variant="ghost" onClick={() => { showAll(!areAllShown); }}>{areAllShown ? "Show the newest" : "Show all"}</Button> : null}
      </Flex>
      <Box as="ul" listStyle="none" aria-label="Slow loads">
        {(areAllShown ? spells : spells.slice(0, FEW)).map((spell) => <SlowSpell key={spell.to} spell={spell} all={all} />)}
      </Box>
    </Box>
  );
}

function SlowLoad({ load }: { load: LoadSpeed }) {
  return (
    <Flex columnGap={3} wrap="wrap">
      <Text fontWeight="semibold">{load.period}</Text>
      <Text color="fg.muted"><Time at={new Date(load.published_at * 1_000)} /></Text>
      <Text>{orNone(load.rows_per_second, number)} rows/s. {load.why_slow}</Text>
    </Flex>
  );
}

// Several that ran in one busy hour are one line, which opens.
function SlowSpell({ spell, all }: { spell: Spell<LoadSpeed>; all: readonly LoadSpeed[] }) {
  const { from, to, loads } = spell;
  const [first, ...more] = loads;
  const besides = meanwhile(spell, all);
  return (
    <Box as="li" px={3} py={1.5} fontSize="sm" borderTopWidth={1} borderColor="border.muted" _first={{ borderTopWidth: 0 }}>
      {first && !more.length ? <SlowLoad load={first} /> : (
        <details>
          <Box as="summary" cursor="pointer">
            <b>{count(loads.length, "slow load")}</b> from <Time at={new Date(from * 1_000)} /> to <Time at={new Date(to * 1_000)} />: {listed([...new Set([...loads].reverse().map(({ period }) => period))])}
          </Box>
          <Stack gap={1} mt={1} ps={4}>{loads.map((load) => <SlowLoad key={`${load.period}-${load.published_at}`} load={load} />)}</Stack>
        </details>
      )}
      {besides ? <Faint>{besides}</Faint> : null}
    </Box>
  );
}

function Parts({ seen, range }: { seen: ConnectionSpeed; range: Range }) {
  const { at, nodes } = seen.history;
  const times = useMemo(() => [...at, seen.seen_at ?? 0], [at, seen.seen_at]);
  if (!nodes.length) {
    return null;
  }
  const known = at.filter((_, index) => nodes.some((node) => typeof node.parts[index] === "number"));
  const shown = { from: beginOf(known, range.from, range.to), to: range.to };
  const lines = (field: "parts" | "backlog") =>
    nodes.map((node) => ({ name: node.name || "server", style: "line" as const, values: node[field] }));
  return (
    <Section title="Parts and merges of all tables, by node">
      <Box display="grid" gridTemplateColumns={GRID} gap={3} mb={3}>
        <Chart title="Active parts" times={times} format={compact} lines="whole" {...shown} series={lines("parts")} />
        <Chart title="Merge backlog: parts beyond one per partition" times={times} format={compact} lines="whole" {...shown} series={lines("backlog")} />
      </Box>
      <PartFigures times={times} nodes={nodes} />
    </Section>
  );
}
