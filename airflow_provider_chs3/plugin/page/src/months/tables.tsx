// All tables, one a row. Only the rows in view are in the document, and of their strips the months that fit.
import { Box, Button, Flex, Text } from "@chakra-ui/react";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { State } from "../api/types";
import { axisLabel, monthsBetween, nameOf, rowsOf, type TableRow } from "../model/fleet";
import { compact } from "../model/format";
import { useAddress } from "../ui/url";
import { CELL_PIXELS, STRIP_STYLES, Strip } from "./strip";

const NAME_PIXELS = 260;
const ROWS_PIXELS = 84;
const NARROW_PIXELS = 700;
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

export function Tables({ tables, all, states }: { tables: TableRow[]; all: readonly TableRow[]; states: ReadonlySet<State> }) {
  const { ref, width } = useWidth();
  const isNarrow = width < NARROW_PIXELS;
  const room = isNarrow ? width - 24 : width - NAME_PIXELS - ROWS_PIXELS - 48;
  const fits = Math.max(6, Math.floor(room / CELL_PIXELS));
  const months = useMemo(() => monthsBetween(all), [all]);
  const [back, setBack] = useState(0);
  const end = months.length - Math.min(back, Math.max(0, months.length - fits));
  const shown = months.slice(Math.max(0, end - fits), end);
  const move = (by: number) => { setBack(Math.max(0, Math.min(months.length - fits, back + by))); };
  return (
    <Box ref={ref} css={STRIP_STYLES} borderWidth={1} rounded="lg" overflow="clip" role="group" aria-label="All tables">
      <Axis months={shown} isNarrow={isNarrow} move={move} step={Math.max(1, fits - 1)} hasEarlier={end > fits} hasLater={end < months.length} />
      {width ? <Rows tables={tables} months={shown} isNarrow={isNarrow} states={states} /> : null}
      {tables.length ? null : <Text px={4} py={6} color="fg.muted">No table matches these filters.</Text>}
    </Box>
  );
}

function Axis({ months, isNarrow, move, step, hasEarlier, hasLater }: {
  months: readonly string[]; isNarrow: boolean; move: (by: number) => void; step: number; hasEarlier: boolean; hasLater: boolean;
}) {
  return (
    <Flex px={3} py={1.5} bg="bg.subtle" borderBottomWidth={1} align="center" justify="space-between" fontSize="xs" color="fg.muted" gap={2} wrap={isNarrow ? "wrap" : "nowrap"}>
      <Flex gap={1} flex={isNarrow ? "1 1 100%" : "1"} minW={isNarrow ? 0 : `${NAME_PIXELS}px`} align="center" justify="space-between">
        {isNarrow ? null : <Text fontWeight="medium" flex="1">Table</Text>}
        <Button size="2xs" variant="ghost" disabled={!hasEarlier} onClick={() => { move(step); }} aria-label="Earlier months">‹ earlier</Button>
        <Button size="2xs" variant="ghost" disabled={!hasLater} onClick={() => { move(-step); }} aria-label="Later months">later ›</Button>
      </Flex>
      <Flex aria-hidden position="relative" className="axis">
        {months.map((month, index) => (
          <span key={month}>{axisLabel(months, index)}</span>
        ))}
      </Flex>
      {isNarrow ? null : <Text width={`${ROWS_PIXELS}px`} textAlign="end" fontWeight="medium">Rows</Text>}
    </Flex>
  );
}

function Rows({ tables, months, isNarrow, states }: { tables: TableRow[]; months: readonly string[]; isNarrow: boolean; states: ReadonlySet<State> }) {
  const list = useRef<HTMLDivElement>(null);
  const [margin, setMargin] = useState(0);
  const page = () => list.current?.closest<HTMLElement>("[data-chs3=page]") ?? null;
  const size = isNarrow ? ROW_PIXELS.narrow : ROW_PIXELS.wide;
  // eslint-disable-next-line react-hooks/incompatible-library -- this component is not compiled
  const rows = useVirtualizer({
    count: tables.length, getScrollElement: page, estimateSize: () => size, overscan: 6, scrollMargin: margin,
    getItemKey: (index) => tables[index]?.key ?? index,
  });
  useEffect(() => { rows.measure(); }, [rows, size]);
  useLayoutEffect(() => {
    const [own, around] = [list.current?.getBoundingClientRect(), page()];
    if (own && around) {
      setMargin(own.top - around.getBoundingClientRect().top + around.scrollTop);
    }
  }, [tables, months]);
  return (
    <Box ref={list} position="relative" style={{ height: rows.getTotalSize() }} role="list" aria-label="Tables">
      {rows.getVirtualItems().map((item) => {
        const table = tables[item.index];
        return table ? (
          <div key={item.key} role="listitem" className={isNarrow ? "row narrow" : "row"} style={{ height: size, transform: `translateY(${item.start - margin}px)` }}>
            <Row table={table} months={months} isNarrow={isNarrow} states={states} />
          </div>
        ) : null;
      })}
    </Box>
  );
}

function Row({ table, months, isNarrow, states }: { table: TableRow; months: readonly string[]; isNarrow: boolean; states: ReadonlySet<State> }) {
  const { params } = useAddress();
  const name = nameOf(table);
  const where = table.connIds.join(", ");
  return (
    <>
      <div className="name" title={`${name}, connection ${where}${table.cluster ? `, cluster ${table.cluster}` : ""}`}>
        <h3>{name}</h3>
        <small>{table.connIds.length > 1 || params.has("connection") || isNarrow ? where : ""}</small>
      </div>
      <Strip table={table} months={months} states={states} shows={params.get("strip") ?? "state"} />
      {isNarrow ? null : <div className="total">{compact(rowsOf(table))}</div>}
    </>
  );
}
