// The nodes of each cluster: their size, how full they are, and their work.
import { Box, Flex, Heading, Text } from "@chakra-ui/react";
import { useCluster } from "../api/queries";
import type { ConnectionNodes } from "../api/types";
import { NoConnections, Troubles } from "../ui/connections";
import { Note, Waiting } from "../ui/parts";
import { Disks, FullTables, Merges, Nodes, ReplicationQueues, Unread } from "./nodes";
import { RunningLoads } from "./loads";

export function ClusterView() {
  const { data, error } = useCluster();
  if (!data) {
    return error ? <Note title="The nodes cannot be shown">{error.message}</Note> : <Waiting lines={4} height={24} />;
  }
  if (!data.connections.length) {
    return <NoConnections />;
  }
  return (
    <>
      <Troubles connections={data.connections} />
      {data.connections.map((seen) => <Connection key={seen.conn_id} seen={seen} />)}
    </>
  );
}

function Connection({ seen }: { seen: ConnectionNodes }) {
  const answered = seen.nodes.flatMap(({ name, state }) => (state ? [{ name, ...state }] : []));
  const names = seen.conn_ids.join(", ");
  return (
    <Box as="section" aria-label={`Connection ${names}`} mb={8}>
      <Flex gap={3} align="baseline" wrap="wrap">
        <Heading as="h2" size="md">{names}</Heading>
        <Text color="fg.muted" fontSize="sm">{seen.seen_at === null ? "no data yet" : seen.cluster === null ? "one server" : `cluster ${seen.cluster}`}</Text>
      </Flex>
      {answered.length ? (
        <>
          <RunningLoads loads={seen.loads} />
          <Nodes nodes={answered} />
          <Disks nodes={answered} />
          <FullTables nodes={answered} />
          <Merges nodes={answered} />
          <ReplicationQueues nodes={answered} />
          <Unread nodes={answered} />
        </>
      ) : null}
    </Box>
  );
}
