// The periods of one table as a strip: plain buttons under one style, as there are many of them.
import { memo, useRef, useState, type CSSProperties, type KeyboardEvent, type MouseEvent } from "react";
import type { SystemStyleObject } from "@chakra-ui/react";
import type { State } from "../api/types";
import { isGap, isNamed, nameOf, type TableRow } from "../model/fleet";
import { extentOf, isLowerBound, type Measure } from "../model/measures";
import { namedIn } from "../model/named";
import { grainOf, LONGER, nameOfPeriod } from "../model/period";
import { NEEDS_PERSON, ORDER, STATES } from "../model/states";
import { Sign } from "../ui/sign";
import { NO_PERIOD, periodsIn, useAddress } from "../ui/url";
import { sealText, shareText, stateText, withoutText } from "./text";

export const CELL_PIXELS = 22;

const token = (name: string) => (name === "transparent" ? name : name === "white" ? name : `{colors.${name}}`);

// The legend has such cells, too.
export const HEAT_STYLES: SystemStyleObject = {
  "& .heat": {
    background: "linear-gradient(to top, color-mix(in oklab, {colors.blue.solid} calc(60% + 0.4 * var(--share)), {colors.bg.muted}) " +
      "max(var(--share), 3px), {colors.bg.muted} 0)",
    // Between two high ones there is room.
    paddingInline: "3px",
  },
  // What may be above the bar is hatched, of the highest one too.
  "& .heat.least": {
    background: "linear-gradient(to top, color-mix(in oklab, {colors.blue.solid} calc(60% + 0.4 * var(--share)), {colors.bg.muted}) " +
      "clamp(3px, var(--share), 100% - 7px), transparent 0), repeating-linear-gradient(135deg, {colors.fg.subtle} 0 1.5px, {colors.bg.muted} 1.5px 5px)",
  },
  "& .heat, & .heat.least": { backgroundClip: "content-box" },
  "& .unknown": { borderWidth: "1px", borderStyle: "dashed", borderColor: "fg.subtle" },
  "& .marked": { borderWidth: "2px", borderStyle: "solid", borderColor: "red.solid" },
};

export const shareStyle = (share: number) => ({ "--share": `${Math.round(100 * share)}%` } as CSSProperties);

// One class for each state; cells of a measure have a bar, so that nobody has to tell shades apart.
export const STRIP_STYLES: SystemStyleObject = {
  "& .row": {
    position: "absolute", top: 0, insetInline: 0, display: "grid", alignItems: "center", gap: 2, px: 3,
    borderBottomWidth: "1px", borderColor: "border.muted",
    _hover: { bg: "bg.muted/50" },
  },
  "& .narrow": { display: "flex", flexWrap: "wrap", alignContent: "center", rowGap: 1 },
  "& .name": { minWidth: 0, display: "flex", gap: 2, alignItems: "baseline" },
  // Strips stand below their names, and so below the axis.
  "& .narrow .name": { flexBasis: "100%" },
  "& .name h3": { fontSize: "sm", fontWeight: "medium", overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap" },
  "& .name small": { fontSize: "xs", color: "fg.muted", whiteSpace: "nowrap" },
  "& .name .below": { color: "fg.muted", alignSelf: "center" },
  "& .name .origin": { flexShrink: 100, minWidth: "3em", overflow: "hidden", textOverflow: "ellipsis" },
  "& .fact": { minWidth: 0, fontSize: "sm", color: "fg.muted", overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap" },
  // Else it is a box of its own, which is cut without a sign.
  "& .fact a": { display: "inline" },
  "& .total": { textAlign: "end", fontSize: "sm", fontVariantNumeric: "tabular-nums", color: "fg.muted" },
  "& .strip": { display: "flex", flexShrink: 0 },
  "& .axis span": { width: `${CELL_PIXELS}px`, flexShrink: 0, overflow: "visible", whiteSpace: "nowrap" },
  "& .cell": {
    width: `${CELL_PIXELS - 2}px`, height: "24px", marginInlineEnd: "2px", borderRadius: "3px", flexShrink: 0,
    display: "inline-flex", alignItems: "center", justifyContent: "center", cursor: "pointer",
    _focusVisible: { outline: "2px solid", outlineColor: "fg", outlineOffset: "1px" },
    _hover: { filter: "brightness(0.92)" },
  },
  "& .gap": { width: `${CELL_PIXELS}px`, flexShrink: 0 },
  "& .left-out": { textAlign: "center", color: "fg.muted" },
  "& .chosen": { outline: "2px solid", outlineColor: "fg", outlineOffset: "1px" },
  "& .dimmed": { opacity: 0.3 },
  "& .sealed": { boxShadow: "inset 0 -3px 0 {colors.green.fg}" },
  "& .published svg": { opacity: 0.55 },
  ...HEAT_STYLES,
  ...Object.fromEntries(ORDER.map((state) => [
    `& .${state}`, {
      background: token(STATES[state].fill), color: token(STATES[state].ink),
      ...(state === "never_loaded" ? { borderWidth: "1px", borderStyle: "dashed", borderColor: "fg.subtle" } : {}),
    },
  ])),
};

interface Props {
  table: TableRow;
  periods: readonly string[];
  states: ReadonlySet<State>;
  measure: Measure | null;
}

export const Strip = memo(function Strip({ table, periods, states, measure }: Props) {
  const { params, change } = useAddress();
  const strip = useRef<HTMLDivElement>(null);
  const [reached, setReached] = useState("");
  const most = (measure && extentOf([table], measure)?.most) || 1;
  const isLeast = measure !== null && isLowerBound(table, measure);
  const there = periods.filter((name) => table.byName.has(name));
  const stop = there.includes(reached) ? reached : there.at(-1);
  const named = namedIn(params);
  const isHere = named !== null && isNamed(table, named);
  const chosen = isHere ? periodsIn(params) : [];
  const place = { conn_id: table.connIds[0] ?? null, database: table.database, table: table.table, act: null };
  const choose = (periods: readonly string[]) => { change(periods.length ? { ...place, period: null, periods: there.filter((name) => periods.includes(name)).join(",") } : NO_PERIOD, { replace: true }); };
  // From the one that was reached last, as in lists of files.
  const chooseTo = (name: string) => {
    const [from, to] = [there.indexOf(stop ?? name), there.indexOf(name)];
    choose([...chosen, ...there.slice(Math.min(from, to), Math.max(from, to) + 1)]);
  };
  const click = (name: string, { shiftKey, ctrlKey, metaKey }: MouseEvent) => {
    if (shiftKey) {
      chooseTo(name);
    } else if (ctrlKey || metaKey) {
      choose(chosen.includes(name) ? chosen.filter((each) => each !== name) : [...chosen, name]);
    } else {
      change({ ...place, period: name, periods: null });
    }
    setReached(name);
  };
  const move = (event: KeyboardEvent) => {
    const to = next(event.key, there.indexOf(stop ?? ""), there.length, LONGER[grainOf(stop ?? "")]);
    const name = to === undefined ? undefined : there[to];
    if (name !== undefined) {
      event.preventDefault();
      if (event.shiftKey) {
        chooseTo(name);
      }
      setReached(name);
      strip.current?.querySelector<HTMLElement>(`[data-period="${name}"]`)?.focus();
    }
  };
  return (
    <div className="strip" ref={strip} data-table={table.key} role="toolbar" tabIndex={-1} aria-label={`Periods of ${nameOf(table)}`} onKeyDown={move}>
      {periods.map((name) => {
        const period = table.byName.get(name);
        if (!period) {
          return isGap(name) ? <span key={name} className="gap left-out" title="No table has periods here">⋯</span> : <span key={name} className="gap" />;
        }
        const value = measure?.of(period) ?? null;
        const label = [`${nameOfPeriod(name)}: ${stateText(period)}`, measure && (value === null ? "not measured" : isLeast ? `at least ${measure.text(value)}${withoutText(table.missedNodes)}` : measure.text(value)), value !== null && measure?.isShared && shareText(period), sealText(period)].filter(Boolean).join(", ");
        const classes = [
          "cell", ...(measure ? [value === null ? "unknown" : "heat", isLeast && "least", NEEDS_PERSON.has(period.state) && "marked"] : [period.state, period.seal && "sealed"]),
          states.size && !states.has(period.state) && "dimmed", (chosen.includes(name) || isHere && params.get("period") === name) && "chosen",
        ];
        return (
          <button key={name} type="button" className={classes.filter(Boolean).join(" ")} style={value === null ? undefined : shareStyle(value / most)} data-period={name} aria-label={label} title={label}
            tabIndex={name === stop ? 0 : -1} aria-pressed={chosen.length ? chosen.includes(name) : undefined} onClick={(event) => { click(name, event); }}>
            {measure ? null : <Sign state={period.state} size={13} />}
          </button>
        );
      })}
    </div>
  );
});

function next(key: string, from: number, count: number, longer: number): number | undefined {
  const to = { ArrowRight: from + 1, ArrowLeft: from - 1, ArrowUp: from - longer, ArrowDown: from + longer, Home: 0, End: count - 1 }[key];
  return to === undefined ? undefined : Math.max(0, Math.min(count - 1, to));
}
