"""A hook that keeps its connections open."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from airflow_provider_chs3.client import driver
from airflow_provider_chs3.client.diagnosis import check_one_server
from airflow_provider_chs3.client.driver import Connection
from airflow_provider_chs3.exceptions import ClickHouseServerError, TransientError
from airflow_provider_chs3.hooks.clickhouse import PooledClickHouseHook

if TYPE_CHECKING:
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook


@pytest.fixture
def pooled(make_hook: Callable[..., ClickHouseHook]) -> Iterator[PooledClickHouseHook]:
    made = PooledClickHouseHook.with_options(make_hook().options, clickhouse_conn_id="chs3_default")
    yield made
    made.close()


def port_of_client(hook: ClickHouseHook, *, seconds: float = 0) -> int:
    """The port of this end of the connection, which tells connections apart."""
    ((port, _),) = hook.query(f"SELECT any(port), sleep({seconds}) FROM system.processes WHERE query_id = queryID()")
    return int(port)


def test_statements_one_after_another_share_a_connection(pooled: PooledClickHouseHook) -> None:
    assert len({port_of_client(pooled) for _ in range(5)}) == 1


def test_statements_at_the_same_time_have_a_connection_each(pooled: PooledClickHouseHook) -> None:
    with ThreadPoolExecutor(3) as threads:
        ports = list(threads.map(lambda _: port_of_client(pooled, seconds=2), range(3)))
    assert len(set(ports)) == 3
    assert port_of_client(pooled) in ports


def test_a_statement_that_fails_costs_its_connection(pooled: PooledClickHouseHook) -> None:
    port = port_of_client(pooled)
    with pytest.raises(ClickHouseServerError):
        pooled.query("SELECT not_there")
    assert port_of_client(pooled) != port


def test_a_connection_that_broke_while_idle_is_made_anew(pooled: PooledClickHouseHook) -> None:
    port = port_of_client(pooled)
    (client,) = pooled._connections._idle[None]
    client.connection.socket.shutdown(socket.SHUT_RDWR)
    assert port_of_client(pooled) != port


def test_a_connection_in_use_is_not_pinged(pooled: PooledClickHouseHook, monkeypatch: pytest.MonkeyPatch) -> None:
    pings: list[object] = []
    ask = Connection._ask_whether_alive
    monkeypatch.setattr(Connection, "_ask_whether_alive", lambda of: pings.append(of) or ask(of))
    monkeypatch.setattr(driver, "_ALIVE_SECONDS", 300)
    port = port_of_client(pooled)
    assert port_of_client(pooled) == port
    assert not pings
    monkeypatch.setattr(driver, "_ALIVE_SECONDS", 0)
    assert port_of_client(pooled) == port
    assert len(pings) == 1


def test_what_is_in_use_when_it_closes_is_closed_after_its_statement(pooled: PooledClickHouseHook) -> None:
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(port_of_client, pooled, seconds=0.5)
        while not running.running():
            pass
        pooled.close()
        running.result()
    assert not any(pooled._connections._idle.values())


def test_a_server_that_took_the_place_of_another_is_refused_once(pooled: PooledClickHouseHook) -> None:
    pooled.query("SELECT 1")
    seen = pooled.servers_seen[None]
    (own,) = seen
    seen.add("replaced")
    with pytest.raises(TransientError, match=r"leads to several servers .*replaced"):
        check_one_server(seen)
    pooled.query("SELECT 1")
    check_one_server(seen)
    assert seen == {own}
