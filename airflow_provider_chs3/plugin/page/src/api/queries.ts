// The answers of the API, asked again every few seconds while somebody looks.
import { keepPreviousData, useQueries, useQuery, type QueryClient } from "@tanstack/react-query";
import type { Asset } from "../model/assets";
import { isBusy } from "../model/fleet";
import { queryOf, type Place } from "../model/place";
import { errorOf } from "../model/task-log";
import { ask, RequestError } from "./client";
import { runPath } from "./runs";
import type { Changes, Cluster, FailedRun, Objects, PeriodDetails, PeriodParts, PeriodRow, Periods, Rights, Speed, Task } from "./types";

const BUSY_MILLISECONDS = 5_000;
const CALM_MILLISECONDS = 30_000;

export interface PeriodPlace {
  connId: string;
  database: string;
  table: string;
  period: string;
}

const periodsOf = (query: string) => ({ queryKey: ["periods", query], queryFn: () => ask<Periods>(`chs3/api/periods?${query}`) });

// Where there are many periods, the newest of each table come first, as all take longer than anybody waits.
async function newestFirst({ client, queryKey }: { client: QueryClient; queryKey: readonly [string, string] }): Promise<Periods> {
  const [, query] = queryKey;
  if (client.getQueryData(queryKey) === undefined) {
    const newest = await ask<Periods>(`chs3/api/periods?${new URLSearchParams([...new URLSearchParams(query), ["quick", "true"]])}`);
    if (!newest.connections.some((seen) => seen.are_some)) {
      return newest;
    }
    client.setQueryData(queryKey, newest);
  }
  return ask<Periods>(`chs3/api/periods?${query}`);
}

export function usePeriods(place: Place) {
  return useQuery({
    queryKey: ["periods", queryOf(place).toString()] as const,
    queryFn: newestFirst,
    refetchInterval: ({ state }) => (state.data && isBusy(state.data) ? BUSY_MILLISECONDS : CALM_MILLISECONDS),
  });
}

// Periods until some earlier ones, beside those that are always there.
export function useEarlier(place: Place, untils: readonly string[]) {
  const asked = useQueries({ queries: untils.map((until) => {
    const query = queryOf(place);
    query.set("until", until);
    return { ...periodsOf(query.toString()), staleTime: CALM_MILLISECONDS };
  }) });
  return { answers: asked.flatMap(({ data }) => data ?? []), isWaiting: asked.some(({ isPending }) => isPending) };
}

// So long the first screen shows which loads were slow: servers search their logs for that.
const SLOW_MILLISECONDS = 300_000;
const USUAL_DAYS = 7;

// Beside the loads of so many days.
export const useRecentSpeed = (place: Place) => useSpeed(place, USUAL_DAYS, SLOW_MILLISECONDS);

export function useSpeed(place: Place, days: number, milliseconds = CALM_MILLISECONDS) {
  const query = queryOf(place);
  query.set("days", String(days));
  return useQuery({
    queryKey: ["throughput", query.toString()],
    queryFn: () => ask<Speed>(`chs3/api/throughput?${query}`),
    staleTime: milliseconds,
    refetchInterval: milliseconds,
  });
}

export function useCluster() {
  return useQuery({
    queryKey: ["cluster"],
    queryFn: () => ask<Cluster>("chs3/api/cluster"),
    refetchInterval: ({ state }) =>
      state.data?.connections.some(({ loads }) => loads.length) ? BUSY_MILLISECONDS : CALM_MILLISECONDS,
  });
}

// Null for a period that no ledger knows. Asked at once when the period has changed, and again once the server's answer is
// surely younger than that.
export function useDetails(place: PeriodPlace, { state: now, published_at: published }: PeriodRow) {
  const { connId, ...rest } = place;
  const query = new URLSearchParams({ conn_id: connId, ...rest }).toString();
  return useQuery({
    queryKey: ["period", query, now, published],
    placeholderData: keepPreviousData,
    queryFn: () => ask<PeriodDetails | null>(`chs3/api/period?${query}`),
    refetchInterval: ({ state }) => (now === "loading" || state.dataUpdateCount < 2 ? BUSY_MILLISECONDS : CALM_MILLISECONDS),
    enabled: now !== "never_loaded" && now !== "gone",
  });
}

export function useParts({ connId, ...rest }: PeriodPlace) {
  const query = new URLSearchParams({ conn_id: connId, ...rest }).toString();
  return useQuery({
    queryKey: ["parts", query],
    queryFn: () => ask<PeriodParts>(`chs3/api/parts?${query}`),
    refetchInterval: CALM_MILLISECONDS,
  });
}

// What somebody else did to a period, which takes the servers' logs: asked only where it is shown.
export function useChanges({ connId, ...rest }: PeriodPlace, isAsked: boolean) {
  const query = new URLSearchParams({ conn_id: connId, ...rest }).toString();
  return useQuery({ queryKey: ["changes", query], queryFn: () => ask<Changes>(`chs3/api/changes?${query}`), refetchInterval: CALM_MILLISECONDS, enabled: isAsked });
}

export function useObjects({ connId, ...rest }: PeriodPlace, isAsked: boolean) {
  const query = new URLSearchParams({ conn_id: connId, ...rest }).toString();
  return useQuery({ queryKey: ["objects", query], queryFn: () => ask<Objects>(`chs3/api/objects?${query}`), refetchInterval: CALM_MILLISECONDS, enabled: isAsked });
}

export function useRights(dagId: string | undefined) {
  const query = new URLSearchParams(dagId === undefined ? {} : { dag_id: dagId }).toString();
  return useQuery({
    queryKey: ["rights", query],
    queryFn: () => ask<Rights>(`chs3/api/rights?${query}`),
    staleTime: CALM_MILLISECONDS,
    // Failed requests are repeated; otherwise the actions would be missing until the panel is opened again.
    refetchInterval: ({ state }) => (state.status === "error" ? BUSY_MILLISECONDS : false),
  });
}

// Those that start a DAG, or that its tasks have events for; none for those who may not read assets.
export function useAssets(dagId: string) {
  return useQuery({
    queryKey: ["assets", dagId],
    queryFn: () => unlessForbidden(ask<{ assets: Asset[] }>(`api/v2/assets?${new URLSearchParams({ dag_ids: dagId, limit: "100" })}`)),
    select: (found) => found?.assets ?? [],
    staleTime: CALM_MILLISECONDS,
  });
}

export interface RunFailure {
  // The first of the run's tasks that failed; null if none did.
  task: Task | null;
  // Null if the user may not read its log.
  error: string | null;
  // The connections that it is given.
  connections: string[];
  // How many others failed.
  others: number;
  // That of the run, if no task failed.
  note: string;
}

interface TaskInstances {
  task_instances: { task_id: string; map_index: number; try_number: number; rendered_fields: Record<string, unknown> }[];
  total_entries: number;
}

const NO_HEARTBEATS = "Airflow ended it, as its worker sent no more heartbeats: the worker was killed, ran out of memory, or lost its network";

function unlessForbidden<T>(asked: Promise<T>): Promise<T | null> {
  return asked.catch((refused: unknown) => {
    if (refused instanceof RequestError && refused.status === 403) {
      return null;
    }
    throw refused;
  });
}

const eventsOf = async (asked: Record<string, string>, events: readonly string[]) => {
  const query = new URLSearchParams([...Object.entries({ ...asked, order_by: "-when" }), ...events.map((event) => ["included_events", event])]);
  const found = await unlessForbidden(ask<{ event_logs: { event: string; extra: string | null; owner: string | null }[] }>(`api/v2/eventLogs?${query}`));
  return found?.event_logs ?? [];
};

const HEARTBEATS = "heartbeat timeout";
const BY_SCHEDULER = [HEARTBEATS, "state mismatch", "stuck in queued tries exceeded"];

// If the scheduler ends a task, Airflow's audit log alone says why; empty if it did not.
async function whyEnded(dagId: string, runId: string, task: TaskInstances["task_instances"][number]): Promise<string> {
  const [newest] = await eventsOf({ dag_id: dagId, run_id: runId, task_id: task.task_id, map_index: String(task.map_index) }, BY_SCHEDULER);
  return newest?.event === HEARTBEATS ? NO_HEARTBEATS : newest?.extra ?? "";
}

// Who marked a run as failed; empty if nobody did.
async function whoEnded(dagId: string, runId: string): Promise<string> {
  const found = await eventsOf({ dag_id: dagId, run_id: runId }, ["patch_dag_run"]);
  const marked = found.find(({ extra }) => (JSON.parse(extra ?? "{}") as { state?: unknown }).state === "failed");
  return marked ? `${marked.owner ?? "somebody"} marked the run as failed` : "";
}

async function failureOf(dagId: string, runId: string): Promise<RunFailure> {
  const tasks = `${runPath(dagId, runId)}/taskInstances`;
  const { task_instances: [first], total_entries: all } = await ask<TaskInstances>(`${tasks}?state=failed&order_by=end_date&limit=1`);
  if (!first) {
    const [error, { note }] = await Promise.all([whoEnded(dagId, runId), ask<{ note: string | null }>(runPath(dagId, runId))]);
    return { task: null, error, connections: [], others: 0, note: note ?? "" };
  }
  const log = `${tasks}/${encodeURIComponent(first.task_id)}/logs/${first.try_number}?map_index=${first.map_index}`;
  const found = await unlessForbidden(ask<{ content: unknown[] }>(log).then(({ content }) => errorOf(content)));
  const error = found === "" ? await whyEnded(dagId, runId, first) || await whoEnded(dagId, runId) : found;
  const connections = Object.entries(first.rendered_fields).flatMap(([name, value]) => (name.endsWith("_conn_id") && typeof value === "string" ? [value] : []));
  return { task: { dag_id: dagId, run_id: runId, task_id: first.task_id, map_index: first.map_index }, error, connections, others: all - 1, note: "" };
}

// Of a run that has failed: asked once, of Airflow itself, which knows who may read the log of a task.
const failureQuery = (dagId: string, runId: string) => ({
  queryKey: ["failure", dagId, runId], queryFn: () => failureOf(dagId, runId), staleTime: CALM_MILLISECONDS,
});

export const useRunFailure = (dagId: string, runId: string) => useQuery(failureQuery(dagId, runId));

// So many failed runs are asked for their cause at once, as each takes some requests.
const MOST_CAUSES = 20;

// Why the newest run of each DAG failed, as far as it is known, and with which connections.
export function useCauses(runs: readonly FailedRun[]): ReadonlyMap<string, string> {
  const asked = useQueries({ queries: runs.slice(0, MOST_CAUSES).map(({ dag_id: dagId, run_id: runId }) => failureQuery(dagId, runId)) });
  return new Map(asked.flatMap(({ data }, at) => (data?.error ? [[runs[at]?.dag_id ?? "", [...data.connections, data.error].join(" ")] as const] : [])));
}
