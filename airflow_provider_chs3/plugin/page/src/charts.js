// Charts over time. uPlot draws them on canvases, which screen readers cannot read: each chart needs its figures beside it.
import uPlot from "uplot";
import { element } from "./dom.js";

const HEIGHT = 220; // CSS pixels
const AXIS_WIDTH = 84;
// Steps between the lines of an axis: round decimals unless a chart sets others.
const LINES = {
  decimal: undefined,
  whole: Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((each) => each * 10 ** power)).flat(),
  binary: Array.from({ length: 60 }, (_, power) => 2 ** power), // of KiB and the like
};
const COLOURS = 6; // --series-1 and so on, in page.css

const shown = new Map(); // chart → the observer of its width

// A canvas does not follow the theme: look up the colours whenever it is drawn.
function colour(name) {
  return () => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function axis(format) {
  const lines = { stroke: colour("--line"), width: 1 };
  return { stroke: colour("--text"), grid: lines, ticks: lines, ...format };
}

const STYLES = {
  line: (stroke) => ({ stroke, width: 2, points: { show: false } }),
  points: (stroke) => ({ stroke, paths: () => null, points: { show: true, size: 7, fill: stroke, stroke } }),
  // They stand out even without their colour.
  rings: (stroke) => ({ stroke, paths: () => null, points: { show: true, size: 15, width: 3, fill: "transparent", stroke } }),
};

// One chart: `times` are Unix seconds, `series` have a name, a style, and values as long as `times`, null where there is none.
// `lines` is one of LINES.
export function chart({ title, times, series, format, lines = "decimal", from, to }) {
  const names = series.map((each, index) => (each.style === "rings" ? "--slow" : `--series-${(index % COLOURS) + 1}`));
  const styled = series.map((each, index) => ({
    label: each.name,
    value: (_, value) => (value === null || value === undefined ? "–" : format(value)),
    ...STYLES[each.style](colour(names[index])),
  }));
  const options = {
    width: 400,
    height: HEIGHT,
    scales: { x: { time: true, range: () => [from, to] }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [axis({}), axis({ size: AXIS_WIDTH, values: (_, splits) => splits.map(format), incrs: LINES[lines] })],
    series: [{ label: "Time" }, ...styled],
    legend: { markers: { stroke: (_, index) => `var(${names[index - 1]})`, fill: "transparent" } },
    cursor: { drag: { x: false, y: false } },
  };
  const place = element("div", { class: "chart" });
  const drawn = new uPlot(options, [times, ...series.map((each) => each.values)], place);
  const resized = new ResizeObserver(() => {
    if (place.clientWidth) {
      drawn.setSize({ width: place.clientWidth, height: HEIGHT });
    }
  });
  resized.observe(place);
  shown.set(drawn, resized);
  const label = `Chart of ${title}: ${series.map((each) => each.name).join(", ")}. Its figures are in the table below.`;
  return element("figure", { role: "img", "aria-label": label }, element("figcaption", {}, title), place);
}

// Call this before drawing again: old charts keep listening to the window.
export function forgetCharts() {
  for (const [drawn, resized] of shown) {
    resized.disconnect();
    drawn.destroy();
  }
  shown.clear();
}

new MutationObserver(() => shown.forEach((_, drawn) => drawn.redraw(false, true)))
  .observe(document.documentElement, { attributeFilter: ["data-theme"] });
