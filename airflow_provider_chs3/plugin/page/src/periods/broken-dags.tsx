// DAGs that load periods and that Airflow cannot import: their periods stay as they are, and so look well.
import { Box, Flex, Text } from "@chakra-ui/react";
import { DagLink, LINKS_IN_COLOUR } from "../ui/links";

export function BrokenDags({ dagIds, owners }: { dagIds: readonly string[]; owners: Record<string, string> }) {
  if (!dagIds.length) {
    return null;
  }
  return (
    <Box as="section" aria-label="DAGs that cannot be imported" css={LINKS_IN_COLOUR} bg="red.subtle" color="red.fg" rounded="md" px={4} py={2}>
      {dagIds.map((dagId) => (
        <Flex key={dagId} gap={2} align="baseline" wrap="wrap">
          <Text as="span" aria-hidden>✕</Text>
          <Text>Airflow cannot import DAG <DagLink dagId={dagId} />: it loads nothing until its file is fixed. Airflow&apos;s home page has the error.</Text>
          {owners[dagId] ? <Text fontSize="sm">Owner {owners[dagId]}.</Text> : null}
        </Flex>
      ))}
    </Box>
  );
}
