// The INSERT of the newest load, without credentials; all of it is in a log of the servers.
import { Faint, Section, Sql } from "../ui/parts";

const QUOTED = /['\\]/g;

export function InsertSql({ sql, queryIds }: { sql: string; queryIds: readonly string[] }) {
  const named = queryIds.map((id) => `'${id.replace(QUOTED, "\\$&")}'`).join(", ");
  const logged = `SELECT DISTINCT hostName(), query FROM system.query_log WHERE query_id IN (${named})`;
  return (
    <Section title="SQL">
      {sql ? <Sql text={sql} label="Copy the SQL" />
        : <Faint>Airflow does not have it, as when its task was cleared, or you may not read XComs of its DAG.</Faint>}
      <Faint>All of it, from the log of the server that the load was sent to:</Faint>
      <Sql text={logged} label="Copy the query" />
    </Section>
  );
}
