// The answers of the API, asked again every few seconds while somebody looks.
import { keepPreviousData, useQueries, useQuery } from "@tanstack/react-query";
import { isBusy } from "../model/fleet";
import { queryOf, type Place } from "../model/place";
import { errorOf } from "../model/task-log";
import { ask, RequestError } from "./client";
import { runPath } from "./runs";
import type { Cluster, PeriodDetails, PeriodParts, PeriodRow, Periods, Rights, Speed, Task } from "./types";

const BUSY_MILLISECONDS = 5_000;
const CALM_MILLISECONDS = 30_000;

export interface PeriodPlace {
  connId: string;
  database: string;
  table: string;
  period: string;
}

const periodsOf = (query: string) => ({ queryKey: ["periods", query], queryFn: () => ask<Periods>(`chs3/api/periods?${query}`) });

export function usePeriods(place: Place) {
  return useQuery({
    ...periodsOf(queryOf(place).toString()),
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

export function useSpeed(place: Place, days: number) {
  const query = queryOf(place);
  query.set("days", String(days));
  return useQuery({
    queryKey: ["throughput", query.toString()],
    queryFn: () => ask<Speed>(`chs3/api/throughput?${query}`),
    refetchInterval: CALM_MILLISECONDS,
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
    queryFn: () => ask<PeriodDetails | null>(`chs3/api/period?${query}`).catch((error: unknown) => {
      if (error instanceof RequestError && error.status === 404) {
        return null;
      }
      throw error;
    }),
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

export interface RunFailure {
  // The first of the run's tasks that failed.
  task: Task;
  // Null if the user may not read its log.
  error: string | null;
  // How many others failed.
  others: number;
}

interface TaskInstances {
  task_instances: { task_id: string; map_index: number; try_number: number }[];
  total_entries: number;
}

async function failureOf(dagId: string, runId: string): Promise<RunFailure | null> {
  const tasks = `${runPath(dagId, runId)}/taskInstances`;
  const { task_instances: [first], total_entries: all } = await ask<TaskInstances>(`${tasks}?state=failed&order_by=end_date&limit=1`);
  if (!first) {
    return null;
  }
  const log = `${tasks}/${encodeURIComponent(first.task_id)}/logs/${first.try_number}?map_index=${first.map_index}`;
  const error = await ask<{ content: unknown[] }>(log).then(({ content }) => errorOf(content)).catch((refused: unknown) => {
    if (refused instanceof RequestError && refused.status === 403) {
      return null;
    }
    throw refused;
  });
  return { task: { dag_id: dagId, run_id: runId, task_id: first.task_id, map_index: first.map_index }, error, others: all - 1 };
}

// Of a run that has failed: asked once, of Airflow itself, which knows who may read the log of a task.
export function useRunFailure(dagId: string, runId: string) {
  return useQuery({ queryKey: ["failure", dagId, runId], queryFn: () => failureOf(dagId, runId), staleTime: CALM_MILLISECONDS });
}
