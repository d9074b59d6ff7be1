// The settings of a load, folded: the computed ones first, with their reasons.
import { Box } from "@chakra-ui/react";
import type { Setting } from "../api/types";
import { count } from "../model/format";
import { Figures } from "../ui/figures";
import { Section } from "../ui/parts";

export function Settings({ settings }: { settings: readonly Setting[] }) {
  const ordered = [...settings].sort((one, other) => Number(!one.reason) - Number(!other.reason));
  const rows = ordered.map(({ name, value, reason }) => [name, String(value), reason]);
  return (
    <Section title="Settings">
      <details>
        <Box as="summary" cursor="pointer" mb={2} fontSize="sm">{count(settings.length, "setting")}, with reasons</Box>
        <Figures name="Settings" columns={[["Setting"], ["Value", "number"], ["Reason"]]} rows={rows} />
      </details>
    </Section>
  );
}
