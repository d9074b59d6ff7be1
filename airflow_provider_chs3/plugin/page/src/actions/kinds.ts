// The actions on a period: when each makes sense, what it does, and what prevents it.
import type { DagRights, PeriodRow, Rights } from "../api/types";
import type { TableRow } from "../model/fleet";
import { nameOf, titleOf } from "../model/fleet";
import { bytes, count } from "../model/format";
import { namesOf } from "../model/needs";

export type Kind = "unpause" | "unpin" | "approve" | "discard" | "reload" | "end" | "merge" | "restore" | "forget";

export interface Subject {
  table: TableRow;
  // The first of the periods, which are alike in what is offered for them.
  period: PeriodRow;
  periods: readonly PeriodRow[];
  rights: Rights;
}

const theseOf = ({ periods }: Subject): string => (periods.length > 1 ? `these ${periods.length} periods` : "this period");

export interface ActionKind {
  verb: string;
  right: "may_start_runs" | "may_end_tasks" | "may_edit";
  // Whose runs or tasks it touches.
  dag: (rights: Rights) => DagRights | null;
  isFor: (period: PeriodRow) => boolean;
  says: (subject: Subject) => string[];
}

// The periods of a table that is gone: they are forgotten together.
export const goneOf = (table: TableRow): PeriodRow[] => table.periods.filter(({ state }) => state === "gone");

export const arrivalsOf = ({ periods }: Pick<Subject, "periods">): string[] => [...new Set(periods.map(({ arrival }) => arrival).filter(Boolean))];

// The periods whose held rows are published, or dropped: all of an arrival, of which some may not be chosen.
export function heldOf(subject: Pick<Subject, "table" | "periods">): PeriodRow[] {
  const arrivals = arrivalsOf(subject);
  return subject.table.periods.filter((each) => subject.periods.includes(each) || each.arrival !== "" && arrivals.includes(each.arrival));
}

// What somebody else has changed is restored by the command alone, which asks whether that may be replaced.
const RESTORABLE: ReadonlySet<string> = new Set(["published", "merging", "merges_wait", "too_many_parts", "changed_in_storage", "blocked", "stale", "differs", "late", "overdue"]);

export const KINDS: Record<Kind, ActionKind> = {
  unpause: {
    verb: "Unpause",
    right: "may_edit",
    dag: (rights) => rights.dag,
    isFor: (period) => period.task !== null && period.state === "paused",
    says: ({ rights }) => [
      `Unpauses DAG ${rights.dag?.dag_id ?? ""}, with everything that it loads: Airflow starts its waiting runs, and the run that is due by its ` +
        "schedule; with catchup, all runs that were due while it was paused.",
      "If they include this period, they load it: the table keeps its rows until the new ones are counted and replace them.",
    ],
  },
  unpin: {
    verb: "Unpin",
    right: "may_start_runs",
    dag: (rights) => rights.actions_dag,
    isFor: (period) => period.state === "pinned",
    says: ({ rights }) => [
      `Starts a run of DAG ${rights.actions_dag_id} that lets loads replace the restored version again.`,
      "The rows stay until the next load publishes the period from its objects.",
    ],
  },
  approve: {
    verb: "Approve",
    right: "may_start_runs",
    dag: (rights) => rights.dag,
    isFor: (period) => period.task !== null && period.state === "held",
    says: (subject) => [
      `Starts a run of DAG ${subject.rights.dag?.dag_id ?? ""} that publishes the held rows in place of those in the table. Everything else in the DAG runs, too.`,
      `The run fails, and changes nothing, if ${arrivalsOf(subject).length ? "the objects" : "the objects, or the rows in the table,"} have changed since.`,
    ],
  },
  discard: {
    verb: "Discard",
    right: "may_start_runs",
    dag: (rights) => rights.actions_dag,
    isFor: (period) => period.state === "held",
    says: ({ rights }) => [
      `Starts a run of DAG ${rights.actions_dag_id} that drops the held rows. The table keeps what it has.`,
      "The next load reads the objects again, and holds their rows again if a check still fails: correct the objects or the checks first.",
    ],
  },
  reload: {
    verb: "Reload",
    right: "may_start_runs",
    dag: (rights) => rights.dag,
    isFor: (period) => period.task !== null && !["loading", "gone", "pinned"].includes(period.state),
    says: (subject) => {
      const runs = runsLike(subject.periods).length;
      const what = `${runs > 1 ? `Starts ${runs} runs, one like each run that loaded some of them,` : "Starts a run"} of DAG ${subject.rights.dag?.dag_id ?? ""}`;
      return [
        `${what} that ${runs > 1 ? "load" : "loads"} only ${theseOf(subject)} of this table again. Everything else in the DAG runs, too.`,
        "The table keeps its rows until the new ones are counted and replace them.",
      ];
    },
  },
  end: {
    verb: "End the load",
    right: "may_end_tasks",
    dag: (rights) => rights.dag,
    isFor: (period) => period.task !== null && period.state === "loading",
    says: ({ period: { task } }) => task ? [
      `Marks task ${task.task_id}${task.map_index >= 0 ? ` [${task.map_index}]` : ""} of run ${task.run_id} as failed, without a retry.`,
      "Its queries end on all nodes, unless cancel_on_kill is off; the table keeps its current rows.",
    ] : [],
  },
  merge: {
    verb: "Force merges",
    right: "may_start_runs",
    dag: (rights) => rights.actions_dag,
    isFor: (period) => period.parts > 0 && period.state !== "loading",
    says: (subject) => [
      `Starts a run of DAG ${subject.rights.actions_dag_id} that merges the parts of ${theseOf(subject)} into one for each partition and node. ` +
        `This reads and writes ${bytes(subject.periods.reduce((sum, each) => sum + each.size_bytes, 0))}. Rows do not change.`,
    ],
  },
  restore: {
    verb: "Restore",
    right: "may_start_runs",
    dag: (rights) => rights.actions_dag,
    isFor: (period) => period.published_at !== "" && RESTORABLE.has(period.state),
    says: ({ rights }) => [
      `Starts a run of DAG ${rights.actions_dag_id} that publishes the newest version with other rows that is kept of the period, and pins it: ` +
        "loads leave it until somebody unpins it. The run fails, and changes nothing, if no version is kept (keep_versions).",
      "What the table holds now is kept as a version, too.",
    ],
  },
  forget: {
    verb: "Forget",
    right: "may_start_runs",
    dag: (rights) => rights.actions_dag,
    isFor: (period) => period.published_at !== "" && period.state !== "loading",
    says: ({ table, period, rights }) => period.state === "gone" ? [
      `Starts a run of DAG ${rights.actions_dag_id} that removes ${count(goneOf(table).length, "period")} of this table, all of its periods, from the ` +
        "ledger. No rows are touched, and the table leaves this page.",
    ] : [
      `Starts a run of DAG ${rights.actions_dag_id} that removes the period from the ledger.`,
      "Its rows stay, but no longer belong to a known load: the next load of the period stops unless it may replace them or the " +
        "period is adopted.",
    ],
  },
};

export const isKind = (text: string | null): text is Kind => text !== null && text in KINDS;

const DOING = { may_start_runs: "start runs of", may_end_tasks: "end tasks of", may_edit: "edit" };

// That the user lacks a right, and who has it.
export function refusal(right: ActionKind["right"], dagId: string, owner: string | undefined): string {
  return `Airflow does not let you ${DOING[right]} DAG ${dagId}${owner ? `: ask its owner, ${owner}, or somebody with the permission` : ""}.`;
}

// Why the user cannot do something; empty if nothing is in the way.
export function obstacle(kind: Kind, rights: Rights, owner?: string): string {
  const { dag: dagOf, right } = KINDS[kind];
  const dag = dagOf(rights);
  if (!dag) {
    return ["unpause", "approve", "reload", "end"].includes(kind) ? "Airflow cannot run the DAG that loaded this period: it is gone, or its file cannot be imported."
      : `To force merges, discard, restore, unpin and forget periods, add the DAG ${rights.actions_dag_id}: a file in Airflow's dags folder with the line ` +
        '"from airflow_provider_chs3.transfers.period_actions import dag".';
  }
  return dag[right] ? "" : refusal(right, dag.dag_id, dag.dag_id === rights.dag?.dag_id ? owner : undefined);
}

export function whatOf({ table, period, periods }: Pick<Subject, "table" | "period" | "periods">): string {
  return period.state === "gone" ? nameOf(table) : periods.length > 1 ? `${nameOf(table)} ${namesOf(periods)}` : titleOf(table, period);
}

// Periods by the run that loaded them last: what is started is like that run, so that templates have the same results.
export function runsLike(periods: readonly PeriodRow[]): PeriodRow[][] {
  const found = new Map<string, PeriodRow[]>();
  for (const each of periods) {
    const key = each.task?.run_id ?? "";
    found.set(key, [...(found.get(key) ?? []), each]);
  }
  return [...found.values()];
}

const FOR_ONE: ReadonlySet<Kind> = new Set<Kind>(["unpause", "end"]);

// What makes sense for each of some periods of a table. Several are loaded again by one DAG.
export function kindsFor(periods: readonly PeriodRow[]): Kind[] {
  const isOfOne = new Set(periods.map(({ task }) => task?.dag_id)).size < 2;
  return (Object.keys(KINDS) as Kind[]).filter((kind) => periods.every(KINDS[kind].isFor) &&
    (periods.length < 2 || !FOR_ONE.has(kind) && (isOfOne || kind !== "reload" && kind !== "approve")));
}
