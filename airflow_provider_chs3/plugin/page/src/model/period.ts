// Periods of any length, by their texts: 2026-10-05T13Z, 2026-10-05, 2026-W41, 2026-10, 2026-Q4, 2026, or all of a table.

export type Grain = "hour" | "day" | "week" | "month" | "quarter" | "year" | "table";
// From short to long, as lists of them stand below each other.
export const GRAINS: readonly Grain[] = ["hour", "day", "week", "month", "quarter", "year", "table"];

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const [HOUR_MS, DAY_MS, WEEK_MS] = [3_600_000, 86_400_000, 604_800_000];
// The Monday of the week that holds 4 January is the first of its year; 5 January 1970 was a Monday.
const FIRST_MONDAY_MS = 4 * DAY_MS;

export function grainOf(period: string): Grain {
  if (period === "all") {
    return "table";
  }
  if (/[TWQ]/.test(period)) {
    return period.includes("T") ? "hour" : period.includes("W") ? "week" : "quarter";
  }
  return ({ 4: "year", 7: "month" } as const)[period.length] ?? "day";
}

const numberIn = (period: string) => Number(period.slice(6));
const yearOf = (period: string) => Number(period.slice(0, 4));
const mondayOf = (year: number) => {
  const fourth = Date.UTC(year, 0, 4);
  return fourth - ((fourth - FIRST_MONDAY_MS) % WEEK_MS + WEEK_MS) % WEEK_MS;
};

const INDEX: Record<Grain, (period: string) => number> = {
  hour: (period) => Date.parse(period.replace("Z", ":00Z")) / HOUR_MS,
  day: (period) => Date.parse(`${period}T00:00Z`) / DAY_MS,
  week: (period) => (mondayOf(yearOf(period)) - FIRST_MONDAY_MS) / WEEK_MS + numberIn(period) - 1,
  month: (period) => yearOf(period) * 12 + Number(period.slice(5)) - 1,
  quarter: (period) => yearOf(period) * 4 + numberIn(period) - 1,
  year: yearOf,
  table: () => 0,
};

const padded = (value: number) => String(value).padStart(2, "0");
const iso = (ms: number) => new Date(ms).toISOString();

const TEXT: Record<Grain, (index: number) => string> = {
  hour: (index) => `${iso(index * HOUR_MS).slice(0, 13)}Z`,
  day: (index) => iso(index * DAY_MS).slice(0, 10),
  week: (index) => {
    const monday = index * WEEK_MS + FIRST_MONDAY_MS;
    const year = new Date(monday + 3 * DAY_MS).getUTCFullYear();
    return `${year}-W${padded((monday - mondayOf(year)) / WEEK_MS + 1)}`;
  },
  month: (index) => `${Math.floor(index / 12)}-${padded((index % 12) + 1)}`,
  quarter: (index) => `${Math.floor(index / 4)}-Q${(index % 4) + 1}`,
  year: String,
  table: () => "all",
};

// As lists and labels call it.
export const nameOfPeriod = (period: string) => (period === "all" ? "whole table" : period);

// Periods that follow one another have numbers that do.
export const indexOf = (period: string) => INDEX[grainOf(period)](period);
export const periodAt = (grain: Grain, index: number) => TEXT[grain](index);

interface Labels {
  // Stands where a longer unit begins; empty elsewhere.
  long: (period: string) => string;
  // Stands where there is room; empty where it would only crowd the axis.
  short: (period: string) => string;
  // That of the first period, where there is room.
  first: (period: string) => string;
  // So many periods are as wide as the first one's label.
  wide: number;
}

const every = (step: number, number: number, text: string) => (number % step ? "" : text);
const monthOf = (period: string) => MONTHS[Number(period.slice(5, 7)) - 1] ?? "";
const dayOf = (period: string) => `${Number(period.slice(8, 10))} ${monthOf(period)}`;

const LABELS: Record<Grain, Labels> = {
  hour: {
    long: (period) => (period.endsWith("T00Z") ? dayOf(period) : ""),
    short: (period) => every(6, Number(period.slice(11, 13)), period.slice(11)),
    first: (period) => `${dayOf(period)} ${period.slice(11)}`,
    wide: 4,
  },
  day: {
    long: (period) => (period.endsWith("-01") ? (period.endsWith("-01-01") ? period.slice(0, 4) : monthOf(period)) : ""),
    // The 8th, 15th and 22nd: the 29th may stand beside the next month.
    short: (period) => (Number(period.slice(8)) < 28 ? every(7, Number(period.slice(8)) - 1, String(Number(period.slice(8)))) : ""),
    first: (period) => `${dayOf(period)} ${period.slice(0, 4)}`,
    wide: 4,
  },
  week: {
    long: (period) => (period.endsWith("-W01") ? period.slice(0, 4) : ""),
    short: (period) => (numberIn(period) < 52 ? every(4, numberIn(period) - 1, period.slice(5)) : ""),
    first: (period) => `${period.slice(5)} ${period.slice(0, 4)}`,
    wide: 4,
  },
  month: {
    long: (period) => (period.endsWith("-01") ? period.slice(0, 4) : ""),
    short: (period) => every(3, Number(period.slice(5)) - 1, monthOf(period)),
    first: (period) => `${monthOf(period)} ${period.slice(0, 4)}`,
    wide: 3,
  },
  quarter: {
    long: (period) => (period.endsWith("-Q1") ? period.slice(0, 4) : ""),
    short: (period) => (period.endsWith("-Q3") ? "Q3" : ""),
    first: (period) => `${period.slice(5)} ${period.slice(0, 4)}`,
    wide: 3,
  },
  year: { long: () => "", short: (period) => every(2, yearOf(period), period), first: (period) => period, wide: 2 },
  table: { long: () => "", short: () => "", first: () => "", wide: 1 },
};

// The first period by its name, so that the others can be counted; where a longer unit begins that; between them a few.
export function labelOf(periods: readonly string[], at: number): string {
  const [first = ""] = periods;
  const { long, short, first: full, wide } = LABELS[grainOf(first)];
  const longAt = (index: number) => long(periods[index] ?? "");
  const isLong = (index: number) => periods[index] !== undefined && longAt(index) !== "";
  const beginsWide = !Array.from({ length: wide + 1 }, (_, index) => index).some(isLong);
  if (isLong(at)) {
    return longAt(at);
  }
  if (at === 0) {
    return beginsWide ? full(first) : isLong(1) ? "" : narrow(first);
  }
  return (beginsWide ? at < wide : at === 1) || isLong(at - 1) ? "" : short(periods[at] ?? "");
}

// A name that fits beside another one a period or two later.
function narrow(period: string): string {
  const of = { hour: period.slice(11), day: String(Number(period.slice(8))), month: monthOf(period), year: period, table: "" };
  const grain = grainOf(period);
  return grain === "week" || grain === "quarter" ? period.slice(5) : of[grain];
}

// What the arrows up and down of a strip skip.
export const LONGER: Record<Grain, number> = { hour: 24, day: 7, week: 4, month: 12, quarter: 4, year: 10, table: 1 };
