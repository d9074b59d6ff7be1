// The answers of the API, asked again every few seconds while somebody looks.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { isBusy } from "../model/fleet";
import { queryOf, type Place } from "../model/place";
import { ask, RequestError } from "./client";
import type { Cluster, MonthDetails, MonthParts, MonthRow, Months, Rights, Speed } from "./types";

const BUSY_MILLISECONDS = 5_000;
const CALM_MILLISECONDS = 30_000;

export interface MonthPlace {
  connId: string;
  database: string;
  table: string;
  month: string;
}

export function useMonths(place: Place) {
  const query = queryOf(place).toString();
  return useQuery({
    queryKey: ["months", query],
    queryFn: () => ask<Months>(`chs3/api/months?${query}`),
    refetchInterval: ({ state }) => (state.data && isBusy(state.data) ? BUSY_MILLISECONDS : CALM_MILLISECONDS),
  });
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

// Null for a month that no ledger knows. Asked at once when the month has changed, and again once the server's answer is
// surely younger than that.
export function useDetails(place: MonthPlace, { state: now, published_at: published }: MonthRow) {
  const { connId, ...rest } = place;
  const query = new URLSearchParams({ conn_id: connId, ...rest }).toString();
  return useQuery({
    queryKey: ["month", query, now, published],
    placeholderData: keepPreviousData,
    queryFn: () => ask<MonthDetails | null>(`chs3/api/month?${query}`).catch((error: unknown) => {
      if (error instanceof RequestError && error.status === 404) {
        return null;
      }
      throw error;
    }),
    refetchInterval: ({ state }) => (now === "loading" || state.dataUpdateCount < 2 ? BUSY_MILLISECONDS : CALM_MILLISECONDS),
    enabled: now !== "never_loaded",
  });
}

export function useParts({ connId, ...rest }: MonthPlace) {
  const query = new URLSearchParams({ conn_id: connId, ...rest }).toString();
  return useQuery({
    queryKey: ["parts", query],
    queryFn: () => ask<MonthParts>(`chs3/api/parts?${query}`),
    refetchInterval: CALM_MILLISECONDS,
  });
}

export function useRights(dagId: string | undefined) {
  const query = new URLSearchParams(dagId === undefined ? {} : { dag_id: dagId }).toString();
  return useQuery({
    queryKey: ["rights", query],
    queryFn: () => ask<Rights>(`chs3/api/rights?${query}`),
    staleTime: CALM_MILLISECONDS,
  });
}
