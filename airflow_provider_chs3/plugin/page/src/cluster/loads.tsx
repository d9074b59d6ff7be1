// The loads that are running on a cluster.
import { Box, Text } from "@chakra-ui/react";
import type { ConnectionNodes } from "../api/types";
import { bytes, duration, number, rate } from "../model/format";
import { Figures } from "../ui/figures";
import { TaskLink } from "../ui/links";
import { Meter } from "../ui/meter";
import { Faint, Section } from "../ui/parts";

type RunningLoad = ConnectionNodes["loads"][number];

function row({ table, period, task, insert, total_rows: total }: RunningLoad) {
  const what = [
    table ?? "in no ledger that was read", <Text key="period" whiteSpace="nowrap">{period}</Text>,
    task ? <Box key="task" minW="14rem"><TaskLink task={task} /></Box> : "",
  ];
  if (!insert) {
    return [...what, "between two queries", "", "", "", "", ""];
  }
  return [
    ...what, total ? `${number(insert.read_rows)} of ${number(total)}` : number(insert.read_rows),
    total ? <Meter key="done" part={insert.read_rows} whole={total} label="Progress" isProgress /> : "",
    rate(insert.rows_per_second), bytes(insert.read_bytes), duration(insert.seconds), bytes(insert.peak_memory_bytes),
  ];
}

export function RunningLoads({ loads }: { loads: readonly RunningLoad[] }) {
  return (
    <Section title="Running loads">
      {loads.length ? (
        <Figures name="Running loads" rows={loads.map(row)} columns={[["Table"], ["Period"], ["Task"], ["Rows read", "number"], ["Share read", "number"],
          ["Speed", "number"], ["Bytes read", "number"], ["Running for", "number"], ["Peak memory per node", "number"]]} />
      ) : <Faint>None.</Faint>}
    </Section>
  );
}
