// Requests to Airflow's server, below the path under which it is served, with the session's cookie as its UI sends it.
import { shown, stored } from "../model/directions";

export class RequestError extends Error {
  constructor(readonly status: number, detail: string) {
    super(status === 401 ? "You are logged out: log in again."
      : detail ? `Airflow answers ${status}: ${detail}` : `Airflow answers ${status}.`);
  }
}

// Airflow's own UI leads to its login page once it is loaded again.
export const isLoggedOut = (error: Error): boolean => error instanceof RequestError && error.status === 401;

export async function ask<T>(path: string, { method = "GET", body }: { method?: string; body?: unknown } = {}): Promise<T> {
  const headers = { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }) };
  // With the referrer, Airflow records that a run was started in its UI.
  const init: RequestInit = { method, headers, credentials: "same-origin", referrerPolicy: "same-origin" };
  const answer = await fetch(new URL(stored(path), document.baseURI), body === undefined ? init : { ...init, body: stored(JSON.stringify(body)) })
    .catch(() => { throw new Error("Airflow's API server cannot be reached."); });
  const found: unknown = await answer.text().then((text): unknown => JSON.parse(shown(text))).catch(() => ({}));
  if (!answer.ok) {
    const detail = typeof found === "object" && found !== null && "detail" in found ? found.detail : "";
    throw new RequestError(answer.status, typeof detail === "string" ? detail : JSON.stringify(detail));
  }
  return found as T;
}
