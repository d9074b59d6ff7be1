// The table that an address names.
import type { Named } from "./fleet";

// Links of tasks name a connection, a table and periods of it; links that people write may omit some.
export function namedIn(params: URLSearchParams): Named | null {
  const table = params.get("table");
  return table ? { connId: params.get("conn_id"), database: params.get("database"), table } : null;
}
