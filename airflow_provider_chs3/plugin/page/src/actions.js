// What can be done to a month. Airflow does it, by its own API: it decides who may, and keeps who did.
import { runLink, taskLink } from "./airflow.js";
import { bytes, element } from "./dom.js";

const AIRFLOW = "../api/v2/";

// A month `it` has table, month, and the rights on the DAGs. Each action has what it is called and asks for first, whether
// it makes sense for a month, the DAG whose runs or tasks it touches, and what it asks of Airflow.
const ACTIONS = [
  {
    name: "reload",
    label: "Reload…",
    verb: "Reload",
    right: "may_start_runs",
    dag: (it) => it.rights.dag,
    isFor: ({ month }) => month.task && month.state !== "loading",
    says: (it) => [
      `Starts a run of DAG ${it.rights.dag.dag_id} that loads this month of this table again from its objects in S3, and no ` +
        "other month and no other table. What else the DAG does, it does too.",
      "The table keeps its rows until the new ones are counted and put into their place.",
    ],
    option: ({ month }) => month.state === "changed" &&
      "Replace the rows that somebody else put there or changed, too; what was erased on request comes back. " +
      "Without this the load stops.",
    act: reload,
  },
  {
    name: "end",
    label: "End the load…",
    verb: "End the load",
    right: "may_end_tasks",
    dag: (it) => it.rights.dag,
    isFor: ({ month }) => month.task && month.state === "loading",
    says: ({ month: { task } }) => [
      `Marks task ${task.task_id}${task.map_index >= 0 ? ` [${task.map_index}]` : ""} of run ${task.run_id} as failed. It is not ` +
        "tried again.",
      "Its queries end on all nodes, unless the task was told otherwise (cancel_on_kill); the table keeps the rows that it has.",
    ],
    act: endLoad,
  },
  {
    name: "merge",
    label: "Force merges…",
    verb: "Force merges",
    right: "may_start_runs",
    dag: (it) => it.rights.actions_dag,
    isFor: ({ month }) => month.parts > 0 && month.state !== "loading",
    says: (it) => [
      `Starts a run of DAG ${it.rights.actions_dag_id} that merges the parts of the month to one on each node, which reads and ` +
        `writes ${bytes(it.month.size_bytes)}. Rows stay as they are.`,
    ],
    act: (it) => runAction(it, "merge"),
  },
  {
    name: "forget",
    label: "Forget…",
    verb: "Forget",
    right: "may_start_runs",
    dag: (it) => it.rights.actions_dag,
    isFor: ({ month }) => month.published_at && month.state !== "loading",
    says: (it) => [
      `Starts a run of DAG ${it.rights.actions_dag_id} that takes the month out of the ledger.`,
      "Its rows stay, and no load is known to have put them there: the next load of the month stops, until it is told to " +
        "replace them or the month is adopted.",
    ],
    act: (it) => runAction(it, "forget"),
  },
];

const known = new Map(); // DAG → what the user may do, as it was told last

async function ask(url, method = "GET", body = undefined) {
  const headers = { Accept: "application/json", ...(body && { "Content-Type": "application/json" }) };
  // Airflow takes a run for one that was started in its UI if it is told from where.
  const options = { method, headers, referrerPolicy: "same-origin", body: body && JSON.stringify(body) };
  const answer = await fetch(url, options);
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    const detail = typeof told.detail === "string" ? told.detail : JSON.stringify(told.detail || "");
    throw Object.assign(new Error(`Airflow answers ${answer.status}: ${detail}`), { status: answer.status });
  }
  return told;
}

function runsOf(dagId) {
  return `${AIRFLOW}dags/${encodeURIComponent(dagId)}/dagRuns`;
}

// The new run is like the one that loaded the month last, so that the DAG's templates give the same.
async function lastRun(task) {
  try {
    return await ask(`${runsOf(task.dag_id)}/${encodeURIComponent(task.run_id)}`);
  } catch (error) {
    if (error.status === 404) {
      return {}; // Airflow does not keep runs for ever.
    }
    throw error;
  }
}

async function reload(it, isTicked) {
  const last = await lastRun(it.month.task);
  const asked = { database: it.table.database, table: it.table.table, months: [it.month.month] };
  const body = {
    logical_date: null,
    conf: { ...last.conf, chs3_reload: isTicked ? { ...asked, replace_rows_of_others: true } : asked },
    note: `Reload of ${it.what}, asked for on the months page`,
  };
  if (last.logical_date) {
    body.logical_date = new Date().toISOString();
    body.data_interval_start = last.data_interval_start;
    body.data_interval_end = last.data_interval_end;
  }
  if (last.partition_key) {
    body.partition_key = last.partition_key;
  }
  return started(await ask(runsOf(it.month.task.dag_id), "POST", body));
}

async function runAction(it, action) {
  const conf = {
    action,
    month: it.month.month,
    database: it.table.database,
    table: it.table.table,
    staging_database: it.month.ledger_database,
    clickhouse_conn_id: it.seen.conn_id,
    cluster: it.seen.cluster || "",
  };
  const body = { logical_date: null, conf, note: `${action} of ${it.what}, asked for on the months page` };
  return started(await ask(runsOf(it.rights.actions_dag_id), "POST", body));
}

function started(run) {
  return ["Airflow has taken it: ", runLink(run.dag_id, run.dag_run_id), "."];
}

async function endLoad({ month: { task } }) {
  const path = `${encodeURIComponent(task.run_id)}/taskInstances/${encodeURIComponent(task.task_id)}/${task.map_index}`;
  await ask(`${runsOf(task.dag_id)}/${path}`, "PATCH", { new_state: "failed" });
  return ["Marked as failed, and its queries are being ended: ", taskLink(task), "."];
}

function confirm(action, it, key) {
  const title = element("h2", { id: "dialog-title" }, `${action.verb}: ${it.what}`);
  const status = element("p", { role: "status" });
  const close = element("button", { type: "button", autofocus: "" }, "Cancel");
  const act = element("button", { type: "button", class: "act" }, action.verb);
  const box = element("input", { type: "checkbox" });
  const text = action.option && action.option(it);
  const waits = action.right === "may_start_runs" && action.dag(it).is_paused ?
    ["The DAG is paused: the run waits until somebody unpauses it."] : [];
  const says = [...action.says(it), ...waits].map((each) => element("p", {}, each));
  const option = text ? [element("label", {}, box, ` ${text}`)] : [];
  const buttons = element("p", { class: "buttons" }, close, act);
  const dialog = element("dialog", { "aria-labelledby": "dialog-title" }, title, ...says, ...option, status, buttons);
  close.addEventListener("click", () => dialog.close());
  act.addEventListener("click", async () => {
    act.disabled = true;
    close.focus();
    status.textContent = "Asking Airflow…";
    try {
      status.replaceChildren(...(await action.act(it, box.checked)));
      act.remove();
      box.disabled = true;
      close.textContent = "Close";
    } catch (error) {
      status.textContent = `Nothing was done. ${error.message}`;
      act.disabled = false;
    }
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    // The button may have been drawn anew meanwhile.
    const again = [...document.querySelectorAll("[data-key]")].find((each) => each.dataset.key === key);
    if (again) {
      again.focus();
    }
  });
  document.body.append(dialog);
  dialog.showModal();
}

// Why the user cannot do something, once for each reason.
function obstacle(action, it) {
  const dag = action.dag(it);
  if (!dag) {
    return action.dag === ACTIONS[0].dag ? "The DAG that loaded this month is gone." :
      `To force merges and forget months, add the DAG ${it.rights.actions_dag_id} to Airflow: its file is in this package's ` +
      "folder dags.";
  }
  return dag[action.right] ? "" : `Airflow does not let you ${action.right === "may_end_tasks" ? "end tasks" : "start runs"} of ` +
    `DAG ${dag.dag_id}.`;
}

function offered(it, key) {
  const wanted = ACTIONS.filter((action) => action.isFor(it));
  const buttons = wanted.filter((action) => !obstacle(action, it)).map((action) => {
    const button = element("button", { type: "button" }, action.label);
    button.dataset.key = `${key}-${action.name}`;
    button.addEventListener("click", () => confirm(action, it, button.dataset.key));
    return button;
  });
  const reasons = new Set(wanted.map((action) => obstacle(action, it)).filter(Boolean));
  if (it.month.published_at && !it.month.task) {
    reasons.add("No task that loaded this month is known to you: it cannot be reloaded from here.");
  }
  return [...buttons, ...[...reasons].map((reason) => element("p", { class: "faint" }, reason))];
}

// What the user may do to a month of a table, seen through a connection. `key` tells it from all others on the page.
export function actions(seen, table, month, key) {
  const made = element("div", { class: "actions", role: "group", "aria-label": `Actions on ${month.month}` });
  const dagId = month.task ? month.task.dag_id : "";
  const what = `${table.database}.${table.table} ${month.month}`;
  const show = () => made.replaceChildren(...offered({ seen, table, month, what, rights: known.get(dagId) }, key));
  if (known.has(dagId)) {
    show();
    return made;
  }
  ask(`api/rights?${new URLSearchParams(dagId ? { dag_id: dagId } : {})}`).then((rights) => {
    known.set(dagId, rights);
    show();
  }).catch((error) => made.replaceChildren(element("p", { class: "faint" }, error.message)));
  return made;
}
