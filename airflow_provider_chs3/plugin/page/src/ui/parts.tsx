// Small parts that all views share.
import { Alert, Box, Button, Code, Flex, Heading, Skeleton, Stack, Text } from "@chakra-ui/react";
import { useState, type ReactNode } from "react";
import { stored } from "../model/directions";
import { age, dayAndMinute, minute, parseUtc, time } from "../model/format";
import { useNow, useZone } from "./zone";

const WRITTEN = { minute, dayAndMinute };

// A time in the zone chosen in Airflow; the tooltip has it in UTC.
export function Time({ at, part }: { at: Date; part?: "minute" | "dayAndMinute" }) {
  const zone = useZone();
  return <time dateTime={at.toISOString()} title={`${time(at, "UTC")} UTC`}>{(part ? WRITTEN[part] : time)(at, zone)}</time>;
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
    // The colour is at its edge and in its sign: on the page's own ground, texts and links have their usual contrast.
    <Alert.Root status={status} size="md" variant="outline" role={status === "error" ? "alert" : "note"} mb={3} bg="bg.subtle" color="fg"
      boxShadow="none" borderWidth={1} borderStartWidth={4} borderStartColor="colorPalette.solid" fontSize="sm" lineHeight="1.5">
      <Alert.Indicator color="colorPalette.fg" />
      <Alert.Content overflowWrap="anywhere" minW={0}>
        {title ? <Alert.Title fontWeight="semibold">{title}</Alert.Title> : null}
        <Alert.Description>{children}</Alert.Description>
      </Alert.Content>
    </Alert.Root>
  );
}

export function CopyButton({ text, label = "Copy", size = "2xs" }: { text: string; label?: string; size?: "2xs" | "xs" }) {
  const [isCopied, setCopied] = useState(false);
  const copy = () => {
    void navigator.clipboard.writeText(stored(text)).then(() => {
      setCopied(true);
      setTimeout(() => { setCopied(false); }, 2_000);
    });
  };
  return <Button size={size} variant="outline" onClick={copy} aria-live="polite">{isCopied ? "Copied" : label}</Button>;
}

export function Sql({ text, label = "Copy" }: { text: string; label?: string }) {
  return (
    <Flex gap={2} align="start" bg="bg.muted" rounded="md" p={2} my={2} wrap="wrap">
      <Code flex="1" minW="12rem" bg="transparent" whiteSpace="pre-wrap" overflowWrap="anywhere" size="sm" display="block">
        {text.split("\n").map((line, at) => <Box key={at} as="span" display="block" ps="4ch" textIndent="-4ch">{line}</Box>)}
      </Code>
      <CopyButton text={text} label={label} />
    </Flex>
  );
}

// Where counts, what needs attention and the strips will be.
export function WaitingForPeriods() {
  return (
    <Stack gap={4} role="status" aria-label="Loading">
      <Flex gap={2} wrap="wrap">{[24, 24, 36, 32].map((width, number) => <Skeleton key={number} height={9} width={width} />)}</Flex>
      <Skeleton height={9} />
      <Text color="fg.muted" fontSize="sm">Asking each node for its ledger and its parts…</Text>
      <Box borderWidth={1} rounded="lg" overflow="clip">
        <Box bg="bg.muted" height={9} borderBottomWidth={1} />
        {[1, 0.9, 0.95, 0.6].map((share, number) => (
          <Flex key={number} px={3} height={10} align="center" gap={8} borderBottomWidth={1} borderColor="border.muted" _last={{ borderBottomWidth: 0 }}>
            <Skeleton height={4} width="9rem" /><Box flex="1"><Skeleton height={5} ms="auto" style={{ width: `${60 * share}%` }} /></Box>
          </Flex>
        ))}
      </Box>
    </Stack>
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
