// The frame of all views: which one is shown, what it is about, and how fresh it is.
import { Box, Button, Flex, Heading, Text } from "@chakra-ui/react";
import type { ReactNode } from "react";
import { isLoggedOut } from "./api/client";
import { useCluster, usePeriods, useSpeed } from "./api/queries";
import { ClusterView } from "./cluster/view";
import { describe, type Place } from "./model/place";
import { PeriodsView } from "./periods/view";
import { daysOf } from "./throughput/range";
import { ThroughputView } from "./throughput/view";
import { DagLink } from "./ui/links";
import { Ago, Faint } from "./ui/parts";
import { Segments } from "./ui/segments";
import { NO_PERIOD, useAddress } from "./ui/url";

const VIEWS = { periods: "Periods", throughput: "Throughput", cluster: "Cluster" };
type View = keyof typeof VIEWS;

interface Asked {
  data: unknown;
  dataUpdatedAt: number;
  error: Error | null;
  isFetching: boolean;
}

function Freshness({ data, dataUpdatedAt, error, isFetching }: Asked) {
  if (error) {
    return (
      <Flex flexBasis="100%" gap={3} align="center" wrap="wrap" role="status" rounded="md" px={4} py={2} bg="orange.subtle" color="orange.fg">
        <Text>{error.message}{data ? <> What is below is from <Ago seconds={dataUpdatedAt / 1_000} />.</> : null}</Text>
        {isLoggedOut(error) ? <Button size="xs" variant="outline" onClick={() => { location.reload(); }}>Log in</Button> : null}
      </Flex>
    );
  }
  return (
    <Text fontSize="sm" color="fg.muted" whiteSpace="nowrap">
      {data ? <>updated <Ago seconds={dataUpdatedAt / 1_000} />{isFetching ? "…" : ""}</> : "loading…"}
    </Text>
  );
}

// Runs that are about to change something, though no insert of theirs may have begun.
function AtWork({ dagIds }: { dagIds: readonly string[] }) {
  const [only, more] = dagIds;
  if (only === undefined) {
    return null;
  }
  return (
    <Text fontSize="sm" color="fg.muted">
      {more === undefined ? <>DAG <DagLink dagId={only} /> is running</> : `${dagIds.length} DAGs are running`}
    </Text>
  );
}

// The same questions as the views ask: they share the answers.
const FRESHNESS: Record<View, (props: { place: Place }) => ReactNode> = {
  periods: function Periods({ place }) {
    const asked = usePeriods(place);
    return <Flex columnGap={4} wrap="wrap" align="baseline"><AtWork dagIds={asked.data?.busy_dags ?? []} /><Freshness {...asked} /></Flex>;
  },
  throughput: function Throughput({ place }) { return <Freshness {...useSpeed(place, daysOf(useAddress().params))} />; },
  cluster: function Cluster() { return <Freshness {...useCluster()} />; },
};

export function App({ place }: { place: Place }) {
  const { params, change } = useAddress();
  const named = params.get("view") ?? "";
  const view: View = named in VIEWS ? (named as View) : "periods";
  const Fresh = FRESHNESS[view];
  const about = view === "cluster" ? "" : describe(place);
  return (
    <Box height="100%" overflowY="auto" px={{ base: 3, md: 6 }} py={4} data-chs3="page" position="relative" color="fg" bg="bg">
      <Flex justify="space-between" align="center" gap={3} wrap="wrap" mb={4}>
        <Flex align="center" gap={4} wrap="wrap" maxW="100%">
          <Heading as="h1" size="lg" srOnly={place.dagId !== undefined}>ClickHouse loads</Heading>
          <Segments label="Views" value={view} items={VIEWS}
            choose={(value) => { change({ view: value === "periods" ? null : value, ...NO_PERIOD }); }} />
        </Flex>
        <Fresh place={place} />
      </Flex>
      {about ? <Box mb={3} data-chs3="scope"><Faint>{about}</Faint></Box> : null}
      {view === "periods" ? <PeriodsView place={place} /> : null}
      {view === "throughput" ? <ThroughputView place={place} /> : null}
      {view === "cluster" ? <ClusterView /> : null}
    </Box>
  );
}
