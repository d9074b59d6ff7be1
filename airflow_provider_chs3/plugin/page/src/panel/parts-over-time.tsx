// How many parts a period has had in the last days: loads bring them, merges make them fewer.
import { Box, Flex, Text } from "@chakra-ui/react";
import { useParts, type PeriodPlace } from "../api/queries";
import { age, count, number, time } from "../model/format";
import { beginOf, MINUTE, pathOf, silentOf, totalOf } from "../model/parts";
import { Faint, Section } from "../ui/parts";
import { useZone } from "../ui/zone";

// Stretched to the width that there is; labels are beside it, so that they are not.
const [WIDTH, HEIGHT, MARGIN] = [480, 72, 2];

export function PartsOverTime({ place }: { place: PeriodPlace }) {
  const { data } = useParts(place);
  const zone = useZone();
  if (!data || data.begun_at === null || data.now === null) {
    return data?.error ? <Section title="Parts over time"><Faint>{data.error}</Faint></Section> : null;
  }
  const { begun_at: begun, now, nodes } = data;
  const points = totalOf(nodes);
  const from = beginOf(points.slice(1).map(([at]) => at), begun, now);
  const most = Math.max(1, ...points.map(([, parts]) => parts));
  const x = (at: number) => (WIDTH * (Math.max(at, from) - from)) / (now - from);
  const y = (parts: number) => MARGIN + (HEIGHT - 2 * MARGIN) * (1 - parts / most);
  const last = points.at(-1)?.[1] ?? 0;
  const when = (at: number) => time(new Date(at * 1_000), zone).slice(0, 16);
  const known = points[0]?.[0] ?? begun;
  const span = known - begun > MINUTE ? `since ${when(known)}, when the log begins` : `in ${age(now - begun)}`;
  const summary = `${count(last, "part")} now, max ${number(most)} ${span}`;
  return (
    <Section title="Parts over time" aside={points.length ? <Text fontSize="sm" color="fg.muted">{summary}</Text> : undefined}>
      {points.length ? (
        <Box display="grid" gridTemplateColumns="max-content 1fr" columnGap={2} color="fg.muted" fontSize="xs" lineHeight="1"
          css={{ "& path": { vectorEffect: "non-scaling-stroke", fill: "none", stroke: "currentColor" } }}>
          <Flex direction="column" justify="space-between" align="end" my="-5px"><span>{number(most)}</span><span>0</span></Flex>
          <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width="100%" height={HEIGHT} preserveAspectRatio="none" role="img" aria-label={`Parts over time: ${summary}`}>
            <path d={`M0 ${y(most)}H${WIDTH}M0 ${y(0)}H${WIDTH}`} strokeOpacity={0.3} />
            <Box asChild color="blue.solid"><path d={pathOf(points, x, y, now)} strokeWidth={2} /></Box>
          </svg>
          <Flex gridColumn={2} justify="space-between" mt={2}><span>{when(from)}</span><span>{when(now)}</span></Flex>
        </Box>
      ) : null}
      {[...silentOf(nodes)].map(([error, names]) => <Faint key={error}>Without {names.join(", ")}: {error}</Faint>)}
    </Section>
  );
}
