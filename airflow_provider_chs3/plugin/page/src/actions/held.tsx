// What an approval publishes, and a discard drops: rows of which periods, since when they are held, why, and in place of what.
import { Text } from "@chakra-ui/react";
import type { PeriodRow } from "../api/types";
import { number, parseUtc } from "../model/format";
import { namesOf } from "../model/needs";
import { sentence } from "../periods/text";
import { Ago, Facts, UtcTime } from "../ui/parts";
import { arrivalsOf, heldOf, type Subject } from "./kinds";

// Further causes are in the panels of their periods.
const MOST_CAUSES = 3;

export function HeldRows({ subject }: { subject: Subject }) {
  const held = heldOf(subject);
  const arrivals = arrivalsOf(subject);
  const [since = ""] = held.map((each) => each.since).sort();
  const causes = [...new Set(held.map(({ why }) => why))];
  const { task } = subject.period;
  const sumOf = (rows: (period: PeriodRow) => number) => number(held.reduce((sum, each) => sum + rows(each), 0));
  return (
    <Facts rows={[
      arrivals.length > 0 && [arrivals.length > 1 ? "Arrivals" : "Arrival", arrivals.join(", ")],
      (held.length > 1 || arrivals.length > 0) && [held.length > 1 ? "Periods" : "Period", namesOf(held)],
      ["Held since", <><UtcTime key="at" text={since} />, <Ago seconds={parseUtc(since).getTime() / 1_000} /></>],
      task !== null && ["Held by", `DAG ${task.dag_id}, task ${task.task_id}`],
      ["Why", causes.slice(0, MOST_CAUSES).map((why) => <Text key={why} lineClamp={3} title={why}>{sentence(why)}</Text>)],
      ["Held rows", sumOf((each) => each.held_rows)],
      ["Rows in the table", sumOf(({ rows }) => rows)],
    ]} />
  );
}
