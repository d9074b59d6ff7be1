"""The old replicated cluster, and a table on it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from clickhouse_driver import Client

from airflow_provider_chs3.core.model.models import Node
from tests.replicated.debian_cluster import debian_cluster, missing

FIRST, FOLLOWER, OTHER_SHARD = 0, 1, 2


@dataclass
class Replicated:
    """A replicated table, and statements to it."""

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

    def stage(self, name: str, number: int, rows: int, *, first: int = 0) -> None:
        # As a load has it: staging makes repetition exact, and deduplication would lose equal blocks.
        values = f"SELECT number + {first}, toDateTime('2026-10-05 00:00:00') FROM numbers({rows})"
        self.ask(number, f"INSERT INTO {name} {values}", insert_deduplicate=0)

    def wait(self, name: str = "") -> None:
        self.on_all(f"SYSTEM SYNC REPLICA {name or self.table}")


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
