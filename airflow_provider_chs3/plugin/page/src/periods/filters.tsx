// How many periods are in which state, and what of the list is shown.
import { Button, Flex, Input, NativeSelect, Text } from "@chakra-ui/react";
import type { ConnectionPeriods, State } from "../api/types";
import { compareNames, count, number } from "../model/format";
import { withChosen, type Options, type TableRow } from "../model/fleet";
import { ORDER, STATES } from "../model/states";
import { Square } from "../ui/sign";
import { Segments } from "../ui/segments";
import { useAddress } from "../ui/url";

// The names of more states do not fit into a line of 1160 pixels.
const MOST_NAMED = 9;

// The counts explain the signs, too.
export function StateChips({ counts, chosen }: { counts: ReadonlyMap<State, number>; chosen: ReadonlySet<State> }) {
  const { change } = useAddress();
  const toggle = (state: State) => {
    const next = new Set(chosen);
    if (!next.delete(state)) {
      next.add(state);
    }
    change({ states: [...next].join(",") });
  };
  const states = ORDER.filter((state) => counts.has(state) || chosen.has(state));
  return (
    <Flex gap={1.5} wrap="wrap" role="group" aria-label="States">
      {states.map((state) => (
        <Button key={state} size="xs" px={2} variant={chosen.has(state) ? "solid" : "outline"} colorPalette={chosen.has(state) ? "brand" : "gray"}
          fontWeight="normal" aria-pressed={chosen.has(state)} title={`${STATES[state].label}: ${STATES[state].means}`} onClick={() => { toggle(state); }}>
          <Square state={state} />
          <Text as="span" fontWeight="bold" fontVariantNumeric="tabular-nums">{number(counts.get(state) ?? 0)}</Text>
          <Text as="span" srOnly={states.length > MOST_NAMED}>{STATES[state].short ?? STATES[state].label}</Text>
        </Button>
      ))}
    </Flex>
  );
}

interface Choice {
  name: string;
  label: string;
  all: string;
  options: Options;
}

function Chooser({ name, label, all, options }: Choice) {
  const { params, change } = useAddress();
  const chosen = params.get(name) ?? "";
  return (
    <NativeSelect.Root size="sm" width="auto" minW="8rem" maxW="16rem">
      <NativeSelect.Field aria-label={label} value={chosen}
        onChange={(event) => { change({ [name]: event.currentTarget.value }, { replace: true }); }}>
        <option value="">{all}</option>
        {withChosen(options, chosen).map(([value, text]) => <option key={value} value={value}>{text}</option>)}
      </NativeSelect.Field>
      <NativeSelect.Indicator />
    </NativeSelect.Root>
  );
}

const named = (names: Iterable<string>) => [...new Set(names)].sort(compareNames).map((name) => [name, name] as const);
const SORTS = [["name", "By name"], ["rows", "By rows"], ["newest", "By newest period"]] as const;
const STRIPS = { state: "State", rows: "Rows", duration: "Duration" };

export function Filters({ tables, connections, shown }: {
  tables: readonly TableRow[]; connections: readonly ConnectionPeriods[]; shown: number | null;
}) {
  const { params, change } = useAddress();
  const choices: Choice[] = [
    { name: "connection", label: "Connection", all: "All connections", options: named(connections.map((seen) => seen.conn_id)) },
    { name: "in_database", label: "Database", all: "All databases", options: named(tables.map((table) => table.database)) },
    { name: "dag", label: "DAG", all: "All DAGs", options: named(tables.flatMap((table) => table.dags)) },
  ];
  return (
    <Flex gap={3} wrap="wrap" align="center" role="search" aria-label="Tables">
      <Input size="sm" width="14rem" maxW="100%" type="search" placeholder="Search tables" aria-label="Search tables"
        value={params.get("search") ?? ""}
        onChange={(event) => { change({ search: event.currentTarget.value }, { replace: true }); }} />
      {choices.filter(({ name, options }) => options.length > 1 || params.get(name)).map((choice) => <Chooser key={choice.name} {...choice} />)}
      {tables.length > 1 ? <Chooser name="sort" label="Sort" all="By urgency" options={SORTS} /> : null}
      <Text fontSize="sm" color="fg.muted" flex="1" whiteSpace="nowrap">
        {shown === null ? "" : shown === tables.length ? count(shown, "table") : `${number(shown)} of ${count(tables.length, "table")}`}
      </Text>
      <Segments label="Strips show" value={params.get("strip") ?? "state"} items={STRIPS} isSmall
        choose={(value) => { change({ strip: value === "state" ? null : value }, { replace: true }); }} />
    </Flex>
  );
}
