// The states of a period: their words, their colours in Airflow's theme, and which of them need a person.
import type { Kind } from "../actions/kinds";
import type { State } from "../api/types";

export interface Look {
  label: string;
  // In a column whose heading says the rest.
  short?: string;
  means: string;
  // What happens next, or what somebody has to do; where it depends on the period, its own texts say so.
  next?: string;
  // What has to happen before the period is well: somebody acts, the next run of its DAG loads it, or would if it came, or
  // merges go on.
  awaits?: "person" | "load" | "merges";
  // The one action that helps, where there is one.
  help?: Kind;
  // Fill and text of a cell, as tokens of Airflow's theme.
  fill: string;
  ink: string;
  palette: string;
}

const quiet = (palette: string) => ({ palette, fill: `${palette}.muted`, ink: `${palette}.fg` });
const loud = (palette: string) => ({ palette, fill: `${palette}.solid`, ink: "white" });

// In the order of urgency.
export const STATES: Record<State, Look> = {
  gone: { label: "table is gone", short: "table gone", means: "The table was dropped or renamed, with this period.", next: "If that was intended, forget its periods, and the table leaves this page. If not, rename it back, or restore it at once (UNDROP TABLE): a new table of this name has none of these rows.", awaits: "person", help: "forget", ...loud("red") },
  stuck: { label: "stuck", means: "A person must act: the panel says how.", awaits: "person", ...loud("red") },
  failed: { label: "failed", means: "The newest load ended with an error.", awaits: "person", help: "reload", ...loud("red") },
  changed: { label: "changed by somebody", short: "changed", means: "It has rows that no load wrote.", next: "Loads stop until you decide: reload it to replace those rows, or adopt it (chs3 adopt) to keep them.", awaits: "person", help: "reload", ...loud("purple") },
  blocked: { label: "blocked", means: "A plan found other objects, and its load will stop: the table keeps what it has.", next: "Loads stop until you decide: put back what is missing, or reload it, and allow what stops its load.", awaits: "person", help: "reload", ...loud("purple") },
  differs: { label: "differs", means: "A proof found other rows than its objects have.", next: "Reload it: the load replaces its rows with those of its objects. If it then differs again, compare the load's arguments with those of the proof.", awaits: "person", help: "reload", ...loud("purple") },
  pinned: { label: "pinned", means: "Somebody restored an earlier version: loads leave it.", next: "Once its objects are right, unpin it: the next load publishes it from them.", awaits: "person", help: "unpin", ...quiet("purple") },
  held: { label: "held", means: "Its new rows failed a check, and wait: the table keeps what it has.", next: "Look at what failed, then approve the new rows, or discard them: the next load loads the period again.", awaits: "person", help: "approve", ...loud("purple") },
  paused: { label: "paused", means: "The next load would change it, but its DAG is paused.", next: "Unpause the DAG: its next run loads the period. If it has no schedule, reload the period.", awaits: "person", help: "unpause", ...loud("orange") },
  stranded: { label: "stranded", means: "The next load would change it, but Airflow will not start one.", next: "No load starts by itself: fix its DAG or bring it back, or reload the period.", awaits: "person", help: "reload", ...loud("orange") },
  overdue: { label: "overdue", means: "It is due by its load's fresh_by, and was not loaded since it ended.", next: "Look at the newest run of its DAG: the load of this period has failed, waits, or never began. If no run loads it, reload it.", awaits: "load", help: "reload", ...loud("orange") },
  late: { label: "late", means: "A run of its DAG is due, but Airflow never created it.", next: "Check that Airflow's scheduler and DAG processor are running: that run will load the period.", awaits: "load", ...quiet("orange") },
  unfinished: { label: "unfinished", means: "The newest load was killed: the next one repairs it.", next: "The next load repairs it. If its DAG has no schedule, reload it.", awaits: "load", help: "reload", ...loud("orange") },
  changed_in_storage: { label: "changed in the storage since", short: "objects changed", means: "A plan found other objects: the next load reads them.", next: "The next load reads them. If its DAG has no schedule, reload it.", awaits: "load", help: "reload", ...quiet("cyan") },
  stale: { label: "stale", means: "The table that it is made of has changed since: the next load makes it again.", next: "The next load makes it again. If its DAG has no schedule, reload it.", awaits: "load", help: "reload", ...quiet("cyan") },
  too_many_parts: { label: "too many parts", means: "Merges have settled with more parts than they should leave.", next: "Queries read more parts than they need to: force merges, or merge closed periods on a schedule.", awaits: "merges", help: "merge", ...quiet("yellow") },
  merges_wait: { label: "merges wait", means: "Published; its merges wait for a free thread, or a replica lags.", next: "The cluster view shows what merges wait for, and how far replicas are behind. Loads go on meanwhile; a replica that is behind may show earlier rows.", awaits: "merges", ...quiet("yellow") },
  loading: { label: "loading", means: "A load is running.", ...loud("blue") },
  merging: { label: "merging", means: "Published; merges are still running.", next: "Nothing to do: merges finish on their own.", ...quiet("teal") },
  published: { label: "published", means: "Unchanged since it was published.", ...quiet("green") },
  never_loaded: { label: "never loaded", means: "No load, and no rows.", palette: "gray", fill: "transparent", ink: "fg.muted" },
};

export const ORDER = Object.keys(STATES) as State[];

const awaiting = (what: Look["awaits"]): ReadonlySet<State> => new Set(ORDER.filter((state) => STATES[state].awaits === what));
export const NEEDS_PERSON = awaiting("person");
export const AWAITS_LOAD = awaiting("load");
export const AWAITS_MERGES = awaiting("merges");

export const isState = (text: string): text is State => text in STATES;

export function urgency(state: State): number {
  return ORDER.indexOf(state);
}
