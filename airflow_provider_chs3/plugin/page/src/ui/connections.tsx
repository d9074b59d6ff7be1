// What is wrong with connections, and what to do where there is none.
import { Box, Heading, Text } from "@chakra-ui/react";
import { Fragment } from "react";
import { ended } from "../model/format";
import { Note, Sql, Time } from "./parts";

interface SeenConnection {
  conn_id: string;
  error: string;
  seen_at: number | null;
  nodes: { name: string; error: string }[];
}

export function Troubles({ connections }: { connections: readonly SeenConnection[] }) {
  return connections.map((seen) => (
    <Fragment key={seen.conn_id}>
      {seen.error ? (
        <Note title={`Connection ${seen.conn_id}: the cluster cannot be queried`}>
          {ended(seen.error)}{" "}
          {seen.seen_at === null ? "There is no earlier data." : <>The data below is from <Time at={new Date(seen.seen_at * 1_000)} />.</>}
        </Note>
      ) : null}
      {seen.nodes.filter((node) => node.error).map((node) => (
        <Note key={node.name} status="warning" title={`Node ${node.name || `of connection ${seen.conn_id}`} does not answer`}>
          {ended(node.error)} Months are judged by the other nodes.
        </Note>
      ))}
    </Fragment>
  ));
}

const ADD = `airflow connections add chs3_default --conn-type chs3 \\
    --conn-host clickhouse-1.example --conn-login loader \\
    --conn-password … --conn-extra '{"cluster": "my_cluster"}'`;

export function NoConnections() {
  return (
    <Box maxW="3xl" mx="auto" mt={12}>
      <Heading size="md">Connect Airflow to ClickHouse first</Heading>
      <Text mt={2}>Airflow&apos;s database and environment have no connection of type chs3. Once you have added one, the months of its tables are shown here:</Text>
      <Sql text={ADD} />
      <Text mt={2} color="fg.muted">Connections that are only in a secrets backend cannot be listed.</Text>
    </Box>
  );
}

const LOAD = `from datetime import datetime

from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_chs3.transfers.monthly_load import monthly_load

with DAG(
    dag_id="trips_nightly",
    schedule=CronDataIntervalTimetable("0 3 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
):
    monthly_load(
        bucket="my-bucket",
        key="trips/{YYYY-MM}/*.parquet",
        table="trips",
        lookback_months=2,
    )`;

export function NoTables() {
  return (
    <Box maxW="3xl" mx="auto" mt={12}>
      <Heading size="md">No month has been loaded yet</Heading>
      <Text mt={2}>There is no ledger here yet: the first load creates it. This DAG loads what is new, every night:</Text>
      <Sql text={LOAD} />
    </Box>
  );
}
