// One of a few things to choose, as Airflow's groups of buttons look; where the page is narrow, they scroll by themselves.
import { Box, SegmentGroup } from "@chakra-ui/react";

interface Props {
  label: string;
  value: string;
  items: Record<string, string>;
  isSmall?: boolean;
  choose: (value: string | null) => void;
}

export function Segments({ label, value, items, isSmall = false, choose }: Props) {
  return (
    <Box maxW="100%" overflowX="auto" pe="1px">
      <SegmentGroup.Root size={isSmall ? "xs" : { base: "xs", sm: "sm" }} value={value} aria-label={label}
        bg="transparent" boxShadow="inset 0 0 0 1px {colors.border}"
        onValueChange={({ value: chosen }) => { choose(chosen); }}>
        <SegmentGroup.Items items={Object.entries(items).map(([each, text]) => ({ value: each, label: text }))}
          _checked={{ bg: "brand.solid", color: "brand.contrast" }} />
      </SegmentGroup.Root>
    </Box>
  );
}
