// The details of one month, requested when the month is opened.
import { bytes, element, figures, number } from "./dom.js";

const STEPS = {
  list: "list objects",
  inspect: "inspect, compare",
  plan: "plan",
  stage: "stage",
  insert: "insert",
  verify: "verify",
  publish: "publish",
  start_over: "failed attempts",
};
const HEADING = "h5";

const answers = new Map(); // month → the last answer: shown until a new one arrives

function percent(part, whole) {
  return whole ? `${Math.round((100 * part) / whole)} %` : "";
}

function known(value, show) {
  return value === null || value === undefined ? "not known" : show(value);
}

function failure(found) {
  const parts = [`Its newest load failed at ${found.recorded_at} UTC: ${found.message}`, found.hint || ""];
  if (found.is_terminal) {
    parts.push("A retry would end the same way.");
  }
  return element("p", { class: "trouble" }, parts.filter(Boolean).join(" "));
}

function read(found) {
  const all = `${number(found.objects)} objects, ${bytes(found.source_bytes)}`;
  if (found.loaded_objects === found.objects) {
    return all;
  }
  return `${number(found.loaded_objects)} new of ${all}: ${bytes(found.loaded_bytes)}`;
}

function load(found, nodes, name) {
  const parts = nodes.filter((each) => !each.error).reduce((sum, each) => sum + each.parts, 0);
  const rows = [
    ["Recorded", `${found.recorded_at} UTC, attempt ${found.attempt}`],
    ["Loaded because", found.reason || ""],
    ["Rows", `${known(found.rows, number)}, ${known(found.rows_per_second, number)} rows/s`],
    ["Read", `${read(found)}, ${known(found.bytes_per_second, bytes)}/s`],
    ["Parts", `${known(found.parts, number)} at publishing, ${number(parts)} now`],
    ["Memory of a node", `peak ${known(found.peak_memory_bytes, bytes)} of ${known(found.memory_bytes, bytes)} granted`],
    ["Query ids", (found.query_ids || []).join(", ")],
  ];
  const changes = Object.entries(found.object_changes).map(([what, count]) => `${number(count)} ${what}`);
  if (changes.length) {
    rows.splice(4, 0, ["Objects since the load before", changes.join(", ")]);
  }
  if (found.other_month_rows) {
    rows.push(["Left out", `${number(found.other_month_rows)} rows of other months`]);
  }
  if (found.memory_steps) {
    rows.push(["Memory lowered", `${number(found.memory_steps)} times, because nodes ran out of it`]);
  }
  const title = found.is_published ? "Load that published it" : "Last load that published, but not the current rows";
  return figures(`${title}: ${name}`, [["What"], ["Value"]], rows, HEADING);
}

function steps(found, name) {
  const all = found.seconds_by_step.reduce((sum, each) => sum + each.seconds, 0);
  const rows = found.seconds_by_step.map((each) => {
    const bar = element("progress", { max: all || 1, value: each.seconds, "aria-label": STEPS[each.step] || each.step });
    return [STEPS[each.step] || each.step, each.seconds.toFixed(2), element("span", {}, bar, ` ${percent(each.seconds, all)}`)];
  });
  rows.push(["all", all.toFixed(2), ""]);
  return figures(`Where its time went: ${name}`, [["Step"], ["Seconds", "number"], ["Share"]], rows, HEADING);
}

function settings(found, name) {
  const rows = found.settings.map((each) => [each.name, String(each.value), each.reason]);
  return figures(`Settings: ${name}`, [["Setting"], ["Value", "number"], ["Reason"]], rows, HEADING);
}

function inserting(found, name) {
  const rows = [
    ["Recorded", `${found.recorded_at} UTC, attempt ${found.attempt}`],
    ["Loads because", found.reason],
    ["Reads", `${number(found.objects)} objects, ${bytes(found.source_bytes)}`],
    ["Memory of a node", `${known(found.memory_bytes, bytes)} granted`],
    ["Query ids", found.query_ids.join(", ")],
  ];
  return figures(`Newest load, which has not published: ${name}`, [["What"], ["Value"]], rows, HEADING);
}

function shares(nodes, name) {
  const all = nodes.reduce((sum, each) => sum + (each.rows || 0), 0);
  const rows = nodes.map((each) => each.error ? [each.name, `skipped: ${each.error}`, "", "", "", ""] :
    [each.name, number(each.rows), percent(each.rows, all), known(each.published_rows, number), number(each.parts),
      bytes(each.size_bytes)]);
  const columns = [["Node"], ["Rows now", "number"], ["Share", "number"], ["Rows at publishing", "number"],
    ["Parts now", "number"], ["On disk", "number"]];
  return figures(`Nodes: ${name}`, columns, rows, HEADING);
}

function detailsOf(found, name) {
  if (found === null) {
    return [element("p", { class: "faint" }, "No load has recorded anything about it.")];
  }
  if (found.error) {
    return [element("p", { class: "trouble" }, `The cluster cannot be queried for details: ${found.error}`)];
  }
  const shown = found.failure ? [failure(found.failure)] : [];
  if (found.inserting) {
    shown.push(inserting(found.inserting, name));
  }
  if (found.load) {
    shown.push(load(found.load, found.nodes, name), steps(found.load, name));
  }
  shown.push(shares(found.nodes, name));
  const newest = found.inserting || found.load;
  return newest ? [...shown, settings(newest, name)] : shown;
}

async function ask(place) {
  const answer = await fetch(`api/month?${new URLSearchParams(place)}`, { headers: { Accept: "application/json" } });
  if (!answer.ok && answer.status !== 404) {
    throw new Error(`Airflow answers ${answer.status}.`);
  }
  return answer.ok ? answer.json() : null;
}

// `place` names connection, database, table and month.
export function monthDetails(place) {
  const key = JSON.stringify(Object.values(place));
  const name = `${place.table} ${place.month}`;
  const status = element("p", { class: "faint", role: "status" });
  const content = element("div");
  const box = element("div", {}, status, content);
  if (answers.has(key)) {
    content.append(...detailsOf(answers.get(key), name));
  } else {
    status.textContent = "Loading details…";
  }
  ask(place).then((found) => {
    status.textContent = "";
    if (!answers.has(key) || JSON.stringify(answers.get(key)) !== JSON.stringify(found)) {
      answers.set(key, found);
      content.replaceChildren(...detailsOf(found, name));
    }
  }, (error) => { status.textContent = `No details: ${error.message}`; });
  return box;
}
