// The colours of lines, as tokens of Airflow's theme; they differ in lightness, too.
export type Style = "line" | "points" | "rings";

const LINES = ["blue-solid", "orange-solid", "teal-solid", "purple-solid", "pink-solid", "yellow-solid"];

export function palette(style: Style, index: number): string {
  return style === "rings" ? "red-solid" : (LINES[index % LINES.length] ?? "blue-solid");
}
