"""A connection of type `clickhouse`, made for Airflow's own provider, used as it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.compat.sdk import Connection

from airflow_provider_chs3.client.connection import ConnectionOptions
from airflow_provider_chs3.exceptions import ConfigurationError

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster


def options(extra: dict[str, Any] | None = None, **fields: Any) -> ConnectionOptions:
    connection = Connection(
        conn_id="ch", conn_type="clickhouse", host="ch-1", **fields, extra=json.dumps(extra) if extra else None
    )
    return ConnectionOptions.from_airflow(connection)


def test_host_and_user_are_enough() -> None:
    assert options(login="loader", password="pw", schema="trips") == ConnectionOptions(
        hosts=(("ch-1", 9000),), user="loader", password="pw", database="trips"
    )


def test_its_port_is_that_of_http() -> None:
    given = options(port=18123)
    assert (given.http_port, given.hosts) == (18123, (("ch-1", 9000),))


def test_tls_moves_both_ports() -> None:
    given = options({"secure": True})
    assert (given.http_port, given.hosts) == (8443, (("ch-1", 9440),))


def test_its_extras_are_understood() -> None:
    theirs = {
        "verify": False,
        "connect_timeout": 3,
        "send_receive_timeout": 60,
        "compress": False,
        "client_name": "nightly",
        "session_settings": {"max_threads": 4},
        "client_kwargs": {},
    }
    assert options(theirs) == ConnectionOptions(
        hosts=(("ch-1", 9000),),
        verify=False,
        connect_timeout_seconds=3,
        send_receive_timeout_seconds=60,
        compression="none",
        settings={"max_threads": 4},
    )


def test_extras_of_type_chs3_may_stand_beside_them() -> None:
    given = options({"cluster": "main", "native_port": 19000, "secure": True})
    assert (given.cluster, given.hosts, given.secure) == ("main", (("ch-1", 19000),), True)


def test_what_only_their_client_understands_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"client_kwargs.*create a connection of type chs3"):
        options({"client_kwargs": {"http_proxy": "http://proxy:8080"}})


def test_an_unknown_extra_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'verify'"):
        options({"verifi": True})


def test_a_hook_works_on_it(chs3_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook

    node = chs3_cluster.nodes[0]
    ours = chs3_cluster.airflow_connection()
    official = {
        "conn_type": "clickhouse",
        "host": node.host,
        "port": node.http_port,
        "login": ours["login"],
        "password": ours["password"],
        "extra": {"native_port": node.tcp_port},
    }
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", json.dumps(official))
    assert ClickHouseHook(clickhouse_conn_id="clickhouse_default").query("SELECT 1 + 1") == [(2,)]
