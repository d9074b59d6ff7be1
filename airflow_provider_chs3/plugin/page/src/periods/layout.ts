// Which columns and which periods of the list of tables have room.
import type { Measure } from "../model/measures";
import { CELL_PIXELS } from "./strip";

const NAME_PIXELS = 260;
// The DAG stands beside shorter names, and longer ones are cut.
const SHORT_NAME_PIXELS = 180;
const DAG_PIXELS = 130;
const NEWEST_PIXELS = 100;
const DUE_PIXELS = 140;
// Of the last column: all rows, or the least and the most of the periods.
const LAST_PIXELS = { total: 84, range: 160 };
const NARROW_PIXELS = 700;
// At the sides, and between columns.
const GAPS_PIXELS = 48;
const GAP_PIXELS = 8;
const LEAST_PERIODS = 6;

export interface Layout {
  periods: readonly string[];
  measure: Measure | null;
  isNarrow: boolean;
  // Whose it is, if the periods leave room for that.
  hasDag: boolean;
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
  const besides = NEWEST_PIXELS + GAP_PIXELS + (hasDue ? DUE_PIXELS + GAP_PIXELS : 0);
  const room = isNarrow ? width - GAPS_PIXELS / 2 : width - NAME_PIXELS - lastPixels - GAPS_PIXELS - besides;
  const hasDag = !isNarrow && room >= wanted * CELL_PIXELS + SHORT_NAME_PIXELS - NAME_PIXELS + DAG_PIXELS + GAP_PIXELS;
  const facts = `${hasDag ? `minmax(${DAG_PIXELS}px, 1fr) ` : ""}minmax(${NEWEST_PIXELS}px, 0.6fr) ${hasDue ? `${DUE_PIXELS}px ` : ""}`;
  return {
    measure, isNarrow, hasDag, hasDue,
    columns: `minmax(${hasDag ? SHORT_NAME_PIXELS : NAME_PIXELS}px, 2fr) ${facts}max-content ${lastPixels}px`,
    fits: Math.max(LEAST_PERIODS, Math.floor(room / CELL_PIXELS)),
  };
}
