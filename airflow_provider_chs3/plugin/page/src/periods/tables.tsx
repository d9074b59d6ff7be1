// All tables, one a row. Only the rows in view are in the document, and of their strips the periods that fit.
import { Box, Text } from "@chakra-ui/react";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { Freshness, State } from "../api/types";
import { byGrain, isGap, madeOf, nameOf, nested, periodsBetween, rowsOf, type TableRow } from "../model/fleet";
import { age, compact, count, parseUtc } from "../model/format";
import { extentOf, isLowerBound, measureOf, rangeText } from "../model/measures";
import { nameOfPeriod, type Grain } from "../model/period";
import { DagLink } from "../ui/links";
import { Ago, Time } from "../ui/parts";
import { untilsIn, useAddress } from "../ui/url";
import { useNow } from "../ui/zone";
import { Axis } from "./axis";
import { layoutOf, type Layout } from "./layout";
import { STRIP_STYLES, Strip } from "./strip";
import { withoutText } from "./text";

// Where not all periods are known, an answer has so many.
const MOST_READ = 64;
const INDENT_PIXELS = 16;
const ROW_PIXELS = { wide: 40, narrow: 72 };

function useWidth() {
  const ref = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => { setWidth(entry?.contentRect.width ?? 0); });
    if (ref.current) {
      observer.observe(ref.current);
    }
    return () => { observer.disconnect(); };
  }, []);
  return { ref, width };
}

// Tables by day, by month and whole ones stand in lists of their own: their periods share no axis.
export function Tables({ tables, all, axis, states }: {
  tables: TableRow[]; all: readonly TableRow[]; axis: readonly string[]; states: ReadonlySet<State>;
}) {
  const lists = useMemo(() => byGrain(all).map(([grain, those]) => ({ grain, those, shown: tables.filter((table) => those.includes(table)) })), [tables, all]);
  const shown = tables.length ? lists.filter((list) => list.shown.length) : lists.slice(0, 1);
  return shown.map((list) => (
    <TablesOfGrain key={list.grain} tables={list.shown} all={list.those} axis={axis} states={states} title={lists.length > 1 ? TITLES[list.grain] : "Table"} />
  ));
}

const TITLES: Record<Grain, string> = {
  hour: "Tables by hour", day: "Tables by day", week: "Tables by week", month: "Tables by month", quarter: "Tables by quarter",
  year: "Tables by year", table: "Whole tables",
};

function TablesOfGrain({ tables, all, axis, states, title }: {
  tables: TableRow[]; all: readonly TableRow[]; axis: readonly string[]; states: ReadonlySet<State>; title: string;
}) {
  const { ref, width } = useWidth();
  const { params, change } = useAddress();
  const measure = measureOf(params.get("strip") ?? "");
  const periods = useMemo(() => periodsBetween(all, axis), [all, axis]);
  const { fits: room, ...columns } = layoutOf(width, periods.length, measure, all.some(({ freshness }) => freshness));
  const fits = all.some(({ unread }) => unread.published) ? Math.min(room, MOST_READ) : room;
  const untils = untilsIn(params);
  const until = periods.findLastIndex((name) => untils.includes(name));
  const end = until < 0 ? periods.length : Math.max(Math.min(fits, periods.length), until + 1);
  const layout = { ...columns, periods: periods.slice(Math.max(0, end - fits), end) };
  const step = Math.max(1, fits - 1);
  const move = (by: number) => {
    const to = Math.max(fits, end - by);
    const last = periods.slice(0, to).findLast((name) => !isGap(name));
    const others = untils.filter((name) => !periods.includes(name));
    change({ until: [...others, ...(to < periods.length && last !== undefined ? [last] : [])].join(",") }, { replace: true });
  };
  return (
    <Box ref={ref} css={STRIP_STYLES} borderWidth={1} rounded="lg" overflow="clip" role="group" aria-label={title === "Table" ? "All tables" : title}>
      <Axis title={title} layout={layout} earlier={end > fits ? () => { move(step); } : null} later={end < periods.length ? () => { move(-step); } : null} />
      {width ? <Rows tables={tables} layout={layout} states={states} /> : null}
      {tables.length ? null : <Text px={4} py={6} color="fg.muted">No table matches these filters.</Text>}
    </Box>
  );
}

function Rows({ tables: unordered, layout, states }: { tables: TableRow[]; layout: Layout; states: ReadonlySet<State> }) {
  const tables = useMemo(() => nested(unordered), [unordered]);
  const { isNarrow, columns } = layout;
  const list = useRef<HTMLDivElement>(null);
  const [margin, setMargin] = useState(0);
  const page = () => list.current?.closest<HTMLElement>("[data-chs3=page]") ?? null;
  const size = isNarrow ? ROW_PIXELS.narrow : ROW_PIXELS.wide;
  // eslint-disable-next-line react-hooks/incompatible-library -- this component is not compiled
  const rows = useVirtualizer({
    count: tables.length, getScrollElement: page, estimateSize: () => size, overscan: 6, scrollMargin: margin,
    getItemKey: (index) => tables[index]?.table.key ?? index,
  });
  useEffect(() => { rows.measure(); }, [rows, size]);
  useLayoutEffect(() => {
    const [own, around] = [list.current?.getBoundingClientRect(), page()];
    if (own && around) {
      setMargin(own.top - around.getBoundingClientRect().top + around.scrollTop);
    }
  }, [tables, layout]);
  return (
    <Box ref={list} position="relative" style={{ height: rows.getTotalSize() }} role="list" aria-label="Tables">
      {rows.getVirtualItems().map((item) => {
        const row = tables[item.index];
        return row ? (
          <div key={item.key} role="listitem" className={isNarrow ? "row narrow" : "row"} style={{ height: size, gridTemplateColumns: columns, transform: `translateY(${item.start - margin}px)` }}>
            <Row {...row} layout={layout} states={states} />
          </div>
        ) : null;
      })}
    </Box>
  );
}

function Row({ table, depth, layout: { periods, measure, isNarrow, hasDag, hasDue }, states }: {
  table: TableRow; depth: number; layout: Layout; states: ReadonlySet<State>;
}) {
  const { params } = useAddress();
  const name = nameOf(table);
  const origin = madeOf(table);
  const where = table.connIds.join(", ");
  const extent = measure && extentOf([table], measure);
  const bound = (measure ? isLowerBound(table, measure) : table.missedNodes.length) ? "≥ " : "";
  return (
    <>
      <div className="name" title={`${name}, connection ${where}${table.cluster ? `, cluster ${table.cluster}` : ""}${origin ? `. ${origin}` : ""}`}>
        {depth ? <span aria-hidden className="below" style={{ marginInlineStart: `${(depth - 1) * INDENT_PIXELS}px` }}>↳</span> : null}
        <h3>{name}</h3>
        {origin ? <small className="origin">{table.view ? `by ${table.view}` : "derived"}<Box as="span" srOnly>: {origin}</Box></small> : null}
        <small>{table.connIds.length > 1 || params.has("connection") || isNarrow ? where : ""}</small>
      </div>
      {hasDag ? <Dags dags={table.dags} /> : null}
      {isNarrow ? null : <div className="fact"><LastPublished table={table} /></div>}
      {hasDue ? <div className="fact">{table.freshness ? <FreshUntil {...table.freshness} /> : "–"}</div> : null}
      <Strip table={table} periods={periods} states={states} measure={measure} />
      {isNarrow ? null : (
        <div className="total" title={measure || table.areSome ? "" : `${count(rowsOf(table), "row")}${withoutText(table.missedNodes)}`}>
          {measure ? extent && `${bound}${rangeText(extent, measure.short)}` : table.areSome ? "…" : `${bound}${compact(rowsOf(table))}`}
        </div>
      )}
    </>
  );
}

function FreshUntil({ due_at: seconds, next_period: next, fresh_by: by }: Freshness) {
  const now = useNow();
  const isLate = now >= seconds;
  return (
    <Box as="span" color={isLate ? "orange.fg" : undefined} fontWeight={isLate ? "medium" : undefined} title={`${nameOfPeriod(next)} is due by ${by}`}>
      {isLate ? `${age(now - seconds)} late` : <Time at={new Date(seconds * 1_000)} part="dayAndMinute" />}
    </Box>
  );
}

function Dags({ dags }: Pick<TableRow, "dags">) {
  const [dag, ...more] = dags;
  return (
    <div className="fact" title={dags.join(", ")}>
      {dag === undefined ? "–" : <DagLink dagId={dag} />}{more.length ? ` and ${more.length} more` : ""}
    </div>
  );
}

function LastPublished({ table: { periods, unread } }: { table: TableRow }) {
  const newest = periods.reduce((last, { published_at: at }) => (at > last ? at : last), unread.published_at);
  return newest ? <Ago seconds={parseUtc(newest).getTime() / 1_000} /> : "never";
}
