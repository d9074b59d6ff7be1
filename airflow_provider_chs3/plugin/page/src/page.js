// The frame of all views: it selects the view, refreshes it every few seconds, and sets the theme.
import "../page.css";

const REFRESH_MILLISECONDS = 10000;
// A view has `path`, the URL of its data, and `render(answer, scope)`, which returns its elements.
const VIEWS = {
  months: () => import("./months.js"),
  throughput: () => import("./throughput.js"),
  cluster: () => import("./cluster.js"),
};

const scope = new URLSearchParams(location.search);
const name = scope.get("view") in VIEWS ? scope.get("view") : "months";
scope.delete("view");
let drawn = "";

// Keep what did not change, with its focus and selection.
function fingerprint(answer) {
  return JSON.stringify(answer, (_, value) =>
    value && value.seen_at && !value.error ? { ...value, seen_at: null } : value);
}

function draw(view, answer) {
  const now = fingerprint(answer);
  if (now === drawn) {
    return;
  }
  drawn = now;
  const main = document.getElementById("view");
  const focused = document.activeElement && document.activeElement.dataset.key;
  main.replaceChildren(...view.render(answer, scope));
  const again = focused && [...main.querySelectorAll("[data-key]")].find((each) => each.dataset.key === focused);
  if (again) {
    again.focus();
  }
}

async function refresh(view) {
  const status = document.getElementById("status");
  try {
    const answer = await fetch(`${view.path}?${scope}`, { headers: { Accept: "application/json" } });
    if (!answer.ok) {
      throw new Error(answer.status === 401 || answer.status === 403 ?
        "Airflow does not let you see this: log in again, or ask for permission." : `Airflow answers ${answer.status}.`);
    }
    draw(view, await answer.json());
    status.textContent = "";
  } catch (error) {
    status.textContent = `Refresh failed: ${error.message}`;
  }
  setTimeout(refresh, REFRESH_MILLISECONDS, view);
}

// Airflow passes the page on which this one is shown, with its placeholder if a task is not mapped.
function scopeText() {
  const [dag, run, task, index] = ["dag_id", "run_id", "task_id", "map_index"].map((part) => scope.get(part));
  const mapped = /^\d+$/.test(index) ? ` [${index}]` : "";
  const whose = [task && `task ${task}${mapped}`, run && `run ${run}`, `DAG ${dag}`].filter(Boolean).join(" of ");
  return run ? `Months that ${whose} is about.` : `Months that ${whose} loaded last.`;
}

function showWhereWeAre() {
  for (const link of document.querySelectorAll("nav a")) {
    const to = new URLSearchParams(scope);
    to.set("view", link.dataset.view);
    link.href = `?${to}`;
    if (link.dataset.view === name) {
      link.setAttribute("aria-current", "page");
      document.querySelector("h1").textContent = link.textContent;
      document.title = `ClickHouse ${link.textContent.toLowerCase()}`;
    }
  }
  if (scope.has("dag_id") && name !== "cluster") {
    const text = document.getElementById("scope");
    text.textContent = scopeText();
    text.hidden = false;
  }
}

// Airflow's UI stores the theme that the user chose there; the default is the system's.
function theme() {
  const chosen = localStorage.getItem("theme");
  const isDark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
}

theme();
window.addEventListener("storage", theme);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", theme);
showWhereWeAre();
VIEWS[name]().then(refresh);
