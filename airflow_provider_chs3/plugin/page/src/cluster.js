// The nodes of each cluster: their size, how full they are, and their work.
import { taskLink } from "./airflow.js";
import { bytes, connectionSection, duration, element, figures, number, withoutConnections } from "./dom.js";

export const path = "api/cluster";

const INSERTS = { taken: "taken", slowed: "slowed down", refused: "refused" };
const UNKNOWN = "not known";

function percent(part, whole) {
  return `${Math.floor((100 * part) / whole)} %`;
}

function memory(value) {
  return value ? bytes(value) : UNKNOWN;
}

function load(each) {
  const { insert, total_rows: total } = each;
  const what = [each.table || "not in a ledger: an append", each.month || "", each.task ? taskLink(each.task) : ""];
  if (!insert) {
    return [...what, "between two queries", "", "", "", "", ""];
  }
  const rows = total ? `${number(insert.read_rows)} of ${number(total)}` : number(insert.read_rows);
  const done = total ? Math.min(100, Math.floor((100 * insert.read_rows) / total)) : null;
  const progress = done === null ? "" : element("progress", { max: 100, value: done, "aria-label": "Progress" });
  return [...what, rows, done === null ? "" : element("span", {}, progress, ` ${done} %`), number(insert.rows_per_second),
    bytes(insert.read_bytes), duration(insert.seconds), bytes(insert.peak_memory_bytes)];
}

function loads(seen) {
  if (!seen.loads.length) {
    return element("div", {}, element("h3", {}, "Running loads"), element("p", {}, "None."));
  }
  const columns = [["Table"], ["Month"], ["Task"], ["Rows read", "number"], ["Done", "number"], ["Rows/s", "number"], ["Read", "number"],
    ["Since", "number"], ["Peak memory of a node", "number"]];
  return figures("Running loads", columns, seen.loads.map(load));
}

function size(node) {
  if (!node.size) {
    return element("span", { class: "trouble" }, node.size_error);
  }
  const { spec, source, note } = node.size;
  return `${number(spec.cores)} cores, ${memory(spec.memory_bytes)} (${source}${note ? `; ${note}` : ""})`;
}

function nodeRow(node) {
  const { measured } = node;
  return [node.name, node.version, duration(node.uptime_seconds), size(node),
    `${number(measured.cores)} cores, ${memory(measured.memory_bytes)}`, memory(node.machine_memory_bytes),
    bytes(node.memory_in_use_bytes), `${number(node.pool_busy)} of ${number(node.pool_size)}`, number(node.merges_running)];
}

function nodes(answered) {
  const columns = [["Node"], ["Version"], ["Uptime", "number"], ["Size that loads assume"], ["Server's cores and memory limit"],
    ["Machine's memory", "number"], ["Memory of queries", "number"], ["Busy merge threads", "number"], ["Merges", "number"]];
  return figures("Nodes", columns, answered.map(nodeRow));
}

function disks(answered) {
  const columns = [["Node"], ["Disk"], ["Kind"], ["Free", "number"], ["Total", "number"], ["Free of total", "number"],
    ["Reserved by merges and inserts", "number"]];
  const rows = answered.flatMap((node) => node.disks.map((disk) => [node.name, disk.name, disk.kind,
    ...(disk.total_bytes ? [bytes(disk.free_bytes), bytes(disk.total_bytes), percent(disk.free_bytes, disk.total_bytes),
      bytes(disk.reserved_bytes)] : ["unlimited", "", "", ""])]));
  return figures("Disks", columns, rows);
}

function parts(answered) {
  const columns = [["Node"], ["Table"], ["Fullest partition"], ["Its parts", "number"], ["Slowed down at", "number"],
    ["Refused at", "number"], ["Table's parts", "number"], ["Refused at", "number"], ["INSERTs are"]];
  const rows = answered.flatMap((node) => node.fullest.map((table) => [node.name, `${table.database}.${table.table}`,
    table.partition_id, number(table.partition_parts), number(table.parts_to_delay_insert), number(table.parts_to_throw_insert),
    number(table.table_parts), number(table.max_parts_in_total),
    element("span", table.inserts === "taken" ? {} : { class: "trouble" }, INSERTS[table.inserts])]));
  return figures("Tables nearest to their limits for parts", columns, rows);
}

function merges(answered) {
  const rows = answered.flatMap((node) => node.merges.map((merge) => [node.name, `${merge.database}.${merge.table}`,
    merge.partition_id, merge.is_mutation ? "mutation" : "merge", `${Math.floor(100 * merge.progress)} %`, number(merge.parts),
    bytes(merge.size_bytes), duration(merge.seconds)]));
  const columns = [["Node"], ["Table"], ["Partition"], ["Kind"], ["Done", "number"], ["Parts", "number"], ["Size", "number"],
    ["Since", "number"]];
  return rows.length ? figures("Longest-running merges", columns, rows) : "";
}

function replication(answered) {
  const replicated = answered.filter((node) => node.replication);
  if (!replicated.length) {
    return [];
  }
  const columns = [["Node"], ["Replicated tables", "number"], ["Read-only", "number"], ["Longest delay", "number"],
    ["Queue", "number"]];
  const made = [figures("Replication", columns, replicated.map(({ name, replication: state }) => [name, number(state.tables),
    number(state.readonly_tables), duration(state.delay_seconds), number(state.queued)]))];
  const oldest = replicated.flatMap(({ name, replication: state }) => state.oldest.map((each) => [name,
    `${each.database}.${each.table}`, each.kind, each.part, duration(each.age_seconds), number(each.tries),
    each.last_exception || each.postpone_reason]));
  if (oldest.length) {
    made.push(figures("Oldest entries of the replication queues", [["Node"], ["Table"], ["What"], ["Part"], ["Since", "number"],
      ["Tries", "number"], ["Why it waits"]], oldest));
  }
  return made;
}

function connection(seen) {
  const made = connectionSection(seen);
  const answered = seen.nodes.filter((node) => !node.error);
  if (answered.length) {
    made.append(loads(seen), nodes(answered), disks(answered), parts(answered), merges(answered), ...replication(answered));
  }
  return made;
}

export function render(answer) {
  return answer.connections.length ? answer.connections.map(connection) : withoutConnections();
}
