// A sign for each state, so that nobody has to tell colours apart.
import { Box, Tag } from "@chakra-ui/react";
import type { State } from "../api/types";
import { STATES } from "../model/states";

// Strokes in a square of 16.
const STROKES: Record<State, string> = {
  gone: "M3.5 3.5h9v9h-9zM3.5 12.5l9-9",
  stuck: "M4 4l8 8M12 4l-8 8",
  failed: "M8 3.5v5.5M8 12v.5",
  changed: "M3.5 6h9M3.5 10h9M10.5 3l-5 10",
  blocked: "M5.5 3h5l2.5 2.5v5L10.5 13h-5L3 10.5v-5zM5.5 8h5",
  differs: "M3.5 5.5c2.5-2 3 2 4.5 1s3-2 4.5-1M3.5 10.5h9",
  unfinished: "M3.5 8h2M7 8h2M10.5 8h2",
  pinned: "M6 3.5h4M7 3.5v4l-2 2h6l-2-2v-4M8 9.5v3",
  held: "M5 8V5M7.5 8V3.5M10 8V4.5M5 8v1.5c0 4 6.5 4 6.5 0V6.5",
  paused: "M6 4v8M10 4v8",
  stranded: "M8 3v6M4.5 6h7M3.5 9.5c0 3 9 3 9 0",
  overdue: "M5 3h6M5 13h6M5.5 3c0 3 2.5 4 2.5 5s-2.5 2-2.5 5M10.5 3c0 3-2.5 4-2.5 5s2.5 2 2.5 5",
  late: "M8 4v4.5l3 2M13.5 8a5.5 5.5 0 1 1-11 0a5.5 5.5 0 1 1 11 0",
  changed_in_storage: "M8 3.5l5 9H3z",
  stale: "M8 3v5M5.5 5.5L8 3l2.5 2.5M3.5 12.5h9",
  too_many_parts: "M4 4h3v3H4zM9 4h3v3H9zM4 9h3v3H4zM9 9h3v3H9z",
  merges_wait: "M4 4h3v3H4zM9 4h3v3H9zM3.5 11h9",
  loading: "M8 3v9M4.5 8.5L8 12l3.5-3.5",
  merging: "M3.5 4l4.5 4 4.5-4M8 8v4.5",
  published: "M3.5 8.5l3 3 6-6.5",
  never_loaded: "M8 8h.01",
};

export function Sign({ state, size = 14 }: { state: State; size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 16 16" fill="none" stroke="currentColor" strokeWidth={2}
      strokeLinecap="round" strokeLinejoin="round" aria-hidden="true">
      <path d={STROKES[state]} />
    </svg>
  );
}

// The state of a period; or of something else, by a name of its own, which looks like that.
export function StateTag({ state, done, name }: { state: State; done?: string; name?: string | undefined }) {
  const { label, fill, ink } = STATES[state];
  const isEmpty = state === "never_loaded";
  return (
    <Tag.Root bg={fill} color={ink} size="md" rounded="full" px={2} flexShrink={0} boxShadow={isEmpty ? undefined : "none"}
      borderWidth={isEmpty ? 1 : 0} borderStyle="dashed" borderColor="fg.subtle">
      <Tag.StartElement><Sign state={state} /></Tag.StartElement>
      <Tag.Label whiteSpace="nowrap">{name ?? label}{done ? `, ${done}` : ""}</Tag.Label>
    </Tag.Root>
  );
}

// A square of a strip's size, for explanations.
export function Square({ state }: { state: State }) {
  const { fill, ink } = STATES[state];
  return (
    <Box as="span" display="inline-flex" alignItems="center" justifyContent="center" boxSize="18px" rounded="sm"
      bg={fill} color={ink} borderWidth={state === "never_loaded" ? 1 : 0} borderStyle="dashed" borderColor="fg.subtle">
      <Sign state={state} size={12} />
    </Box>
  );
}
