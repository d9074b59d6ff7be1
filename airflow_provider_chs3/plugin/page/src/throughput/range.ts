// How far back the view looks: a few ranges, so that users share answers.
export const RANGES: Record<string, string> = { 1: "1 day", 7: "7 days", 30: "30 days", 90: "90 days" };

export function daysOf(params: URLSearchParams): number {
  const days = params.get("days") ?? "";
  return days in RANGES ? Number(days) : 7;
}
