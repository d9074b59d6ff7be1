// Which columns and which periods of the list of tables have room.
import type { Measure } from "../model/measures";
import { CELL_PIXELS } from "./strip";

const NAME_PIXELS = 260;
// Facts stand beside shorter names, and longer ones are cut.
const SHORT_NAME_PIXELS = 180;
const FACTS_PIXELS = { dag: 130, newest: 100 };
const DUE_PIXELS = 140;
// Of the last column: all rows, or the least and the most of the periods.
const LAST_PIXELS = { total: 84, range: 160 };
const NARROW_PIXELS = 700;
// At the sides, and between columns.
const GAPS_PIXELS = 48;
const FACTS_GAPS_PIXELS = 16;
const LEAST_PERIODS = 6;

export interface Layout {
  periods: readonly string[];
  measure: Measure | null;
  isNarrow: boolean;
  // Whose it is and how fresh, if the periods leave room for that.
  hasFacts: boolean;
  // When each is due, if any load says so.
  hasDue: boolean;
  // Of the grid of the head and of each row, where it is not narrow.
  columns: string;
}

// So many periods have room, if as many are wanted.
export function layoutOf(width: number, wanted: number, measure: Measure | null, isDue: boolean): Omit<Layout, "periods"> & { fits: number } {
  const isNarrow = width < NARROW_PIXELS;
  const lastPixels = measure ? LAST_PIXELS.range : LAST_PIXELS.total;
  const hasDue = isDue && !isNarrow;
  const room = isNarrow ? width - GAPS_PIXELS / 2 : width - NAME_PIXELS - lastPixels - GAPS_PIXELS - (hasDue ? DUE_PIXELS + FACTS_GAPS_PIXELS / 2 : 0);
  const factsPixels = SHORT_NAME_PIXELS - NAME_PIXELS + FACTS_PIXELS.dag + FACTS_PIXELS.newest + FACTS_GAPS_PIXELS;
  const hasFacts = !isNarrow && room >= wanted * CELL_PIXELS + factsPixels;
  const facts = hasFacts ? `minmax(${FACTS_PIXELS.dag}px, 1fr) minmax(${FACTS_PIXELS.newest}px, 0.6fr) ` : "";
  return {
    measure, isNarrow, hasFacts, hasDue,
    columns: `minmax(${hasFacts ? SHORT_NAME_PIXELS : NAME_PIXELS}px, 2fr) ${facts}${hasDue ? `${DUE_PIXELS}px ` : ""}max-content ${lastPixels}px`,
    fits: Math.max(LEAST_PERIODS, Math.floor(room / CELL_PIXELS)),
  };
}
