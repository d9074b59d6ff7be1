// Loads of the last day that took longer than usual: their periods are right, so they stand below all that is not.
import { Button, Text } from "@chakra-ui/react";
import { useRecentSpeed } from "../api/queries";
import type { ConnectionSpeed, LoadSpeed } from "../api/types";
import { nameOf, type TableRow } from "../model/fleet";
import { count } from "../model/format";
import type { Place } from "../model/place";
import { meanwhile, slowOf, spellsOf, tablesIn } from "../model/slow";
import { Time } from "../ui/parts";
import { StateTag } from "../ui/sign";
import { useAddress } from "../ui/url";
import { Entry } from "./entry";

export interface SlowLoads {
  seen: ConnectionSpeed;
  loads: LoadSpeed[];
}

// Of each cluster that has some.
export function useSlowLoads(place: Place, tables: readonly TableRow[]): SlowLoads[] {
  const { data } = useRecentSpeed(place);
  const names = new Set(tables.map(nameOf));
  return (data?.connections ?? [])
    .map((seen) => ({ seen, loads: slowOf(seen.loads, seen.seen_at ?? 0, names) }))
    .filter(({ loads }) => loads.length);
}

// In one row, however many there are; of several spells, it is about the newest.
export function Slow({ slow: { seen, loads } }: { slow: SlowLoads }) {
  const { change } = useAddress();
  const [newest, ...earlier] = spellsOf(loads);
  const [first, ...more] = newest?.loads ?? [];
  if (!newest || !first) {
    return null;
  }
  const besides = meanwhile(newest, seen.loads);
  const before = earlier.reduce((sum, spell) => sum + spell.loads.length, 0);
  return (
    <Entry label="Slow loads" tag={<StateTag state="late" name="slow" />} head={(
      <>
        <Text fontWeight="semibold">{count(loads.length, "load")} slower than usual</Text>
        <Text fontSize="sm" color="fg.muted"><Time at={new Date(newest.from * 1_000)} part="minute" />–<Time at={new Date(newest.to * 1_000)} part="minute" /></Text>
      </>
    )} buttons={<Button size="xs" variant="outline" onClick={() => { change({ view: "throughput", days: null }); }}>Show loads</Button>}>
      <Text fontSize="sm" overflowWrap="anywhere">
        {more.length ? `Of ${tablesIn(newest.loads)}.` : `${first.database}.${first.table} ${first.period}: ${first.why_slow}`}
        {besides ? ` ${besides}` : ""}{before ? ` ${count(before, "other was", "others were")} slow earlier that day.` : ""}
      </Text>
    </Entry>
  );
}
