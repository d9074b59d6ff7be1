// Small parts that all views share.
import { Alert, Box, Button, Code, Flex, Heading, Skeleton, Stack, Text } from "@chakra-ui/react";
import { useState, type ReactNode } from "react";
import { age, parseUtc, time } from "../model/format";
import { LINKS_IN_COLOUR } from "./links";
import { useNow, useZone } from "./zone";

// A time in the zone chosen in Airflow; the tooltip has it in UTC.
export function Time({ at }: { at: Date }) {
  const zone = useZone();
  return <time dateTime={at.toISOString()} title={`${time(at, "UTC")} UTC`}>{time(at, zone)}</time>;
}

export function UtcTime({ text }: { text: string }) {
  return <Time at={parseUtc(text)} />;
}

// Its own component, so that the rest of the page is not drawn each second.
export function Ago({ seconds }: { seconds: number }) {
  const now = useNow();
  return <>{age(now - seconds)} ago</>;
}

export function Section({ title, children, aside }: { title: string; children: ReactNode; aside?: ReactNode }) {
  return (
    <Box role="group" aria-label={title} mt={6}>
      <Flex justify="space-between" align="baseline" gap={4} mb={2} wrap="wrap">
        <Heading as="h3" size="sm" overflowWrap="anywhere">{title}</Heading>
        {aside}
      </Flex>
      {children}
    </Box>
  );
}

export function Note({ children, status = "error", title }: {
  children: ReactNode; status?: "error" | "warning" | "info" | "success"; title?: string;
}) {
  return (
    <Alert.Root status={status} size="md" variant="surface" role={status === "error" ? "alert" : "note"} mb={3}>
      <Alert.Indicator />
      <Alert.Content overflowWrap="anywhere" minW={0} css={LINKS_IN_COLOUR}>
        {title ? <Alert.Title>{title}</Alert.Title> : null}
        <Alert.Description>{children}</Alert.Description>
      </Alert.Content>
    </Alert.Root>
  );
}

export function CopyButton({ text, label = "Copy", size = "2xs" }: { text: string; label?: string; size?: "2xs" | "xs" }) {
  const [isCopied, setCopied] = useState(false);
  const copy = () => {
    void navigator.clipboard.writeText(text).then(() => {
      setCopied(true);
      setTimeout(() => { setCopied(false); }, 2_000);
    });
  };
  return <Button size={size} variant="outline" onClick={copy} aria-live="polite">{isCopied ? "Copied" : label}</Button>;
}

export function Sql({ text, label = "Copy" }: { text: string; label?: string }) {
  return (
    <Flex gap={2} align="start" bg="bg.muted" rounded="md" p={2} mt={2} wrap="wrap">
      <Code flex="1" minW="12rem" bg="transparent" whiteSpace="pre-wrap" overflowWrap="anywhere" size="sm">{text}</Code>
      <CopyButton text={text} label={label} />
    </Flex>
  );
}

export function Waiting({ lines = 6, height = 8 }: { lines?: number; height?: number }) {
  return (
    <Stack gap={2} role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, line) => <Skeleton key={line} height={height} />)}
    </Stack>
  );
}

export function Faint({ children }: { children: ReactNode }) {
  return <Text color="fg.muted" fontSize="sm" overflowWrap="anywhere">{children}</Text>;
}

// The same in all lists of a panel, so that their values stand below each other.
export const NAMES_WIDTH = "9.5rem";

// Names and values, one below the other.
export function Facts({ rows }: { rows: (readonly [string, ReactNode] | null | false)[] }) {
  return (
    <Box as="dl" display="grid" gridTemplateColumns={{ base: "7.5rem 1fr", sm: `${NAMES_WIDTH} 1fr` }} columnGap={4} rowGap={1} fontSize="sm">
      {rows.map((row) => row && (
        <Box key={row[0]} display="contents">
          <Box as="dt" color="fg.muted">{row[0]}</Box>
          <Box as="dd" overflowWrap="anywhere" minW={0}>{row[1]}</Box>
        </Box>
      ))}
    </Box>
  );
}
