// A table of figures. It scrolls by itself where the page is narrow, also by keyboard.
import { Box, Table } from "@chakra-ui/react";
import { useEffect, useRef, useState, type ReactNode } from "react";

// Longer names of columns get room for two or three lines, however narrow the page is.
const LONG_NAME = 14;

export type Column = readonly [name: string, kind?: "number"];

// Whether there is more to the right than is to be seen.
function useRest() {
  const ref = useRef<HTMLDivElement>(null);
  const [hasRest, setRest] = useState(false);
  const look = () => {
    const box = ref.current;
    setRest(box !== null && box.scrollWidth - box.clientWidth - box.scrollLeft > 1);
  };
  useEffect(() => {
    const observer = new ResizeObserver(look);
    const box = ref.current;
    [box, box?.firstElementChild].forEach((each) => { if (each) observer.observe(each); });
    return () => { observer.disconnect(); };
  }, []);
  return { ref, hasRest, look };
}

const FADED = "linear-gradient(to right, black calc(100% - 3rem), transparent)";

export function Figures({ name, columns, rows }: { name: string; columns: readonly Column[]; rows: readonly (readonly ReactNode[])[] }) {
  const { ref, hasRest, look } = useRest();
  return (
    <Box ref={ref} role="region" aria-label={name} tabIndex={0} overflowX="auto" borderWidth={1} rounded="md" width="fit-content" maxW="100%"
      focusVisibleRing="outside" onScroll={look} style={hasRest ? { maskImage: FADED } : undefined}>
      <Table.Root size="sm" variant="line" width="auto">
        <Table.Header>
          <Table.Row bg="bg.muted">
            {columns.map(([text, kind], index) => (
              <Table.ColumnHeader key={`${text}-${index}`} scope="col" textAlign={kind ? "end" : "start"} color="fg.muted"
                fontWeight="medium" verticalAlign="bottom" minW={text.length > LONG_NAME ? "8rem" : "4.5rem"}>{text}</Table.ColumnHeader>
            ))}
          </Table.Row>
        </Table.Header>
        <Table.Body>
          {rows.map((cells, line) => (
            <Table.Row key={line} _last={{ "& > *": { borderBottomWidth: 0 } }}>
              {cells.map((cell, index) => {
                const kind = columns[index]?.[1];
                return (
                  <Table.Cell key={index} {...(index ? {} : { as: "th" as const, scope: "row" })} fontWeight={index ? undefined : "medium"}
                    textAlign={kind ? "end" : "start"} whiteSpace={kind ? "nowrap" : undefined} verticalAlign="top"
                    fontVariantNumeric={kind ? "tabular-nums" : undefined} className={kind}>{cell}</Table.Cell>
                );
              })}
            </Table.Row>
          ))}
        </Table.Body>
      </Table.Root>
    </Box>
  );
}
