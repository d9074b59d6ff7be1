"""The old replicated cluster, and a table on it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pytest
from clickhouse_driver import Client

from airflow_provider_chs3.core.models import Month, Node, TableName
from airflow_provider_chs3.core.place import KeeperPlace
from airflow_provider_chs3.core.staging import Attempt
from airflow_provider_chs3.core.steps import AskNodes, Pause, Step, Steps
from airflow_provider_chs3.core.target import Surroundings
from tests.core.surroundings import FACTS, TARGET
from tests.replicated.debian_cluster import debian_cluster, missing

FIRST, FOLLOWER, OTHER_SHARD = 0, 1, 2


@dataclass
class Replicated:
    """A replicated table, and what core does to it, in the words that a server of 2018 knows."""

    clients: Mapping[Node, Client]
    table: str
    engine: str = "ReplicatedMergeTree"

    def ask(self, number: int, sql: str, **settings: Any) -> list[tuple[Any, ...]]:
        return list(self.clients.values())[number].execute(sql, settings=settings)

    def on_all(self, sql: str) -> list[list[tuple[Any, ...]]]:
        return self.at_once([lambda client=client: client.execute(sql) for client in self.clients.values()])

    @staticmethod
    def at_once(calls: list[Callable[[], Any]]) -> list[Any]:
        with ThreadPoolExecutor() as threads:
            return [future.result() for future in [threads.submit(call) for call in calls]]

    def create(self) -> None:
        path = f"/clickhouse/tables/{{shard}}/{self.table}"
        self.on_all(
            f"CREATE TABLE {self.table} (id UInt64, at DateTime) ENGINE = {self.engine}('{path}', '{{replica}}') "
            "PARTITION BY toYYYYMM(at) ORDER BY id"
        )

    @property
    def attempt(self) -> Attempt:
        return Attempt(TableName("default", self.table), Month(2026, 10), uuid.uuid4().hex[:16])

    @property
    def around(self) -> Surroundings:
        """What core would know of the nodes."""
        sql = f"SELECT 'default', zookeeper_path, replica_name FROM system.replicas WHERE table = '{self.table}'"
        target = replace(
            TARGET, engine=self.engine, engine_full="", sorting_key="id", primary_key="id", partition_key="toYYYYMM(at)"
        )
        facts = {
            node: replace(FACTS, target=target, keeper=KeeperPlace(*rows[0]))
            for node, rows in zip(self.clients, self.on_all(sql), strict=True)
        }
        names = TableName("default", self.table), TableName("default", "chs3_ledger")
        return Surroundings(cluster="c", target=names[0], ledger=names[1], nodes=facts)

    def run(self, workflow: Steps[Any]) -> Any:
        """Carry out a workflow of core, all nodes at once."""
        answer = None
        try:
            while True:
                answer = self._carry_out(workflow.send(answer))
        except StopIteration as done:
            return done.value

    def _carry_out(self, step: Step) -> dict[Node, list[tuple[Any, ...]]] | None:
        if isinstance(step, Pause):
            return None
        assert isinstance(step, AskNodes)
        # DROP TABLE … SYNC came in 2020, SYSTEM SYNC REPLICA … LIGHTWEIGHT in 2023.
        statements = {node: re.sub(" (SYNC|LIGHTWEIGHT)$", "", sql.text) for node, sql in step.sql.items()}
        answers = self.at_once(
            [lambda node=node, sql=sql: self.clients[node].execute(sql) for node, sql in statements.items()]
        )
        return dict(zip(statements, answers, strict=True))

    def stage(self, name: str, number: int, rows: int, *, first: int = 0) -> None:
        # As a load has it: staging makes repetition exact, and deduplication would lose equal blocks.
        values = f"SELECT number + {first}, toDateTime('2026-10-05 00:00:00') FROM numbers({rows})"
        self.ask(number, f"INSERT INTO {name} {values}", insert_deduplicate=0)

    def replace_partition(self, number: int, staging: str) -> None:
        self.ask(number, f"ALTER TABLE {self.table} REPLACE PARTITION ID '202610' FROM {staging}")

    def wait(self, name: str = "") -> None:
        self.on_all(f"SYSTEM SYNC REPLICA {name or self.table}")

    def rows(self, name: str = "") -> list[int]:
        """Rows on each node."""
        return [rows[0][0] for rows in self.on_all(f"SELECT count() FROM {name or self.table}")]

    def blocks(self, number: int) -> tuple[int, int]:
        """Lowest and highest block number on a node."""
        sql = "SELECT min(min_block_number), max(max_block_number) FROM system.parts WHERE active AND "
        return self.ask(number, f"{sql} table = '{self.table}'")[0]


@pytest.fixture(scope="session")
def old_cluster() -> Iterator[Mapping[Node, Client]]:
    if why := missing():
        pytest.skip(why)
    with debian_cluster() as clients:
        yield clients


@pytest.fixture
def replicated(old_cluster: Mapping[Node, Client]) -> Replicated:
    """A fresh replicated table on two shards of two replicas."""
    table = Replicated(old_cluster, f"trips_{uuid.uuid4().hex[:8]}")
    table.create()
    return table
