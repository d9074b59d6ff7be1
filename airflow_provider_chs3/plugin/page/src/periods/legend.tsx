// What the bars of a strip mean: their unit, their scale, the least and the most of the periods that are shown.
import { Box, Flex, Text } from "@chakra-ui/react";
import type { TableRow } from "../model/fleet";
import { extentOf, isLowerBound, measureOf } from "../model/measures";
import { HEAT_STYLES, shareStyle } from "./strip";

const SHARES = [0, 0.25, 0.5, 0.75, 1];

function Cell({ kind, share }: { kind: string; share?: number }) {
  return <Box as="span" className={kind} style={share === undefined ? undefined : shareStyle(share)} display="inline-block" width="14px" height="20px" rounded="2px" />;
}

function Entry({ kind, share, text }: { kind: string; share?: number; text: string }) {
  return <Flex as="span" gap={1.5} align="center"><Cell kind={kind} {...(share === undefined ? {} : { share })} />{text}</Flex>;
}

export function Legend({ tables, shows }: { tables: readonly TableRow[]; shows: string }) {
  const measure = measureOf(shows);
  if (!measure) {
    return null;
  }
  const extent = extentOf(tables, measure);
  const bounds = tables.filter((table) => isLowerBound(table, measure));
  const bound = bounds.length ? "≥ " : "";
  return (
    <Flex css={HEAT_STYLES} role="note" aria-label="Legend" columnGap={5} rowGap={1} wrap="wrap" align="center" justify={{ md: "end" }} fontSize="sm" color="fg.muted">
      <Flex as="span" gap={2} align="center" wrap="wrap">
        <Text as="span" color="fg" fontWeight="medium">{measure.name}:</Text> 0
        <Flex as="span" gap="2px" aria-hidden>{SHARES.map((share) => <Cell key={share} kind="heat" share={share} />)}</Flex>
        the table&apos;s maximum
      </Flex>
      {bounds.length ? <Entry kind="heat least" share={0.5} text="a lower bound: a node does not answer" /> : null}
      <Entry kind="unknown" text="not measured" />
      <Entry kind="marked" text="needs attention" />
      {extent ? <Text as="span">Least {bound}{measure.text(extent.least)}, most {bound}{measure.text(extent.most)}</Text> : null}
    </Flex>
  );
}
