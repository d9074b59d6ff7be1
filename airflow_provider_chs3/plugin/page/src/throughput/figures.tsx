// The figures of charts, for those who cannot see them or want exact values.
import { Box } from "@chakra-ui/react";
import { useState, type ReactNode } from "react";
import type { ConnectionSpeed, LoadSpeed } from "../api/types";
import { byteRate, bytes, count, duration, number, orNone } from "../model/format";
import { STEPS } from "../model/steps";
import { Figures, type Column } from "../ui/figures";
import { TaskLink } from "../ui/links";
import { Faint, Section, Time } from "../ui/parts";
import { RANGES } from "./range";

// Drawn only once opened: there may be thousands of rows.
function Folded({ title, columns, rows }: { title: string; columns: readonly Column[]; rows: () => ReactNode[][] }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => { setOpen(event.currentTarget.open); }}>
      <Box as="summary" cursor="pointer" fontSize="sm" mb={2}>{title}</Box>
      {isOpen ? <Figures name={title} columns={columns} rows={rows()} /> : null}
    </details>
  );
}

// Of the few loads that are not drawn; where their time went is in the panel of each period.
const UNFOLDED = 10;

export function LoadFigures({ loads, isFolded }: { loads: readonly LoadSpeed[]; isFolded: boolean }) {
  const steps = Object.keys(STEPS).filter((step) => loads.some((load) => step in load.seconds_by_step));
  const columns: Column[] = [
    ["Published"], ["Period"], ["Slow"], ["Rows", "number"], ["Rows/s", "number"], ["Bytes/s", "number"], ["Peak memory", "number"],
    ["Parts", "number"], ["Listing to published", "number"], ["Listing to healthy", "number"],
    ...steps.map((step) => [STEPS[step] ?? step, "number"] as const),
    ["Waited for the storage, all threads", "number"], ["Merges", "number"], ["Task"],
  ];
  const rows = () => [...loads].reverse().map((load) => [
    <Box key="at" as="span" whiteSpace="nowrap"><Time at={new Date(load.published_at * 1_000)} /></Box>, load.period, load.why_slow ? "slow" : "", number(load.rows),
    orNone(load.rows_per_second, number), orNone(load.bytes_per_second, byteRate), orNone(load.peak_memory_bytes, bytes), number(load.parts),
    orNone(load.seconds_to_published, duration), orNone(load.seconds_to_healthy, duration),
    ...steps.map((step) => orNone(load.seconds_by_step[step], duration)),
    orNone(load.storage_seconds, duration), orNone(load.merge_seconds, duration),
    load.task ? <TaskLink key="task" task={load.task} /> : "",
  ]);
  return isFolded ? <Folded title={`${count(loads.length, "load")} as a table`} columns={columns} rows={rows} />
    : <Box my={3}><Figures name="Loads" columns={columns.slice(0, UNFOLDED)} rows={rows().map((cells) => cells.slice(0, UNFOLDED))} /></Box>;
}

export function Costs({ costs, days }: { costs: ConnectionSpeed["costs"]; days: number }) {
  const columns: Column[] = [["Table"], ["Loads", "number"], ["Read", "number"], ["Rows", "number"], ["Node time", "number"]];
  const rows = costs.map(({ database, table, loads, read_bytes: read, rows: loaded, node_seconds: seconds }) => [
    `${database}.${table}`, number(loads), bytes(read), number(loaded), duration(seconds),
  ]);
  return costs.length ? (
    <Section title={`Cost of the loads of the last ${RANGES[days] ?? ""}, by table`}>
      <Figures name="Cost by table" columns={columns} rows={rows} />
      <Faint>Node time is the seconds of their inserts, times the nodes that took part.</Faint>
    </Section>
  ) : null;
}

export function PartFigures({ times, nodes }: { times: readonly number[]; nodes: ConnectionSpeed["history"]["nodes"] }) {
  const fields = ["parts", "backlog"] as const;
  const columns: Column[] = [["Time"], ...fields.flatMap((field) => nodes.map((node) => [`${node.name} ${field}`, "number"] as const))];
  const rows = () => times.map((at, index) => [
    <Time key="at" at={new Date(at * 1_000)} />,
    ...fields.flatMap((field) => nodes.map((node) => orNone(node[field][index], number))),
  ]).reverse();
  return <Folded title="Parts and merges as a table" columns={columns} rows={rows} />;
}
