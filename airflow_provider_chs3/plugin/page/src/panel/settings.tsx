// The settings of a load, folded, with their reasons; the API gives the computed ones first.
import { Box } from "@chakra-ui/react";
import type { Setting } from "../api/types";
import { count } from "../model/format";
import { Figures } from "../ui/figures";
import { Section } from "../ui/parts";

export function Settings({ settings }: { settings: readonly Setting[] }) {
  const rows = settings.map(({ name, value, reason }) => [name, String(value), reason]);
  return (
    <Section title="Settings">
      <details>
        <Box as="summary" cursor="pointer" mb={2} fontSize="sm">{count(settings.length, "setting")}, with reasons</Box>
        <Figures name="Settings" columns={[["Setting"], ["Value", "number"], ["Reason"]]} rows={rows} />
      </details>
    </Section>
  );
}
