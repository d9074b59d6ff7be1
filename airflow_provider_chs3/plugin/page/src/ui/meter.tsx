// How much of something is used or done: a bar, and the share in figures.
import { Flex, Progress, Text } from "@chakra-ui/react";
import { percent } from "../model/format";

// Of what fills up, so much is worth a look, and so much is urgent.
const [MUCH, VERY_MUCH] = [0.75, 0.9];

function colour(share: number, isProgress: boolean): string {
  if (isProgress || share < MUCH) {
    return "blue";
  }
  return share < VERY_MUCH ? "orange" : "red";
}

export function Meter({ part, whole, label, isProgress = false }: { part: number; whole: number; label: string; isProgress?: boolean }) {
  const share = whole ? Math.min(1, part / whole) : 0;
  return (
    <Flex gap={2} align="center" justify="end" display="inline-flex" verticalAlign="top">
      {whole ? (
        <Progress.Root value={100 * share} max={100} size="xs" width="5rem" aria-label={label} colorPalette={colour(share, isProgress)}>
          <Progress.Track><Progress.Range /></Progress.Track>
        </Progress.Root>
      ) : null}
      <Text as="span" minW="2.5rem" textAlign="end">{percent(Math.min(part, whole), whole)}</Text>
    </Flex>
  );
}
