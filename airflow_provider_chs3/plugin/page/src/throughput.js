// The speed of loads, which of them were slow and why, and the parts over time.
import { taskLink } from "./airflow.js";
import { chart, forgetCharts } from "./charts.js";
import { bytes, connectionSection, element, figuresTable, number, withoutConnections } from "./dom.js";

export const path = "api/throughput";

const RANGES = { 1: "1 day", 7: "7 days", 30: "30 days", 90: "90 days" };
const DAY_SECONDS = 86400;
const STEPS = {
  list: "Listing",
  inspect: "Inspecting",
  plan: "Planning",
  stage: "Staging",
  insert: "Insert",
  verify: "Verifying",
  publish: "Publishing",
  start_over: "Failed attempts",
};

const chosen = new Map(); // connection → the table that is shown
const opened = new Set(); // names of the tables of figures that are open

const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const rate = (value) => `${compact.format(value)}/s`;
const byteRate = (value) => `${bytes(value)}/s`;
const seconds = (value) => `${value && value < 10 ? value.toFixed(1) : number(Math.round(value))} s`;
const time = (value) => new Date(value * 1000).toLocaleString();
const orNone = (value, format) => (value === null || value === undefined ? "–" : format(value));

function nameOf(load) {
  return `${load.database}.${load.table}`;
}

function columnsOf(loads) {
  const steps = Object.keys(STEPS).filter((step) => loads.some((load) => step in load.seconds_by_step));
  const figure = (name, value, format) => [name, "number", (load) => orNone(value(load), format)];
  return [
    ["Published", "text", (load) => time(load.published_at)],
    ["Month", "text", (load) => load.month],
    ["Slow", "text", (load) => (load.why_slow ? "slow" : "")],
    figure("Rows", (load) => load.rows, number),
    figure("Rows/s", (load) => load.rows_per_second, number),
    figure("Bytes/s", (load) => load.bytes_per_second, byteRate),
    figure("Peak memory", (load) => load.peak_memory_bytes, bytes),
    figure("Parts", (load) => load.parts, number),
    figure("Listing to published", (load) => load.seconds_to_published, seconds),
    figure("Listing to healthy", (load) => load.seconds_to_healthy, seconds),
    ...steps.map((step) => figure(STEPS[step], (load) => load.seconds_by_step[step], seconds)),
    figure("Waited for S3, all threads", (load) => load.s3_seconds, seconds),
    figure("Merges", (load) => load.merge_seconds, seconds),
    ["Task", "text", (load) => (load.task ? taskLink(load.task) : "")],
  ];
}

// The figures of charts, for users who cannot see them or want exact values; they stay open on refresh.
function figures(key, title, columns, rows) {
  const summary = element("summary", {}, title);
  summary.dataset.key = key;
  const names = columns.map(([name, kind]) => [name, kind]);
  const cells = rows.map((row) => columns.map(([, , text]) => text(row)));
  const made = element("details", opened.has(key) ? { open: "" } : {}, summary, figuresTable(title, names, cells));
  made.addEventListener("toggle", () => (made.open ? opened.add(key) : opened.delete(key)));
  return made;
}

function loadCharts(loads, range) {
  const times = loads.map((load) => load.published_at);
  const values = (field) => loads.map((load) => load[field]);
  // The slow ones are ringed in the first of the series.
  const points = (title, format, lines, ...series) => chart({
    title, times, format, lines, ...range,
    series: [
      ...series.map(([name, field]) => ({ name, style: "points", values: values(field) })),
      { name: "slow load", style: "rings", values: loads.map((load) => (load.why_slow ? load[series[0][1]] : null)) },
    ],
  });
  return element("div", { class: "charts" },
    points("Rows per second", rate, "decimal", ["load", "rows_per_second"]),
    points("Bytes per second", byteRate, "binary", ["load", "bytes_per_second"]),
    points("Time from listing", seconds, "decimal", ["to published", "seconds_to_published"], ["to healthy", "seconds_to_healthy"]),
    points("Memory on the busiest node", bytes, "binary", ["peak", "peak_memory_bytes"], ["allowed", "memory_bytes"]));
}

function slowLoads(loads) {
  const slow = loads.filter((load) => load.why_slow).reverse();
  if (!slow.length) {
    return element("p", { class: "faint" }, "None of these loads was slow compared to the others.");
  }
  const items = slow.map((load) => element("li", {},
    element("strong", {}, `${load.month}, published ${time(load.published_at)}`),
    `: ${orNone(load.rows_per_second, number)} rows/s. ${load.why_slow}`));
  return element("ul", { class: "slow", "aria-label": "Slow loads" }, ...items);
}

function tableSection(key, loads, range) {
  return [
    slowLoads(loads),
    loadCharts(loads, range),
    figures(`${key}-loads`, `Figures of ${number(loads.length)} loads`, columnsOf(loads), [...loads].reverse()),
  ];
}

function tables(seen, range, scope) {
  // The table that was loaded last comes first, unless a link names another.
  const names = [...new Set([...seen.loads].reverse().map(nameOf))];
  const key = seen.conn_id;
  const wanted = [chosen.get(key), `${scope.get("database")}.${scope.get("table")}`];
  const name = [...wanted, names[0]].find((each) => names.includes(each));
  const place = element("div");
  const show = (shown) => {
    chosen.set(key, shown);
    place.replaceChildren(...tableSection(key, seen.loads.filter((load) => nameOf(load) === shown), range));
  };
  const options = names.map((each) => element("option", each === name ? { selected: "" } : {}, each));
  const select = element("select", {}, ...options);
  select.dataset.key = `${key}-table`;
  select.addEventListener("change", () => show(select.value));
  show(name);
  return [element("p", {}, element("label", {}, "Table ", select)), place];
}

function parts(seen, range) {
  const { at, nodes } = seen.history;
  if (!nodes.length) {
    return [];
  }
  const times = [...at, seen.seen_at];
  const lines = (title, field) => chart({
    title, times, format: compact.format, lines: "whole", ...range,
    series: nodes.map((node) => ({ name: node.name || "server", style: "line", values: node[field] })),
  });
  const columns = [["Time", "text", (index) => time(times[index])]];
  for (const field of ["parts", "backlog"]) {
    columns.push(...nodes.map((node) => [`${node.name} ${field}`, "number", (index) => orNone(node[field][index], number)]));
  }
  return [
    element("h3", {}, "Parts and merges of all tables, by node"),
    element("div", { class: "charts" },
      lines("Active parts", "parts"), lines("Merge backlog: parts beyond one per partition", "backlog")),
    figures(`${seen.conn_id}-parts`, "Figures of parts and merges", columns, times.map((_, index) => index).reverse()),
  ];
}

// Logs usually lack data for the same reason on all nodes.
function silentLogs(seen) {
  const nodes = new Map();
  for (const node of seen.nodes) {
    node.silent.forEach((why) => nodes.set(why, [...(nodes.get(why) || []), node.name || "the server"]));
  }
  return [...nodes].map(([why, names]) => `${why} (${names.join(", ")}).`);
}

function connection(seen, days, scope) {
  const to = seen.seen_at === null ? Date.now() / 1000 : seen.seen_at;
  const range = { from: to - days * DAY_SECONDS, to };
  const made = connectionSection(seen);
  const notes = silentLogs(seen);
  if (seen.is_cut) {
    notes.push("There were more loads than shown: the oldest are missing.");
  }
  made.append(...notes.map((text) => element("p", { class: "faint" }, text)));
  if (seen.loads.length) {
    made.append(...tables(seen, range, scope));
  } else if (!seen.error) {
    const nothing = scope.has("dag_id") ? "This DAG has published nothing" : "No load has published anything";
    made.append(element("p", {}, `${nothing} in the last ${RANGES[days]}.`));
  }
  made.append(...parts(seen, range));
  return made;
}

function ranges(days, scope) {
  const links = Object.entries(RANGES).map(([value, text]) => {
    const to = new URLSearchParams(scope);
    to.set("view", "throughput");
    to.set("days", value);
    const current = Number(value) === days ? { "aria-current": "true" } : {};
    const link = element("a", { href: `?${to}`, ...current }, text);
    link.dataset.key = `days-${value}`;
    return link;
  });
  return element("nav", { "aria-label": "Time" }, ...links);
}

export function render(answer, scope) {
  forgetCharts();
  if (!answer.connections.length) {
    return withoutConnections();
  }
  return [ranges(answer.days, scope), ...answer.connections.map((seen) => connection(seen, answer.days, scope))];
}
