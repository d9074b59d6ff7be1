// What became of a period before: its loads, failures and versions, and the objects that it consists of.
import { Badge, Box, Text } from "@chakra-ui/react";
import { useState } from "react";
import { useObjects, type PeriodPlace } from "../api/queries";
import type { PeriodDetails } from "../api/types";
import { bytes, count, duration, number, orNone } from "../model/format";
import { Figures } from "../ui/figures";
import { RunLink } from "../ui/links";
import { Faint, Section, Time, UtcTime } from "../ui/parts";

type Past = PeriodDetails["history"][number];

const EVENTS: Record<string, { name: string; palette: string }> = {
  load: { name: "published", palette: "green" },
  failed: { name: "failed", palette: "red" },
  unchanged: { name: "nothing to do", palette: "gray" },
  withheld: { name: "held", palette: "purple" },
  restored: { name: "restored", palette: "purple" },
  adopted: { name: "adopted", palette: "teal" },
  forgotten: { name: "forgotten", palette: "gray" },
  discarded: { name: "discarded", palette: "gray" },
};

function rowOf(past: Past) {
  const { name, palette } = EVENTS[past.event] ?? { name: past.event, palette: "gray" };
  const hasRead = past.event === "load" || past.event === "withheld";
  return [
    <Text key="at" as="span" whiteSpace="nowrap"><UtcTime text={past.recorded_at} /></Text>,
    <Box key="what" minW="7rem">
      <Badge colorPalette={palette} rounded="full" px={2}>{name}</Badge>{past.is_kept ? " version kept" : ""}
      {past.task ? <> <RunLink dagId={past.task.dag_id} runId={past.task.run_id} text="run" /></> : null}
      {past.why ? <Text fontSize="xs" color="fg.muted" lineClamp={2} overflowWrap="anywhere" title={past.why}>{past.why}</Text> : null}
    </Box>,
    hasRead ? number(past.loaded_rows) : "", hasRead ? `${count(past.loaded_objects, "object")}, ${bytes(past.loaded_bytes)}` : "",
    past.seconds ? duration(past.seconds) : "",
  ];
}

// Of a table without partitions: what each night added.
export function History({ history }: Pick<PeriodDetails, "history">) {
  return (
    <Section title="History">
      <Figures name="History" rows={history.map(rowOf)} columns={[["When"], ["What"], ["Rows", "number"], ["Read", "number"], ["Took", "number"]]} />
    </Section>
  );
}

const STATES: Record<string, string> = { gone: "gray", changed: "orange", new: "blue", loaded: "green", failed: "red" };

// Asked once they are unfolded, as they are if some are gone: these come first, after the object that the newest load could
// not read, though no load has taken it.
export function Objects({ place, failed, areSomeGone }: { place: PeriodPlace; failed: string; areSomeGone: boolean }) {
  const [isOpen, setOpen] = useState(areSomeGone);
  const { data } = useObjects(place, isOpen);
  const found = (data?.objects ?? []).filter(({ path }) => path !== failed);
  const badge = (state: string) => <Badge key="state" colorPalette={STATES[state] ?? "gray"} rounded="full" px={2}>{state}</Badge>;
  const rows = [
    ...(failed ? [[failed, badge("failed"), "", "", ""]] : []),
    ...found.map((each) => [
      each.path, badge(each.state), orNone(each.rows, number), bytes(each.size_bytes),
      <Box key="taken" whiteSpace="nowrap"><Time at={new Date(each.loaded_at * 1_000)} /><Text fontSize="xs" color="fg.muted">load {each.attempt}</Text></Box>,
    ]),
  ].map(([path, ...cells]) => [<Text key="path" as="span" fontFamily="mono" fontSize="xs" overflowWrap="anywhere">{path}</Text>, ...cells]);
  return (
    <Section title="Objects">
      <details open={isOpen} onToggle={(event) => { setOpen(event.currentTarget.open); }}>
        <Box as="summary" cursor="pointer" mb={2} fontSize="sm">Each object, with its state, its rows and the load that took it</Box>
        {data?.error ? <Faint>{data.error}</Faint> : null}
        {rows.length ? <Figures name="Objects" rows={rows} columns={[["Object"], ["State"], ["Rows", "number"], ["Size", "number"], ["Taken"]]} />
          : data && !data.error ? <Faint>No object is recorded.</Faint> : null}
        {data?.is_cut ? <Faint>There are more: these are the newest.</Faint> : null}
      </details>
    </Section>
  );
}
