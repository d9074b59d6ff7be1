"""The servers of the nights: which are up, and how they are killed, cut from power and left out."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from clickhouse_driver.errors import NetworkError, ServerException

from airflow_provider_chs3.testbed.balancer import LoadBalancer
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.support.lake import Lake
from tests.support.power import Power

_TIMEOUT_SECONDS = 90
#: How a server's log names a directory whose table it does not know.
_LEFT = re.compile(r"Directory for table data (store/\w+/([\w-]+))/ already exists")


@dataclass
class Servers:
    """Nodes, some of which may be down."""

    lake: Lake
    cluster: ClickHouseCluster | None = None
    replicas: int = 1
    power: Power | None = None
    door: LoadBalancer | None = None
    down: set[int] = field(default_factory=set)

    @property
    def up(self) -> list[int]:
        """Places of the nodes that are up."""
        return [place for place in range(len(self.lake.cluster.nodes)) if place not in self.down]

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return len(self.lake.cluster.nodes) // self.replicas

    def on_each(self, sql: str) -> list[list[tuple[Any, ...]]]:
        """Run a statement on each node that is up."""
        return [self.lake.on_node(place, sql) for place in self.up]

    def on_one_of_each(self, sql: str) -> None:
        """Run a statement on a node of each shard: its replicas follow."""
        for place in {place // self.replicas: place for place in reversed(self.up)}.values():
            self.lake.on_node(place, sql)

    def kill(self, place: int) -> None:
        """Kill a node and start it again."""
        assert self.cluster
        self.cluster.kill(place)
        self.cluster.restart(place)
        self._follow_database(place)
        self.settle()

    def cut(self, place: int) -> None:
        """Cut the power of a node and start it again."""
        assert self.power
        self.power.cut(place)
        self._follow_database(place)
        self.settle()

    def _follow_database(self, place: int) -> None:
        if self.lake.cluster.database_engine:
            _wait_until(lambda: self._runs_statements(place))

    def _runs_statements(self, place: int) -> bool:
        """Whether a server follows its database, or will once a load has dropped its staging; else mend it.

        As docs/replicas.md says, if it died while it created a table that stays.
        """
        database, node = self.lake.database, self.lake.cluster.nodes[place]
        of_it = f"FROM system.clusters WHERE cluster = '{database}' AND is_local"
        if self.lake.on_node(place, f"SELECT is_active {of_it}") == [(1,)]:
            return True
        assert node.folder
        log = (node.folder / "clickhouse.log").read_text(errors="replace").rpartition("Starting ClickHouse")[2]
        beside = next(up for up in self.up if up // self.replicas == place // self.replicas and up != place)
        for path, uuid in set(_LEFT.findall(log)):
            of_table = f"FROM system.replicas JOIN system.tables t USING (database, table) WHERE t.uuid = '{uuid}'"
            for table, keeper, is_staging in self.lake.on_node(
                beside, f"SELECT table, zookeeper_path, match(table, '^chs3_[0-9a-f]+_') {of_table}"
            ):
                if is_staging:
                    return True
                self.lake.on_node(beside, f"SYSTEM DROP REPLICA '{node.name}' FROM ZKPATH '{keeper}'")
                (directory := node.folder / "data" / path).rename(directory.with_name(f"{uuid}_{table}"))
        return False

    def leave_out(self, place: int) -> None:
        """Kill a replica that stays away, and wait until Keeper knows."""
        assert self.cluster
        self.cluster.kill(place)
        self.down.add(place)
        active = f"SELECT max(active_replicas) FROM system.replicas WHERE database = '{self.lake.database}'"
        beside = next(up for up in self.up if up // self.replicas == place // self.replicas)
        _wait_until(lambda: self.lake.on_node(beside, active)[0][0] < self.replicas)

    def staging(self) -> set[str]:
        """The staging tables of loads on the servers that are up."""
        in_database = f"FROM system.tables WHERE database = '{self.lake.database}' AND match(name, '^chs3_[0-9a-f]+_')"
        return {name for rows in self.on_each(f"SELECT name {in_database}") for (name,) in rows}

    def drop_staging(self) -> None:
        """Drop the staging of loads, as somebody might who takes it for garbage."""
        for name in self.staging():
            self.on_each(f"DROP TABLE IF EXISTS {self.lake.database}.{name} SYNC")

    def bring_back(self) -> None:
        """Start what was left out; it has not caught up yet."""
        assert self.cluster
        for place in sorted(self.down):
            self.cluster.restart(place)
            self.down.discard(place)
            self._follow_database(place)

    def have_all_up(self) -> None:
        """Start what was left out, if anything was, and wait until it can be written to."""
        if self.down:
            self.bring_back()
            self.settle()

    def settle(self) -> None:
        """Wait until replicas can be written to."""
        if self.replicas > 1:
            # A disk may lose that staging was dropped: it is there again, read-only, until a load drops it.
            of_table = f"database = '{self.lake.database}' AND NOT startsWith(table, 'chs3_')"
            ask = f"SELECT count() FROM system.replicas WHERE {of_table} AND is_readonly"
            _wait_until(lambda: all(rows == [(0,)] for rows in self.on_each(ask)))

    def catch_up(self, table: str) -> None:
        """Wait until replicas of a table have what they missed."""
        self.settle()
        if self.replicas > 1 and len(self.up) > 1:
            self.on_each(f"SYSTEM SYNC REPLICA {table}")


def _wait_until(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + _TIMEOUT_SECONDS
    while True:
        with suppress(NetworkError, ServerException):
            if is_so():
                return
        if time.monotonic() > ends:
            raise TimeoutError
        time.sleep(0.2)
