// How many parts a month has had in the last days: loads bring them, merges make them fewer.
import { Box, Text } from "@chakra-ui/react";
import { useParts, type MonthPlace } from "../api/queries";
import { age, count, number, time } from "../model/format";
import { beginOf, MINUTE, pathOf, silentOf, totalOf } from "../model/parts";
import { Faint, Section } from "../ui/parts";
import { useZone } from "../ui/zone";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [480, 96, 34, 16, 8];

export function PartsOverTime({ place }: { place: MonthPlace }) {
  const { data } = useParts(place);
  const zone = useZone();
  if (!data || data.begun_at === null || data.now === null) {
    return data?.error ? <Section title="Parts over time"><Faint>{data.error}</Faint></Section> : null;
  }
  const { begun_at: begun, now, nodes } = data;
  const points = totalOf(nodes);
  const from = beginOf(points.slice(1).map(([at]) => at), begun, now);
  const most = Math.max(1, ...points.map(([, parts]) => parts));
  const x = (at: number) => LEFT + ((WIDTH - LEFT) * (Math.max(at, from) - from)) / (now - from);
  const y = (parts: number) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - parts / most);
  const last = points.at(-1)?.[1] ?? 0;
  const when = (at: number) => time(new Date(at * 1_000), zone).slice(0, 16);
  const known = points[0]?.[0] ?? begun;
  const span = known - begun > MINUTE ? `since ${when(known)}, when the log begins` : `in ${age(now - begun)}`;
  const told = `${count(last, "part")} now, at most ${number(most)} ${span}`;
  return (
    <Section title="Parts over time" aside={points.length ? <Text fontSize="sm" color="fg.muted">{told}</Text> : undefined}>
      {points.length ? (
        <Box color="fg.muted" css={{ "& text": { fontSize: "11px", fill: "currentColor" } }}>
          <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width="100%" role="img" aria-label={`Parts over time: ${told}`}>
            <path d={`M${LEFT} ${y(most)}H${WIDTH}M${LEFT} ${y(0)}H${WIDTH}`} stroke="currentColor" strokeOpacity={0.3} fill="none" />
            <Box asChild color="blue.solid"><path d={pathOf(points, x, y, now)} stroke="currentColor" strokeWidth={2} fill="none" /></Box>
            <text x={LEFT - 5} y={y(most) + 4} textAnchor="end">{number(most)}</text>
            <text x={LEFT - 5} y={y(0) + 4} textAnchor="end">0</text>
            <text x={LEFT} y={HEIGHT - 2}>{when(from)}</text>
            <text x={WIDTH} y={HEIGHT - 2} textAnchor="end">{when(now)}</text>
          </svg>
        </Box>
      ) : null}
      {[...silentOf(nodes)].map(([error, names]) => <Faint key={error}>Without {names.join(", ")}: {error}</Faint>)}
    </Section>
  );
}
