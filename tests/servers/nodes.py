"""Servers of a replicated table, some of which are down."""

from __future__ import annotations

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import PeriodFacts, read_facts
from tests.support.lake import PERIOD, Lake
from tests.support.replicas import is_writable
from tests.support.waiting import wait_until

#: The second replica of each shard, and the first.
SECOND, FIRST = (1, 3), (0, 2)


class Nodes:
    """The servers, some of which are down."""

    def __init__(self, cluster: ClickHouseCluster, lake: Lake) -> None:
        self.cluster = cluster
        self.lake = lake
        self.down: set[int] = set()

    def kill(self, *nodes: int) -> None:
        """End servers, and wait until Keeper knows them as gone."""
        self.down |= set(nodes)
        for node in nodes:
            self.cluster.kill(node)
        self.wait_until_gone(*nodes)

    def wait_until_gone(self, *nodes: int) -> None:
        """Wait until Keeper has ended the sessions of servers."""
        sql = f"SELECT max(active_replicas) FROM system.replicas WHERE database = '{self.lake.database}'"
        wait_until(lambda: all(self.lake.on_node(node, sql) == [(1,)] for node in self._others_of(nodes)))

    def bring_back(self) -> None:
        """Start them again."""
        back = [*self.down]
        while self.down:
            self.cluster.restart(self.down.pop())
        # A server opens the tables of a database of engine Replicated when it already answers.
        for node in back:
            wait_until(lambda node=node: is_writable(self.lake, node))

    def thaw(self, node: int) -> None:
        """Have a server go on, and wait until it follows again."""
        self.cluster.thaw(node)
        lake = self.lake
        of_table = f"FROM system.replicas WHERE database = '{lake.database}'"
        wait_until(lambda: lake.on_node(node ^ 1, f"SELECT max(active_replicas) {of_table}") == [(2,)])
        wait_until(lambda: lake.on_node(node, f"SELECT max(is_readonly) {of_table}") == [(0,)])
        lake.on_every_node(f"SYSTEM SYNC REPLICA {lake.database}.{lake.table}")

    def facts_on(self, node: int) -> PeriodFacts:
        """Return the rows of both shards, as a node sees them."""
        with self.cluster.nodes[node].client() as client:
            return read_facts(
                client, f"cluster('{self.cluster.name}', {self.lake.database}, {self.lake.table})", PERIOD
            )

    def facts(self) -> PeriodFacts:
        """The period, which replicas of a shard have alike."""
        sql = f"SELECT sum(cityHash64(tuple(*))) FROM {self.lake.database}.{self.lake.table}"
        first, second, third, fourth = self.lake.on_every_node(sql)
        assert (first, third) == (second, fourth)
        return self.facts_on(0)

    def _others_of(self, nodes: tuple[int, ...]) -> list[int]:
        return [node ^ 1 for node in nodes]
