"""A table of trips on every node, filled from a source as a load fills staging."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.testbed.trips import COLUMNS, PeriodFacts, create_table_sql, read_facts

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster

_COLUMNS = ", ".join(COLUMNS)


@dataclass(frozen=True)
class Staging:
    """The table `trips` on every node of a cluster."""

    cluster: Cluster
    database: str

    @classmethod
    def create(cls, cluster: Cluster, database: str) -> Staging:
        staging = cls(cluster, database)
        for number in range(len(cluster.nodes)):
            staging._run(number, create_table_sql(f"{database}.trips"))
        return staging

    def insert(self, function: str, *, where: str = "1") -> None:
        """Insert what a function of the cluster reads: each node what it has read itself."""
        self._run(
            0,
            f"INSERT INTO FUNCTION cluster('{self.cluster.name}', {self.database}, trips) ({_COLUMNS}) "
            f"SELECT {_COLUMNS} FROM {function} WHERE {where} SETTINGS parallel_distributed_insert_select = 2, "
            "use_structure_from_insertion_table_in_table_functions = 0",
        )

    def insert_slices(self, function: str, *, where: str = "1") -> None:
        """Insert what a function of one node reads: each node its slice of the trips, one after the other."""
        count = len(self.cluster.nodes)
        for number in range(count):
            self._run(
                number,
                f"INSERT INTO {self.database}.trips ({_COLUMNS}) SELECT {_COLUMNS} FROM {function} "
                f"WHERE {where} AND trip_id % {count} = {number}",
            )

    def facts(self, period: str) -> PeriodFacts:
        with self.cluster.nodes[0].client() as client:
            return read_facts(client, f"cluster('{self.cluster.name}', {self.database}, trips)", period)

    def rows_per_node(self) -> list[int]:
        sql = f"SELECT count() FROM {self.database}.trips"
        return [self._run(number, sql)[0][0] for number in range(len(self.cluster.nodes))]

    def _run(self, number: int, sql: str) -> Any:
        with self.cluster.nodes[number].client() as client:
            return client.execute(sql)
