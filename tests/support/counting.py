"""Count what is sent to each node, and the connections that are opened for it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from airflow_provider_chs3.client.connection import Address
from airflow_provider_chs3.client.driver import Connection
from airflow_provider_chs3.client.session import Session


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Counter[Address | None]:
    """Statements by the node that they were sent to; None is the node that the connection leads to."""
    counts: Counter[Address | None] = Counter()
    query = Session.query

    def counted(hook: Session, sql: str, *, address: Address | None = None, **options: Any) -> Any:
        counts[address] += 1
        return query(hook, sql, address=address, **options)

    monkeypatch.setattr(Session, "query", counted)
    return counts


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[Address]:
    """Connections by the node that they lead to."""
    counts: Counter[Address] = Counter()
    connect = Connection.connect

    def counted(connection: Connection) -> Any:
        counts[tuple(connection.hosts[0])] += 1
        return connect(connection)

    monkeypatch.setattr(Connection, "connect", counted)
    return counts


def of_nodes(counts: Counter[Any]) -> list[int]:
    """The counts of the nodes, the highest first."""
    return sorted((count for address, count in counts.items() if address is not None), reverse=True)


def is_within(counts: Counter[Any], most: tuple[int, int]) -> bool:
    """Whether one node had no more than the first of two numbers, and each other one no more than the second."""
    first, *others = of_nodes(counts)
    return first <= most[0] and max(others) <= most[1]
