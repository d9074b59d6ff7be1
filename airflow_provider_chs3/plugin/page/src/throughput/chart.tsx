// Charts over time. uPlot draws them on canvases, which screen readers cannot read: each needs its figures beside it.
import { Box, Button, Flex, Text } from "@chakra-ui/react";
import { Global } from "@emotion/react";
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import styles from "uplot/dist/uPlot.min.css?inline";
import { age } from "../model/format";
import { useZone } from "../ui/zone";
import { palette, type Style } from "./palette";

const HEIGHT_PIXELS = 200;
const AXIS_PIXELS = 76;
// Steps between the lines of an axis.
const LINES: Record<string, number[] | undefined> = {
  decimal: undefined,
  whole: Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((each) => each * 10 ** power)).flat(),
  binary: Array.from({ length: 60 }, (_, power) => 2 ** power),
};

// Times as elsewhere on the page; a new year or day is named below its first time.
const EACH: [seconds: number, format: string, year: string | null, day: string | null][] = [
  [28 * 86_400, "{YYYY}-{MM}", null, null],
  [86_400, "{MM}-{DD}", "\n{YYYY}", null],
  [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", "\n{MM}-{DD}"],
  [1, "{HH}:{mm}:{ss}", "\n{YYYY}-{MM}-{DD}", "\n{MM}-{DD}"],
];
const TIMES = EACH.map(([seconds, format, year, day]) => [seconds, format, year, null, day, null, null, null, 1]);

export interface Series {
  name: string;
  style: Style;
  values: (number | null)[];
}

export interface ChartProps {
  title: string;
  times: number[];
  series: Series[];
  format: (value: number) => string;
  lines?: keyof typeof LINES;
  from: number;
  to: number;
}

function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--chakra-colors-${name}`).trim();
}

const isHollow = (style: Style, index: number) => style === "rings" || index > 0;

function drawn(style: Style, stroke: () => string, index: number): Partial<uPlot.Series> {
  if (style === "line") {
    return { stroke, width: 2, points: { show: false } };
  }
  // Of those at the same place, all are seen: a dot, a circle around it, and the ring of a slow load.
  const size = style === "rings" ? 16 : index ? 10 : 5;
  const points = { show: true, size, width: isHollow(style, index) ? 2.5 : 1, fill: isHollow(style, index) ? "transparent" : stroke, stroke };
  return { stroke, paths: () => null, points };
}

function optionsOf({ series, format, lines = "decimal", from, to }: ChartProps, zone: string, width: number, zoomed: (is: boolean) => void): uPlot.Options {
  const axis = { stroke: () => token("fg-muted"), grid: { stroke: () => token("border"), width: 1 }, ticks: { show: false } };
  const incrs = LINES[lines];
  // Axes round to their lines: less than this is not a zoom.
  const slack = (to - from) / 1_000;
  return {
    width,
    height: HEIGHT_PIXELS,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1_000), zone),
    scales: { x: { time: true }, y: { range: (_, __, most) => [0, 1.1 * most || 1] } },
    axes: [
      { ...axis, values: TIMES, gap: 8 },
      { ...axis, size: AXIS_PIXELS, values: (_, splits) => splits.map(format), ...(incrs ? { incrs } : {}) },
    ],
    series: [{ label: "Time" }, ...series.map(({ name, style }, index) => ({
      label: name, value: (_: uPlot, value: number | null) => (value === null ? "–" : format(value)),
      ...drawn(style, () => token(palette(style, index)), index),
    }))],
    legend: { show: false },
    cursor: { drag: { x: true, y: false }, points: { size: 9 } },
    hooks: { setScale: [(plot, key) => { if (key === "x") zoomed((plot.scales.x?.max ?? to) - (plot.scales.x?.min ?? from) < to - from - slack); }] },
  };
}

export function Chart(props: ChartProps) {
  const { title, series, times, format, from, to } = props;
  const zone = useZone();
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  useEffect(() => { latest.current = props; });
  const [isZoomed, setZoomed] = useState(false);
  // Drawn again only if the lines differ; new values keep the zoom.
  const names = series.map(({ name }) => name).join("\n");
  useEffect(() => {
    const place = box.current;
    if (!place) {
      return undefined;
    }
    const { times: at, series: all } = latest.current;
    const made = new uPlot(optionsOf(latest.current, zone, place.clientWidth || 300, setZoomed), [at, ...all.map(({ values }) => values)], place);
    plot.current = made;
    made.setScale("x", { min: latest.current.from, max: latest.current.to });
    const resized = new ResizeObserver(() => { made.setSize({ width: place.clientWidth, height: HEIGHT_PIXELS }); });
    resized.observe(place);
    // A canvas does not follow the theme.
    const themed = new MutationObserver(() => { made.redraw(false, true); });
    themed.observe(document.documentElement, { attributes: true });
    return () => { resized.disconnect(); themed.disconnect(); made.destroy(); };
  }, [names, zone]);
  useEffect(() => {
    const shown = plot.current?.scales.x;
    plot.current?.setData([times, ...series.map(({ values }) => values)], false);
    plot.current?.setScale("x", isZoomed && shown?.min && shown.max ? { min: shown.min, max: shown.max } : { min: from, max: to });
  }, [times, series, from, to, isZoomed]);
  const reset = () => { plot.current?.setScale("x", { min: from, max: to }); };
  return (
    <Box as="figure" minW={0} borderWidth={1} rounded="md" p={3}>
      <Global styles={styles} />
      <Flex justify="space-between" align="center" minH={7}>
        <Text as="figcaption" fontWeight="semibold" fontSize="sm">{title}</Text>
        {isZoomed ? <Button size="2xs" variant="outline" onClick={reset}>Show all {age(to - from)}</Button> : null}
      </Flex>
      <Box ref={box} role="img" className="chart" aria-label={`Chart of ${title}: ${series.map(({ name }) => name).join(", ")}. Its figures are in the table below.`} />
      <Legend series={series} format={format} />
    </Box>
  );
}

// The last value and the largest of each line, in words.
function Legend({ series, format }: { series: readonly Series[]; format: (value: number) => string }) {
  return (
    <Flex as="ul" listStyle="none" columnGap={4} rowGap={1} wrap="wrap" fontSize="xs" mt={1}>
      {series.map(({ name, style, values }, index) => {
        const known = values.filter((value) => value !== null);
        const colour = `var(--chakra-colors-${palette(style, index)})`;
        return (
          <Flex as="li" key={name} gap={1.5} align="center">
            <svg width="14" height="12" aria-hidden="true" fill="none" stroke={colour} strokeWidth={2.5}>
              {style === "line" ? <path d="M0 6h14" /> : <circle cx="7" cy="6" r={isHollow(style, index) ? 4.5 : 2} fill={isHollow(style, index) ? "none" : colour} />}
            </svg>
            <Text>{name}</Text>
            <Text color="fg.muted">{describe(style, known, format)}</Text>
          </Flex>
        );
      })}
    </Flex>
  );
}

function describe(style: Style, known: readonly number[], format: (value: number) => string): string {
  const last = known.at(-1);
  if (style === "rings") {
    return known.length ? String(known.length) : "none";
  }
  return last === undefined ? "no data" : `last ${format(last)}, max ${format(Math.max(...known))}`;
}
