// A row of what needs attention.
import { Box, Flex } from "@chakra-ui/react";
import type { ReactNode } from "react";

export function Entry({ label, tag, head, children, buttons }: {
  label: string; tag: ReactNode; head: ReactNode; children: ReactNode; buttons?: ReactNode;
}) {
  return (
    <Flex as="li" aria-label={label} px={4} py={2} gap={{ base: 2, lg: 4 }} align="center" wrap="wrap" borderTopWidth={1}
      display={{ lg: "grid" }} gridTemplateColumns={{ lg: "8.25rem minmax(0, 1fr) auto" }}
      _first={{ borderTopWidth: 0 }} _hover={{ bg: "bg.muted/50" }}>
      <Box flexShrink={0}>{tag}</Box>
      <Box flex="1" minW={{ base: "100%", lg: 0 }} gridColumn={buttons ? undefined : { lg: "2 / -1" }}>
        <Flex columnGap={2} align="baseline" wrap="wrap">{head}</Flex>
        {children}
      </Box>
      {buttons ? <Flex gap={2} flexShrink={0} justify={{ lg: "end" }} mt={{ base: 1, lg: 0 }}>{buttons}</Flex> : null}
    </Flex>
  );
}
