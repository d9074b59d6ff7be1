// The actions on a month. Airflow performs them through its own API: it checks permissions and records the user.
import { runLink, taskLink } from "./airflow.js";
import { bytes, element } from "./dom.js";

const AIRFLOW = "../api/v2/";

// `it` has the table, the month, and the rights on the DAGs. Each action has its name, the text to confirm, whether it makes
// sense for a month, the DAG whose runs or tasks it touches, and its request to Airflow.
const ACTIONS = [
  {
    name: "reload",
    label: "Reload…",
    verb: "Reload",
    right: "may_start_runs",
    dag: (it) => it.rights.dag,
    isFor: ({ month }) => month.task && month.state !== "loading",
    says: (it) => [
      `Starts a run of DAG ${it.rights.dag.dag_id} that loads only this month of this table again from its objects in ` +
        "S3. Everything else in the DAG runs, too.",
      "The table keeps its rows until the new ones are counted and replace them.",
    ],
    option: ({ month }) => month.state === "changed" &&
      "Replace the rows that somebody else put there or changed, too; rows erased on request come back. " +
      "Otherwise the load stops.",
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
      `Marks task ${task.task_id}${task.map_index >= 0 ? ` [${task.map_index}]` : ""} of run ${task.run_id} as failed, ` +
        "without a retry.",
      "Its queries end on all nodes, unless cancel_on_kill is off; the table keeps its current rows.",
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
      `Starts a run of DAG ${it.rights.actions_dag_id} that merges the parts of the month into one on each node. This reads and ` +
        `writes ${bytes(it.month.size_bytes)}. Rows do not change.`,
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
      `Starts a run of DAG ${it.rights.actions_dag_id} that removes the month from the ledger.`,
      "Its rows stay, but no longer belong to a known load: the next load of the month stops unless it may " +
        "replace them or the month is adopted.",
    ],
    act: (it) => runAction(it, "forget"),
  },
];

const known = new Map(); // DAG → the last known rights of the user

async function ask(url, method = "GET", body = undefined) {
  const headers = { Accept: "application/json", ...(body && { "Content-Type": "application/json" }) };
  // With the referrer, Airflow records that the run was started in its UI.
  const options = { method, headers, referrerPolicy: "same-origin", body: body && JSON.stringify(body) };
  const answer = await fetch(url, options);
  const result = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    const detail = typeof result.detail === "string" ? result.detail : JSON.stringify(result.detail || "");
    throw Object.assign(new Error(`Airflow answers ${answer.status}: ${detail}`), { status: answer.status });
  }
  return result;
}

function runsOf(dagId) {
  return `${AIRFLOW}dags/${encodeURIComponent(dagId)}/dagRuns`;
}

// The new run is like the one that loaded the month last, so that the DAG's templates have the same result.
async function lastRun(task) {
  try {
    return await ask(`${runsOf(task.dag_id)}/${encodeURIComponent(task.run_id)}`);
  } catch (error) {
    if (error.status === 404) {
      return {}; // Airflow does not keep runs forever.
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
  return ["Started: ", runLink(run.dag_id, run.dag_run_id), "."];
}

async function endLoad({ month: { task } }) {
  const path = `${encodeURIComponent(task.run_id)}/taskInstances/${encodeURIComponent(task.task_id)}/${task.map_index}`;
  await ask(`${runsOf(task.dag_id)}/${path}`, "PATCH", { new_state: "failed" });
  return ["Marked as failed; its queries are being ended: ", taskLink(task), "."];
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
    status.textContent = "Sending the request to Airflow…";
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
    // The button may have been redrawn in the meantime.
    const again = [...document.querySelectorAll("[data-key]")].find((each) => each.dataset.key === key);
    if (again) {
      again.focus();
    }
  });
  document.body.append(dialog);
  dialog.showModal();
}

// The reason why the user cannot do something; empty if there is none.
function obstacle(action, it) {
  const dag = action.dag(it);
  if (!dag) {
    return action.dag === ACTIONS[0].dag ? "The DAG that loaded this month no longer exists." :
      `To force merges and forget months, add the DAG ${it.rights.actions_dag_id} to Airflow: its file is in the folder ` +
      "dags of this package.";
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
    reasons.add("You cannot reload this month from here: the task that loaded it is unknown, or you may not see it.");
  }
  return [...buttons, ...[...reasons].map((reason) => element("p", { class: "faint" }, reason))];
}

// The actions that the user may take on a month of a table, as seen through a connection. `key` is unique on the page.
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
