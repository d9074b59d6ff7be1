// What is wrong with connections, and what to do where there is none.
import { Box, Heading, Stack, Text } from "@chakra-ui/react";
import type { ReactNode } from "react";
import { count, ended } from "../model/format";
import { silences, type SeenConnection } from "../model/silences";
import { Note, Sql, Time } from "./parts";

// Loud only if it hides something: else one line, so that what is known stays where it is.
export function Troubles({ connections }: { connections: readonly SeenConnection[] }) {
  const { unknown, old, nodes, unread } = silences(connections);
  const quiet = [
    ...old.map(({ conn_id: id, error, seen_at: at }) => (
      <Text key={id}><b>Connection {id}</b>: {ended(error)} {at === null ? null : <>Its data below is from <Time at={new Date(at * 1_000)} />.</>}</Text>
    )),
    ...nodes.map(({ name, conn_id: id, error }) => (
      <Text key={`${name} ${error}`}><b>Node {name || `of connection ${id}`}</b>: {ended(error)} The states of periods come from the other nodes.</Text>
    )),
  ];
  return (
    <>
      {unread.map((why) => <Note key={why} title="Some ledgers cannot be read: what they recorded is not shown">{ended(why)}</Note>)}
      {unknown.length ? <Unknown connections={unknown} /> : null}
      {quiet.length ? <Quiet title={<Who old={old} nodes={nodes} />}>{quiet}</Quiet> : null}
    </>
  );
}

function Unknown({ connections }: { connections: readonly SeenConnection[] }) {
  const [only, more] = connections;
  if (only && !more) {
    return <Note title={`Connection ${only.conn_id} is unreachable: its tables are not shown`}>{ended(only.error)}</Note>;
  }
  return (
    <Note title={`${connections.length} connections are unreachable: their tables are not shown`}>
      <Box as="details">
        <Box as="summary" cursor="pointer">{connections.map((seen) => seen.conn_id).join(", ")}</Box>
        {connections.map((seen) => <Text key={seen.conn_id} mt={1}><b>{seen.conn_id}</b>: {ended(seen.error)}</Text>)}
      </Box>
    </Note>
  );
}

function Who({ old, nodes }: { old: readonly SeenConnection[]; nodes: readonly unknown[] }) {
  const who = [old.length ? count(old.length, "connection") : "", nodes.length ? count(nodes.length, "node") : ""].filter(Boolean);
  const oldest = Math.min(...old.flatMap(({ seen_at: at }) => at ?? []));
  return (
    <>
      {who.join(" and ")} {old.length + nodes.length > 1 ? "do" : "does"} not answer
      {old.length ? <>: some of the data below is from <Time at={new Date(oldest * 1_000)} /></> : null}
    </>
  );
}

function Quiet({ title, children }: { title: ReactNode; children: ReactNode }) {
  return (
    <Box as="details" role="note" aria-label="What does not answer" mb={3} fontSize="sm">
      <Box as="summary" cursor="pointer" width="fit-content" color="orange.fg" fontWeight="medium">{title}</Box>
      <Stack gap={1} mt={2} ps={4} borderStartWidth={2} overflowWrap="anywhere">{children}</Stack>
    </Box>
  );
}

const ADD = `airflow connections add chs3_default --conn-type chs3 \\
    --conn-host clickhouse-1.example --conn-login loader \\
    --conn-password … --conn-extra '{"cluster": "my_cluster"}'`;

export function NoConnections() {
  return (
    <Box maxW="3xl" mx="auto" mt={12}>
      <Heading size="md">Connect Airflow to ClickHouse first</Heading>
      <Text mt={2}>Airflow&apos;s database and environment have no connection of type chs3. Once you have added one, this page shows the periods of its tables:</Text>
      <Sql text={ADD} />
      <Text mt={2} color="fg.muted">Airflow cannot list connections that are only in a secrets backend.</Text>
    </Box>
  );
}

const LOAD = `from datetime import datetime

from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_chs3.transfers.scheduled_load import scheduled_load

with DAG(
    dag_id="trips_nightly",
    schedule=CronDataIntervalTimetable("0 3 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
):
    scheduled_load(
        bucket="my-bucket",
        key="trips/{YYYY-MM}/*.parquet",
        table="trips",
        lookback=2,
    )`;

export function NoTables() {
  return (
    <Box maxW="3xl" mx="auto" mt={12}>
      <Heading size="md">No period has been loaded yet</Heading>
      <Text mt={2}>There is no ledger here yet: the first load creates it. This DAG loads new objects every night:</Text>
      <Sql text={LOAD} />
    </Box>
  );
}
