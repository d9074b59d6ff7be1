// The assets that start the load of a table, and those that it has events for, with links into Airflow's own pages.
import { Box } from "@chakra-ui/react";
import { Fragment } from "react";
import { useAssets } from "../api/queries";
import type { Task } from "../api/types";
import { neighboursOf, type Neighbour } from "../model/assets";
import { AssetLink, DagLink } from "../ui/links";
import { Facts } from "../ui/parts";

function Each({ assets, verb, none }: { assets: readonly Neighbour[]; verb: string; none: string }) {
  return assets.map(({ id, name, dags }) => (
    <Box key={id}>
      <AssetLink id={id} name={name} />{dags.length ? `, ${verb} ` : `, ${none}`}
      {dags.map((dagId, index) => <Fragment key={dagId}>{index ? ", " : ""}<DagLink dagId={dagId} /></Fragment>)}
    </Box>
  ));
}

export function Assets({ task }: { task: Task }) {
  const { data } = useAssets(task.dag_id);
  const { before, after } = neighboursOf(task, data ?? []);
  return before.length + after.length ? (
    <Box mt={1}>
      <Facts rows={[
        before.length > 0 && ["Started by assets", <Each key="before" assets={before} verb="from" none="from no DAG" />],
        after.length > 0 && ["Its assets", <Each key="after" assets={after} verb="which starts" none="for which no DAG waits" />],
      ]} />
    </Box>
  ) : null;
}
