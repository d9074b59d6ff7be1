// What a strip can show of its periods beside their state, as a bar each.
import type { PeriodRow } from "../api/types";
import type { TableRow } from "./fleet";
import { compact, duration, number } from "./format";

export interface Measure {
  // Of one period, as the head of a column says it.
  name: string;
  // Null where there is nothing to measure.
  of: (period: PeriodRow) => number | null;
  text: (value: number) => string;
  short: (value: number) => string;
  // Whether it adds up what the nodes have.
  isOfNodes: boolean;
  // Whether periods that were loaded together have a share each.
  isShared: boolean;
}

const MEASURES: Record<string, Measure> = {
  rows: {
    name: "Rows per period",
    of: (period) => (period.published_at || period.rows ? period.rows : null),
    text: (value) => `${number(value)} ${value === 1 ? "row" : "rows"}`,
    short: compact,
    isOfNodes: true,
    isShared: false,
  },
  duration: {
    name: "Insert time",
    of: (period) => period.insert_seconds,
    text: duration,
    short: duration,
    isOfNodes: false,
    isShared: true,
  },
};

// Whether all figures of a table are lower bounds, as nodes that do not answer may have more.
export function isLowerBound({ missedNodes }: Pick<TableRow, "missedNodes">, measure: Measure): boolean {
  return measure.isOfNodes && missedNodes.length > 0;
}

export const measureOf = (shows: string): Measure | null => MEASURES[shows] ?? null;

export interface Extent {
  least: number;
  most: number;
}

export function extentOf(tables: readonly Pick<TableRow, "periods">[], measure: Measure): Extent | null {
  const values = tables.flatMap(({ periods }) => periods.map(measure.of)).filter((value) => value !== null);
  return values.length ? { least: values.reduce((a, b) => Math.min(a, b)), most: values.reduce((a, b) => Math.max(a, b)) } : null;
}

export function rangeText({ least, most }: Extent, show: (value: number) => string): string {
  const [from, to] = [show(least), show(most)];
  return from === to ? to : `${from} – ${to}`;
}
