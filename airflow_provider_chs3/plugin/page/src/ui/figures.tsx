// A table of figures. It scrolls by itself where the page is narrow, also by keyboard.
import { Box, Table } from "@chakra-ui/react";
import type { ReactNode } from "react";

// Longer names of columns get room for two or three lines, however narrow the page is.
const LONG_NAME = 14;

export type Column = readonly [name: string, kind?: "number"];

export function Figures({ name, columns, rows }: { name: string; columns: readonly Column[]; rows: readonly (readonly ReactNode[])[] }) {
  return (
    <Box role="region" aria-label={name} tabIndex={0} overflowX="auto" borderWidth={1} rounded="md"
      focusVisibleRing="outside">
      <Table.Root size="sm" variant="line">
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
