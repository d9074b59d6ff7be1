// Slow loads by the spells in which they ran: those of one busy hour have one cause.
import type { LoadSpeed } from "../api/types";
import { count } from "./format";

type Timed = Pick<LoadSpeed, "published_at" | "seconds_to_published">;

export interface Spell<Load extends Timed> {
  from: number;
  to: number;
  // The newest first.
  loads: Load[];
}

// Loads that are so far apart have nothing to do with each other.
const APART_SECONDS = 1_800;

const begunAt = (load: Timed) => load.published_at - load.seconds_to_published;

// The newest spell first.
export function spellsOf<Load extends Timed>(slow: readonly Load[]): Spell<Load>[] {
  const found: Spell<Load>[] = [];
  for (const load of [...slow].sort((one, other) => begunAt(one) - begunAt(other))) {
    const last = found.at(-1);
    if (last && begunAt(load) - last.to < APART_SECONDS) {
      last.to = Math.max(last.to, load.published_at);
      last.loads.unshift(load);
    } else {
      found.push({ from: begunAt(load), to: load.published_at, loads: [load] });
    }
  }
  return found.reverse();
}

const RECENT_SECONDS = 86_400;

// The slow loads of the last day, but for those of tables that are not shown.
export function slowOf<Load extends Timed & Pick<LoadSpeed, "why_slow" | "database" | "table">>(loads: readonly Load[], seenAt: number, tables: ReadonlySet<string>): Load[] {
  return loads.filter((load) => load.why_slow && load.published_at > seenAt - RECENT_SECONDS && tables.has(`${load.database}.${load.table}`));
}

const NAMED = 3;

// Which other loads of the cluster ran then, in words; empty if none did.
export function meanwhile<Load extends Timed & Pick<LoadSpeed, "database" | "table">>({ from, to, loads }: Spell<Load>, all: readonly Load[]): string {
  const others = all.filter((load) => !loads.includes(load) && load.published_at > from && begunAt(load) < to);
  return others.length ? `Meanwhile ${count(others.length, "other load")} ran: of ${tablesIn(others)}.` : "";
}

// The tables of loads, those of most first.
export function tablesIn(loads: readonly Pick<LoadSpeed, "database" | "table">[]): string {
  const tables = new Map<string, number>();
  for (const { database, table } of loads) {
    tables.set(`${database}.${table}`, (tables.get(`${database}.${table}`) ?? 0) + 1);
  }
  const most = [...tables].sort(([, one], [, other]) => other - one);
  const names = most.slice(0, NAMED).map(([name, loadsOf]) => (most.length > 1 ? `${name} (${loadsOf})` : name));
  return names.join(", ") + (most.length > NAMED ? `, and ${count(most.length - NAMED, "further table")}` : "");
}
