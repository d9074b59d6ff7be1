// The calendar of months of each table, and the details of opened months.
import { actions } from "./actions.js";
import { taskLink } from "./airflow.js";
import { monthDetails } from "./details.js";
import { bytes, connectionSection, element, number, withoutConnections } from "./dom.js";

export const path = "api/months";

const STATES = {
  published: ["✓", "published"],
  loading: ["↻", "loading"],
  failed: ["⊘", "failed"],
  unfinished: ["!", "unfinished"],
  changed: ["≠", "changed by somebody"],
  changed_in_s3: ["Δ", "changed in S3 since"],
  never_loaded: ["·", "never loaded"],
  merging: ["⋈", "merging"],
  too_many_parts: ["#", "too many parts"],
  stuck: ["✕", "stuck"],
};
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

const opened = new Map(); // table → the month whose details are shown
let isPlaceShown = false;

// Links of tasks name a connection, a table, and months of it. Links that people write may omit some.
function isPlace(scope, seen, table) {
  const place = { conn_id: seen.conn_id, database: table.database, table: table.table };
  return scope.has("table") && Object.entries(place).every(([name, value]) => [null, value].includes(scope.get(name)));
}

// Opens the month or table that the link names, once it exists.
function showPlace(scope, seen, table, section) {
  const wanted = scope.get("month");
  const button = section.querySelector(wanted ? `[data-month="${CSS.escape(wanted)}"]` : ".month");
  if (!isPlaceShown && button && isPlace(scope, seen, table)) {
    isPlaceShown = true;
    requestAnimationFrame(() => {
      section.scrollIntoView();
      button.focus({ preventScroll: true });
      if (wanted) {
        button.click();
      }
    });
  }
}

function missingPlace(answer, scope) {
  const there = answer.connections.flatMap((seen) => seen.tables.filter((table) => isPlace(scope, seen, table)));
  const wanted = scope.get("month");
  if (!scope.has("table") || there.some((table) => !wanted || table.months.some((month) => month.month === wanted))) {
    return [];
  }
  const table = scope.has("database") ? `${scope.get("database")}.${scope.get("table")}` : scope.get("table");
  const connection = scope.has("conn_id") ? `of connection ${scope.get("conn_id")}` : "";
  const place = [table, wanted, connection].filter(Boolean).join(" ");
  const text =
    `${place} is not here yet: its load has not started inserting, or Airflow cannot list its connection.`;
  return [element("p", { class: "faint" }, text)];
}

function share(insert) {
  return insert && insert.total_rows ? Math.min(100, Math.floor((100 * insert.read_rows) / insert.total_rows)) : null;
}

function stateText(month) {
  const done = share(month.insert);
  return STATES[month.state][1] + (done === null ? "" : `, ${done} %`);
}

function progressText(insert) {
  const rows = insert.total_rows ? `${number(insert.read_rows)} of ${number(insert.total_rows)}` : number(insert.read_rows);
  return `${rows} rows, ${bytes(insert.read_bytes)} read in ${insert.seconds.toFixed(0)} s, ` +
    `${number(insert.rows_per_second)} rows/s`;
}

function details(month) {
  const list = element("dl");
  const add = (term, ...values) => list.append(element("dt", {}, term), element("dd", {}, ...values));
  // The full error is shown below.
  add("State", month.state === "failed" ? stateText(month) : `${stateText(month)}: ${month.why}`);
  if (month.insert) {
    const values = [progressText(month.insert)];
    if (month.insert.total_rows) {
      const bar = { max: month.insert.total_rows, value: month.insert.read_rows, "aria-label": "Progress" };
      values.unshift(element("progress", bar), " ");
    }
    add("Insert", ...values);
    add("Query id", month.insert.query_id);
  }
  add("Rows", number(month.rows));
  add("Parts", `${number(month.parts)}, ${bytes(month.size_bytes)} on disk`);
  if (month.published_at) {
    add("Published", `${month.published_at} UTC, from ${number(month.objects)} objects, ${bytes(month.source_bytes)}`);
  }
  if (month.insert_seconds) {
    add("Insert took", `${month.insert_seconds.toFixed(1)} s, ${number(month.rows_per_second)} rows/s`);
  }
  if (month.task) {
    add("Loaded by", taskLink(month.task));
  }
  return list;
}

function summary(months) {
  const counts = {};
  for (const month of months) {
    counts[month.state] = (counts[month.state] || 0) + 1;
  }
  return Object.keys(STATES).filter((state) => counts[state])
    .map((state) => `${number(counts[state])} ${STATES[state][1]}`).join(", ");
}

// Arrow keys move within a calendar; the Tab key stops at one month of it.
function move(event, buttons) {
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 12, ArrowUp: -12 };
  const from = buttons.indexOf(event.target);
  let to = { Home: 0, End: buttons.length - 1 }[event.key];
  if (event.key in steps) {
    to = from + steps[event.key];
  }
  if (to === undefined || from < 0) {
    return;
  }
  event.preventDefault();
  buttons[Math.max(0, Math.min(buttons.length - 1, to))].focus();
}

function calendar(key, seen, table) {
  const { months } = table;
  const byName = new Map(months.map((month) => [month.month, month]));
  const buttons = [];
  const panel = element("div", { id: `details-${key}` });
  const select = (button, month) => {
    opened.set(key, month.month);
    buttons.forEach((each) => each.setAttribute("aria-pressed", String(each === button)));
    const offered = actions(seen, table, month, button.dataset.key);
    const place = { conn_id: seen.conn_id, database: table.database, table: table.table, month: month.month };
    // There are no details of a month that was never loaded.
    const more = month.state === "never_loaded" ? "" : monthDetails(place);
    panel.replaceChildren(element("h4", {}, month.month), details(month), offered, more);
  };
  const body = element("tbody");
  const [first, last] = [months[0], months[months.length - 1]].map((month) => Number(month.month.slice(0, 4)));
  for (let year = first; year <= last; year += 1) {
    const row = element("tr", {}, element("th", { scope: "row" }, String(year)));
    MONTHS.forEach((_, index) => {
      const month = byName.get(`${year}-${String(index + 1).padStart(2, "0")}`);
      const cell = element("td");
      if (month) {
        const label = `${month.month}: ${stateText(month)}`;
        const attributes = { type: "button", class: `month ${month.state}`, title: label, "aria-label": label };
        const button = element("button", { ...attributes, "aria-pressed": "false", tabindex: "-1" }, STATES[month.state][0]);
        button.dataset.key = `${key}-${month.month}`;
        button.dataset.month = month.month;
        button.addEventListener("click", () => select(button, month));
        buttons.push(button);
        cell.append(button);
        if (opened.get(key) === month.month) {
          select(button, month);
        }
      }
      row.append(cell);
    });
    body.append(row);
  }
  buttons[buttons.length - 1].tabIndex = 0;
  body.addEventListener("keydown", (event) => move(event, buttons));
  body.addEventListener("focusin", (event) => buttons.forEach((each) => { each.tabIndex = each === event.target ? 0 : -1; }));
  const names = MONTHS.map((name) => element("th", { scope: "col" }, name));
  const head = element("thead", {}, element("tr", {}, element("td"), ...names));
  return element("section", {},
    element("h3", {}, `${table.database}.${table.table}`),
    element("p", { class: "faint" }, summary(months)),
    element("div", { class: "calendar" }, element("table", { "aria-label": `Months of ${table.table}` }, head, body)),
    panel);
}

function connection(seen, scope) {
  const made = connectionSection(seen);
  seen.tables.forEach((table, index) => {
    const section = calendar(`${seen.conn_id}-${index}`, seen, table);
    showPlace(scope, seen, table, section);
    made.append(section);
  });
  if (!seen.tables.length && !seen.error) {
    made.append(element("p", {}, scope.has("dag_id") ? "No months to show." : "There is no ledger here yet."));
  }
  return made;
}

function legend() {
  const items = Object.entries(STATES).map(([state, [sign, text]]) =>
    element("li", {}, element("span", { class: `sign ${state}`, "aria-hidden": "true" }, sign), ` ${text}`));
  return element("ul", { class: "legend", "aria-label": "Meaning of the signs" }, ...items);
}

export function render(answer, scope) {
  if (!answer.connections.length) {
    return withoutConnections();
  }
  return [...missingPlace(answer, scope), legend(), ...answer.connections.map((seen) => connection(seen, scope))];
}
