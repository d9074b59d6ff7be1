// The INSERT of the newest load, without credentials; all of it is in a log of the servers.
import { Box } from "@chakra-ui/react";
import { Faint, Section, Sql } from "../ui/parts";

const QUOTED = /['\\]/g;

export function InsertSql({ sql, queryIds }: { sql: string; queryIds: readonly string[] }) {
  const named = queryIds.map((id) => `'${id.replace(QUOTED, "\\$&")}'`).join(", ");
  const logged = `SELECT DISTINCT hostName(), query FROM system.query_log WHERE query_id IN (${named})`;
  return (
    <Section title="SQL">
      {sql ? <Sql text={sql} label="Copy the SQL" />
        : <Faint>Airflow does not show it: its task was cleared, or you may not read the DAG&apos;s XComs.</Faint>}
      <Box mt={3}><Faint>To get the whole statement from the servers&apos; query log:</Faint></Box>
      <Sql text={logged} label="Copy the query" />
    </Section>
  );
}
