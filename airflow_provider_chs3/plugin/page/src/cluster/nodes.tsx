// Tables of what the nodes of a cluster have and do.
import { Badge, Text } from "@chakra-ui/react";
import type { NodeOverview } from "../api/types";
import { age, bytes, count, duration, number } from "../model/format";
import { Figures } from "../ui/figures";
import { Meter } from "../ui/meter";
import { Note, Section } from "../ui/parts";

interface Props {
  nodes: readonly (NodeOverview & { name: string })[];
}

function Capacity({ spec: { cores, memory_bytes: memory } }: { spec: NodeOverview["measured"] }) {
  return <Text as="span" whiteSpace="nowrap">{count(cores, "core")}, {memory ? bytes(memory) : "memory unknown"}</Text>;
}

function size({ size: found, size_error: problem }: NodeOverview) {
  if (!found) {
    return <Text color="fg.error">{problem}</Text>;
  }
  return <><Capacity spec={found.spec} /> ({found.source}{found.note ? `; ${found.note}` : ""})</>;
}

export function Nodes({ nodes }: Props) {
  const rows = nodes.map((node) => [
    node.name, <Text key="version" whiteSpace="nowrap">{node.version}, up {age(node.uptime_seconds)}</Text>, size(node),
    <Capacity key="measured" spec={node.measured} />,
    node.machine_memory_bytes ? bytes(node.machine_memory_bytes) : "–", bytes(node.memory_in_use_bytes),
    <Meter key="pool" part={node.pool_busy} whole={node.pool_size} label="Busy merge threads" />, number(node.merges_running),
  ]);
  return (
    <Section title="Nodes">
      <Figures name="Nodes" rows={rows} columns={[["Node"], ["Version"], ["Assumed by loads"], ["Reported by the server"],
        ["Memory of the machine", "number"], ["Used by queries", "number"], ["Busy merge threads", "number"], ["Merges", "number"]]} />
    </Section>
  );
}

export function Disks({ nodes }: Props) {
  const rows = nodes.flatMap((node) => node.disks.map((disk) => {
    const { free_bytes: free, total_bytes: total } = disk;
    return [node.name, disk.name, disk.kind, ...(total && free !== null
      ? [<Meter key="used" part={total - free} whole={total} label={`Used of ${disk.name} on ${node.name}`} />, bytes(free), bytes(total),
        bytes(disk.reserved_bytes ?? 0)]
      : ["unlimited", "", "", ""])];
  }));
  return (
    <Section title="Disks">
      <Figures name="Disks" rows={rows} columns={[["Node"], ["Disk"], ["Kind"], ["Used", "number"], ["Free", "number"], ["Total", "number"],
        ["Reserved by merges and inserts", "number"]]} />
    </Section>
  );
}

const COLOURS = { accepted: "green", delayed: "orange", rejected: "red" };

function Inserts({ are }: { are: keyof typeof COLOURS }) {
  return <Badge rounded="full" px={2} colorPalette={COLOURS[are]} variant={are === "accepted" ? "subtle" : "solid"}>{are}</Badge>;
}

export function FullTables({ nodes }: Props) {
  const rows = nodes.flatMap((node) => node.fullest.map((table) => [
    node.name, `${table.database}.${table.table}`, table.partition_id, number(table.partition_parts), number(table.parts_to_delay_insert),
    number(table.parts_to_throw_insert), number(table.table_parts), number(table.max_parts_in_total), <Inserts key="inserts" are={table.inserts} />,
  ]));
  const name = "Tables closest to their part limits";
  return rows.length ? (
    <Section title={name}>
      <Figures name={name} rows={rows} columns={[["Node"], ["Table"], ["Fullest partition"], ["Its parts", "number"], ["Delayed at", "number"],
        ["Rejected at", "number"], ["Parts of the table", "number"], ["Its limit", "number"], ["INSERTs are"]]} />
    </Section>
  ) : null;
}

export function Merges({ nodes }: Props) {
  const rows = nodes.flatMap((node) => node.merges.map((merge) => [
    node.name, `${merge.database}.${merge.table}`, merge.partition_id, merge.is_mutation ? "mutation" : "merge",
    <Meter key="done" part={merge.progress} whole={1} label="Progress" isProgress />, number(merge.parts), bytes(merge.size_bytes), duration(merge.seconds),
  ]));
  return rows.length ? (
    <Section title="Longest-running merges">
      <Figures name="Longest-running merges" rows={rows} columns={[["Node"], ["Table"], ["Partition"], ["Kind"], ["Done", "number"],
        ["Parts", "number"], ["Size", "number"], ["Running for", "number"]]} />
    </Section>
  ) : null;
}

export function Unread({ nodes }: Props) {
  const reasons = nodes.flatMap(({ name, unread }) => unread.map((reason) => `${name}: ${reason}`));
  return reasons.length ? <Note title="More cannot be read">{reasons.join("; ")}</Note> : null;
}

export function ReplicationQueues({ nodes }: Props) {
  const replicated = nodes.flatMap(({ name, replication }) => (replication ? [{ name, replication }] : []));
  const oldest = replicated.flatMap(({ name, replication }) => replication.oldest.map((entry) => [
    name, `${entry.database}.${entry.table}`, entry.kind, entry.part, duration(entry.age_seconds), number(entry.tries),
    entry.last_exception || entry.postpone_reason,
  ]));
  const rows = replicated.map(({ name, replication }) => [name, number(replication.tables), number(replication.readonly_tables),
    duration(replication.delay_seconds), number(replication.queued)]);
  return rows.length ? (
    <>
      <Section title="Replication">
        <Figures name="Replication" rows={rows} columns={[["Node"], ["Replicated tables", "number"], ["Read-only", "number"],
          ["Longest delay", "number"], ["Queue", "number"]]} />
      </Section>
      {oldest.length ? (
        <Section title="Oldest entries of the replication queues">
          <Figures name="Oldest entries of the replication queues" rows={oldest} columns={[["Node"], ["Table"], ["What"], ["Part"],
            ["Waiting for", "number"], ["Tries", "number"], ["Why it waits"]]} />
        </Section>
      ) : null}
    </>
  ) : null;
}
