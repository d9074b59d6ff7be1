// Numbers, sizes and times, written in one way everywhere.
const NUMBER = new Intl.NumberFormat("en-US");
const COMPACT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const NONE = "–";

// Of names that end with numbers, the 2nd stands before the 10th.
export const { compare: compareNames } = new Intl.Collator("en", { numeric: true });

type Known = number | null | undefined;

export function orNone(value: Known, show: (value: number) => string): string {
  return value === null || value === undefined ? NONE : show(value);
}

export const number = (value: number) => NUMBER.format(value);
export const compact = (value: number) => COMPACT.format(value);
export const rate = (value: number) => `${COMPACT.format(value)} rows/s`;

export function bytes(value: number): string {
  let [left, unit] = [value, 0];
  while (left >= 1024 && unit < UNITS.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${left.toFixed(unit && left < 100 ? 1 : 0)} ${UNITS[unit]}`;
}

export const byteRate = (value: number) => `${bytes(value)}/s`;

// Rounded down: what is not done is less than 100.
export function percent(part: number, whole: number): string {
  return whole ? `${Math.floor((100 * part) / whole)}%` : NONE;
}

// Of shares that belong together, so that they add up to about 100.
export function share(part: number, whole: number): string {
  return whole ? `${Math.round((100 * part) / whole)}%` : NONE;
}

export function duration(seconds: number): string {
  if (seconds > 0 && seconds < 0.005) {
    return "< 0.01 s";
  }
  if (seconds < 10) {
    return seconds ? `${seconds.toFixed(seconds < 1 ? 2 : 1)} s` : "0 s";
  }
  const [days, hours, minutes] = [86_400, 3_600, 60].map((unit) => Math.floor(seconds / unit)) as [number, number, number];
  if (days) {
    return `${days} d ${hours % 24} h`;
  }
  if (hours) {
    return `${hours} h ${minutes % 60} min`;
  }
  return minutes ? `${minutes} min ${Math.floor(seconds % 60)} s` : `${seconds.toFixed(0)} s`;
}

// One unit is enough for an age.
export function age(seconds: number): string {
  for (const [unit, name] of [[86_400, "d"], [3_600, "h"], [60, "min"]] as const) {
    if (seconds >= unit) {
      return `${Math.floor(seconds / unit)} ${name}`;
    }
  }
  return `${Math.max(0, Math.floor(seconds))} s`;
}

// The API gives times of records as text in UTC.
export function parseUtc(text: string): Date {
  return new Date(`${text.replace(" ", "T")}Z`);
}

export function time(at: Date, timeZone: string): string {
  return new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "medium" }).format(at);
}

export function dayAndMinute(at: Date, timeZone: string): string {
  return new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "short" }).format(at);
}

// Of a day that is clear.
export function minute(at: Date, timeZone: string): string {
  return new Intl.DateTimeFormat("sv-SE", { timeZone, timeStyle: "short" }).format(at);
}

export function count(value: number, one: string, many = `${one}s`): string {
  return `${number(value)} ${value === 1 ? one : many}`;
}

// With a full stop, if nothing else ends it: errors of servers and drivers often have none.
export function ended(text: string): string {
  return /[.…!?]\)?$/.test(text) ? text : `${text}.`;
}
