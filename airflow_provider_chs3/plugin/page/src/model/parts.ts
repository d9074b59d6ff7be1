// The parts of a period over time, added up over the nodes that log them.
import type { PeriodParts } from "../api/types";

export const MINUTE = 60;

export type Point = readonly [at: number, parts: number];

export function totalOf(nodes: PeriodParts["nodes"]): Point[] {
  const logged = nodes.map(({ parts }) => parts).filter((parts) => parts.length);
  // Before the log of each node begins, the total is not known.
  const from = Math.max(...logged.map((parts) => parts[0]?.[0] ?? Infinity));
  const times = [...new Set(logged.flatMap((parts) => parts.map(([at]) => at)))].filter((at) => at >= from).sort((one, other) => one - other);
  return times.map((at) => [at, logged.reduce((sum, parts) => sum + (parts.findLast(([since]) => since <= at)?.[1] ?? 0), 0)]);
}

// Why nodes have no log, and which.
export function silentOf(nodes: PeriodParts["nodes"]): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const { name, error } of nodes.filter((node) => node.error)) {
    found.set(error, [...(found.get(error) ?? []), name]);
  }
  return found;
}

// Where a chart begins: shortly before the first change, as nothing is to be seen before it.
export function beginOf([first]: readonly number[], begun: number, now: number): number {
  return first === undefined ? begun : Math.max(begun, first - Math.max(MINUTE, (now - first) / 10));
}

// Where a chart of single events begins and ends: shortly before the first and after the last, as in one busy hour of a week.
export function spanOf(times: readonly number[], begun: number, now: number): { from: number; to: number } {
  const last = times.at(-1) ?? now;
  const from = beginOf(times, begun, last);
  return { from, to: Math.min(now, last + Math.max(MINUTE, (last - from) / 10)) };
}

// Steps: so many parts from one time to the next.
export function pathOf(points: readonly Point[], x: (at: number) => number, y: (parts: number) => number, now: number): string {
  const steps = points.map(([at, parts], index) => `${index ? `H${x(at).toFixed(1)}V` : `M${x(at).toFixed(1)} `}${y(parts).toFixed(1)}`);
  return steps.length ? `${steps.join("")}H${x(now).toFixed(1)}` : "";
}
