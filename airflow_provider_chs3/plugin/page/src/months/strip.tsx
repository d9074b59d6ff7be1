// The months of one table as a strip: plain buttons under one style, as there are many of them.
import { memo, useRef, useState, type CSSProperties, type KeyboardEvent } from "react";
import type { SystemStyleObject } from "@chakra-ui/react";
import type { MonthRow, State } from "../api/types";
import { nameOf, type TableRow } from "../model/fleet";
import { duration, number, orNone } from "../model/format";
import { ORDER, STATES } from "../model/states";
import { Sign } from "../ui/sign";
import { useAddress } from "../ui/url";
import { stateText } from "./text";

export const CELL_PIXELS = 22;

const token = (name: string) => (name === "transparent" ? name : name === "white" ? name : `{colors.${name}}`);

// One class for each state; cells of heat have a share of one colour.
export const STRIP_STYLES: SystemStyleObject = {
  "& .row": {
    position: "absolute", top: 0, insetInline: 0, display: "flex", alignItems: "center", gap: 2, px: 3, justifyContent: "space-between",
    borderBottomWidth: "1px", borderColor: "border.muted", flexWrap: "wrap",
    _hover: { bg: "bg.subtle" },
  },
  "& .name": { flex: "1 1 200px", minWidth: 0, display: "flex", gap: 2, alignItems: "baseline" },
  // Strips stand below their names, and so below the axis.
  "& .narrow .name": { flexBasis: "100%" },
  "& .name h3": { fontSize: "sm", fontWeight: "medium", overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap" },
  "& .name small": { fontSize: "xs", color: "fg.muted", whiteSpace: "nowrap" },
  "& .total": { width: "84px", textAlign: "end", fontSize: "sm", fontVariantNumeric: "tabular-nums", color: "fg.muted" },
  "& .strip": { display: "flex", flexShrink: 0 },
  "& .axis span": { width: `${CELL_PIXELS}px`, flexShrink: 0, overflow: "visible", whiteSpace: "nowrap" },
  "& .cell": {
    width: `${CELL_PIXELS - 2}px`, height: "24px", marginInlineEnd: "2px", borderRadius: "3px", flexShrink: 0,
    display: "inline-flex", alignItems: "center", justifyContent: "center", cursor: "pointer",
    _focusVisible: { outline: "2px solid", outlineColor: "fg", outlineOffset: "1px" },
    _hover: { filter: "brightness(0.92)" },
  },
  "& .gap": { width: `${CELL_PIXELS}px`, flexShrink: 0 },
  "& .chosen": { outline: "2px solid", outlineColor: "fg", outlineOffset: "1px" },
  "& .dimmed": { opacity: 0.3 },
  "& .published svg": { opacity: 0.55 },
  "& .heat": { background: "color-mix(in oklab, {colors.blue.solid} var(--heat), {colors.bg.muted})" },
  ...Object.fromEntries(ORDER.map((state) => [
    `& .${state}`, {
      background: token(STATES[state].fill), color: token(STATES[state].ink),
      ...(state === "never_loaded" ? { borderWidth: "1px", borderStyle: "dashed", borderColor: "border.emphasized" } : {}),
    },
  ])),
};

const MEASURES: Record<string, (month: MonthRow) => number | null> = {
  rows: (month) => month.rows,
  duration: (month) => month.insert_seconds,
};

function heatText(month: MonthRow, shows: string): string {
  return shows === "rows" ? `, ${number(month.rows)} rows` : shows === "duration" ? `, insert ${orNone(month.insert_seconds, duration)}` : "";
}

interface Props {
  table: TableRow;
  months: readonly string[];
  states: ReadonlySet<State>;
  shows: string;
}

export const Strip = memo(function Strip({ table, months, states, shows }: Props) {
  const { params, change } = useAddress();
  const strip = useRef<HTMLDivElement>(null);
  const [reached, setReached] = useState("");
  const measure = MEASURES[shows];
  const most = measure ? Math.max(1, ...table.months.map((month) => measure(month) ?? 0)) : 1;
  const there = months.filter((name) => table.byName.has(name));
  const stop = there.includes(reached) ? reached : there.at(-1);
  const isHere = params.get("table") === table.table && params.get("database") === table.database;
  const open = (month: string) => {
    change({ conn_id: table.connIds[0] ?? null, database: table.database, table: table.table, month });
  };
  const move = (event: KeyboardEvent) => {
    const to = next(event.key, there.indexOf(stop ?? ""), there.length);
    const name = to === undefined ? undefined : there[to];
    if (name !== undefined) {
      event.preventDefault();
      setReached(name);
      strip.current?.querySelector<HTMLElement>(`[data-month="${name}"]`)?.focus();
    }
  };
  return (
    <div className="strip" ref={strip} data-table={table.key} role="toolbar" tabIndex={-1} aria-label={`Months of ${nameOf(table)}`} onKeyDown={move}>
      {months.map((name) => {
        const month = table.byName.get(name);
        if (!month) {
          return <span key={name} className="gap" />;
        }
        const label = `${name}: ${stateText(month)}${heatText(month, shows)}`;
        const classes = [
          "cell", measure ? "heat" : month.state,
          states.size && !states.has(month.state) && "dimmed", isHere && params.get("month") === name && "chosen",
        ];
        const heat = measure ? ({ "--heat": `${Math.round(100 * Math.sqrt((measure(month) ?? 0) / most))}%` } as CSSProperties) : undefined;
        return (
          <button key={name} type="button" className={classes.filter(Boolean).join(" ")} style={heat} data-month={name} aria-label={label} title={label}
            tabIndex={name === stop ? 0 : -1} onFocus={() => { setReached(name); }} onClick={() => { open(name); }}>
            {measure ? null : <Sign state={month.state} size={13} />}
          </button>
        );
      })}
    </div>
  );
});

function next(key: string, from: number, count: number): number | undefined {
  const to = { ArrowRight: from + 1, ArrowLeft: from - 1, ArrowUp: from - 12, ArrowDown: from + 12, Home: 0, End: count - 1 }[key];
  return to === undefined ? undefined : Math.max(0, Math.min(count - 1, to));
}
