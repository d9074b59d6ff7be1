// What the actions ask of Airflow's own API, which checks permissions and records the user.
import { ask, RequestError } from "../api/client";
import { runPath, runsOf } from "../api/runs";
import type { PeriodRow, Task } from "../api/types";
import type { TableRow } from "../model/fleet";
import type { Kind, Subject } from "./kinds";
import { goneOf, runsLike, whatOf } from "./kinds";

export interface Run {
  dag_id: string;
  dag_run_id: string;
  state?: string;
  conf?: Record<string, unknown>;
  logical_date?: string | null;
  data_interval_start?: string | null;
  data_interval_end?: string | null;
  partition_key?: string | null;
}

// The run that loaded the period last; null if Airflow no longer has it.
export async function lastRun(task: Task): Promise<Run | null> {
  try {
    return await ask<Run>(runPath(task.dag_id, task.run_id));
  } catch (error) {
    if (error instanceof RequestError && error.status === 404) {
      return null;
    }
    throw error;
  }
}

// What a run may do beyond a plain reload, by the name that its conf has for it.
export type ReloadOptions = Partial<Record<"approve" | "replace_rows_of_others" | "allow_shrink", true>>;

// The new run is like the one that loaded the period last, so that the DAG's templates have the same result.
async function reload(table: TableRow, periods: readonly PeriodRow[], how: ReloadOptions): Promise<Run> {
  const [period] = periods;
  if (!period?.task) {
    throw new Error("The task that loaded the period is unknown.");
  }
  const { task } = period;
  const last = await lastRun(task);
  // An arrival is held, approved and loaded as a whole.
  const named = new Set(periods.map((each) => each.arrival || each.period));
  const asked = { database: table.database, table: table.table, periods: [...named], ...how };
  const conf = { ...last?.conf, chs3_reload: asked };
  const note = `${how.approve ? "Approval" : "Reload"} of ${whatOf({ table, period, periods })}, requested on the periods page`;
  return ask<Run>(runsOf(task.dag_id), { method: "POST", body: {
    conf, note,
    ...(last?.logical_date ? {
      logical_date: new Date().toISOString(),
      data_interval_start: last.data_interval_start, data_interval_end: last.data_interval_end,
    } : { logical_date: null }),
    ...(last?.partition_key ? { partition_key: last.partition_key } : {}),
  } });
}

function runAction({ table, period, periods, rights }: Subject, action: Kind): Promise<Run> {
  const conf = {
    action,
    period: (period.state === "gone" ? goneOf(table) : periods).map((each) => each.period).join(","),
    database: table.database,
    table: table.table,
    staging_database: period.ledger_database,
    clickhouse_conn_id: table.connIds[0],
    cluster: table.cluster ?? "",
  };
  const note = `${action} of ${whatOf({ table, period, periods })}, requested on the periods page`;
  return ask<Run>(runsOf(rights.actions_dag_id), { method: "POST", body: { logical_date: null, conf, note } });
}

async function endLoad(task: Task): Promise<null> {
  const instance = `taskInstances/${encodeURIComponent(task.task_id)}/${task.map_index}`;
  await ask(`${runPath(task.dag_id, task.run_id)}/${instance}`, { method: "PATCH", body: { new_state: "failed" } });
  return null;
}

async function unpause(task: Task): Promise<null> {
  const path = `api/v2/dags/${encodeURIComponent(task.dag_id)}?update_mask=is_paused`;
  await ask(path, { method: "PATCH", body: { is_paused: false } });
  return null;
}

export interface Started {
  run: Run;
  // What it loads or changes.
  periods: readonly PeriodRow[];
}

// The runs that were started; none for an action that starts none.
export async function perform(kind: Kind, subject: Subject, allowed: ReloadOptions, onStarted: (now: Started) => void): Promise<void> {
  const { table, period: { task }, periods } = subject;
  if (kind === "unpause" || kind === "end") {
    await (task && (kind === "end" ? endLoad(task) : unpause(task)));
  } else if (kind === "reload" || kind === "approve") {
    const how: ReloadOptions = kind === "approve" ? { approve: true } : allowed;
    for (const each of runsLike(periods)) {
      onStarted({ run: await reload(table, each, how), periods: each });
    }
  } else {
    onStarted({ run: await runAction(subject, kind), periods });
  }
}

// How a run is, in words.
export function runText({ state = "queued" }: Run): string {
  return state === "success" ? "The run has ended." : state === "failed" ? "The run has failed." : `The run is ${state}.`;
}

// What came of a reload: a run can end well without having loaded the period.
export function outcome(run: Run, before: string, period: PeriodRow, isSettled: boolean): { isOver: boolean; isGood: boolean; text: string } {
  const isNew = period.published_at !== before;
  // Another run may have published the period meanwhile.
  const isByOther = period.task?.dag_id !== run.dag_id || period.task.run_id !== run.dag_run_id;
  if (run.state === "success" && !isNew && !isSettled) {
    return { isOver: false, isGood: true, text: "The run has ended. Looking at the period…" };
  }
  if (run.state === "success" && isNew && isByOther) {
    return { isOver: true, isGood: false, text: "The run ended without an error, but the period's newest load belongs to another run: look there for the outcome." };
  }
  if (run.state === "success") {
    return isNew
      ? { isOver: true, isGood: true, text: "The run has ended and loaded the period again." }
      : { isOver: true, isGood: false, text: "The run ended without an error, but did not load this period: its tasks loaded other periods, or found nothing to do." };
  }
  if (run.state === "failed") {
    return { isOver: true, isGood: false, text: runText(run) };
  }
  return { isOver: false, isGood: true, text: isNew && !isByOther && period.state !== "loading" ? "The period has been loaded again; the run is still active." : runText(run) };
}

