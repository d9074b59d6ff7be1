// The time zone that the user chose in Airflow, which keeps it in the browser and reports changes there.
import { useEffect, useState, useSyncExternalStore } from "react";

const KEY = "timezone";
const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone;

function listen(changed: () => void): () => void {
  const events = ["storage", "local-storage"];
  events.forEach((event) => { globalThis.addEventListener(event, changed); });
  return () => { events.forEach((event) => { globalThis.removeEventListener(event, changed); }); };
}

function chosen(): string {
  try {
    const zone: unknown = JSON.parse(localStorage.getItem(KEY) ?? "null");
    return typeof zone === "string" && new Intl.DateTimeFormat("en", { timeZone: zone }) ? zone : HERE;
  } catch {
    return HERE;
  }
}

export function useZone(): string {
  return useSyncExternalStore(listen, chosen);
}

// The current Unix time, updated each second.
export function useNow(): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => { setNow(Date.now()); }, 1_000);
    return () => { clearInterval(timer); };
  }, []);
  return now / 1_000;
}
