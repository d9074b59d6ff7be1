// Everything that is chosen on the page is in its address, so that a link, a reload and Back keep it.
import { useCallback } from "react";
import { useSearchParams } from "react-router-dom";

export type Changes = Record<string, string | null>;

export function useAddress() {
  const [params, setParams] = useSearchParams();
  const change = useCallback((changes: Changes, { replace = false } = {}) => {
    setParams((current) => {
      const next = new URLSearchParams(current);
      for (const [name, value] of Object.entries(changes)) {
        if (value) {
          next.set(name, value);
        } else {
          next.delete(name);
        }
      }
      return next;
    }, { replace });
  }, [setParams]);
  return { params, change };
}

// Of the strips of one length each, the newest period that is shown where that is not the newest of all.
export const untilsIn = (params: URLSearchParams) => (params.get("until") ?? "").split(",").filter(Boolean);

// Periods of the named table that are chosen at once.
export const periodsIn = (params: URLSearchParams) => (params.get("periods") ?? "").split(",").filter(Boolean);

export const NO_PERIOD: Changes = { conn_id: null, database: null, table: null, period: null, periods: null };
