"""`ClickHouseOperator(deferrable=True)`: what it sends, and where that shows."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from tests.support.deferred_task import hurry, run, start, stay, table

if TYPE_CHECKING:
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
    from airflow_provider_chs3.testbed.nodes import Cluster

__all__ = ["hurry", "table"]

pytestmark = pytest.mark.usefixtures("hook", "hurry")

SECRET = "a secret of 27 characters"


class Colour(Enum):
    RED = "it's red\n"


def rows_of(hook: ClickHouseHook, table: str) -> list[int]:
    return [n for (n,) in hook.query(f"SELECT n FROM {table} ORDER BY n")]


#: Types, and values of parameters of them.
PARAMETERS: list[tuple[str, Any]] = [
    ("Nullable(String)", None),
    ("String", "NULL"),
    ("String", r"\N"),
    ("String", "it's \\ %(b)s {c:UInt8}\r\n\t\0\b\f--boundary é &="),
    ("String", Colour.RED),
    ("String", bytes(range(256))),
    ("Bool", True),
    ("Int256", -(2**200)),
    ("Decimal(38, 10)", Decimal("12345678901234567.0123456789")),
    ("Float64", 1.5e-300),
    ("Date", date(2026, 1, 2)),
    ("DateTime64(6, 'Europe/Berlin')", datetime(2026, 1, 2, 12, 0, 0, 678901, tzinfo=UTC)),
    ("UUID", UUID(int=5)),
    ("Array(Nullable(String))", ["a'b", "c\\d", "\n", None]),
    ("Map(String, Array(Date))", {"it's": [date(2026, 1, 2)], "\\": []}),
]


def test_the_server_gets_the_values_of_parameters(hook: ClickHouseHook, chs3_database: str) -> None:
    name = f"{chs3_database}.given"
    hook.query(f"CREATE TABLE {name} (how String, hex Array(Nullable(String))) ENGINE = MergeTree ORDER BY how")
    values = {f"a{number}": value for number, (_, value) in enumerate(PARAMETERS)}
    shown = ", ".join(f"hex(toString({{a{number}:{kind}}}))" for number, (kind, _) in enumerate(PARAMETERS))
    run(f"INSERT INTO {name} SELECT 'deferred', [{shown}]", parameters=values)
    hook.execute(f"INSERT INTO {name} SELECT 'worker', [{shown}]", values)
    (deferred,), (worker,) = hook.query(f"SELECT hex FROM {name} ORDER BY how")
    assert deferred == worker


def test_the_drivers_placeholders_are_filled(hook: ClickHouseHook, chs3_database: str) -> None:
    name = f"{chs3_database}.given"
    hook.query(f"CREATE TABLE {name} (how String, said Array(String)) ENGINE = MergeTree ORDER BY how")
    values = {"a": "it's \\ é\n", "b": 7, "c": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "d": [1, 2]}
    shown = ", ".join(f"toString(%({each})s) || '100%%'" for each in values)
    sql = f"INSERT INTO {name} SELECT %(how)s, [{shown}]"
    run(sql, parameters=values | {"how": "deferred"})
    hook.execute(sql, values | {"how": "worker"})
    (deferred,), (worker,) = hook.query(f"SELECT said FROM {name} ORDER BY how")
    assert deferred == worker


def test_half_a_character_is_told(table: str) -> None:
    for given in (
        {"sql": f"INSERT INTO {table} SELECT '\ud800'"},
        {"sql": "DROP TABLE {a:Identifier}", "parameters": {"a": "\ud800"}},
    ):
        with pytest.raises(AirflowFailException, match="is half a character"):
            run(**given)


@pytest.fixture
def request_heads(chs3_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """Return what a proxy would log: the request line and headers of what goes to the HTTP port."""
    lines: list[bytes] = []
    node = chs3_cluster.nodes[0]
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    server = socket.create_connection((node.host, node.http_port))
                    threading.Thread(target=_copy, args=(server, client, None), daemon=True).start()
                    threading.Thread(target=_copy, args=(client, server, lines), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        connection = json.loads(os.environ["AIRFLOW_CONN_CHS3_DEFAULT"])
        connection["extra"]["http_port"] = listener.getsockname()[1]
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
        yield lines


def _copy(source: socket.socket, target: socket.socket, heads: list[bytes] | None) -> None:
    with suppress(OSError):
        while chunk := source.recv(65536):
            if heads is not None and chunk.startswith(b"POST "):
                heads.append(chunk.partition(b"\r\n\r\n")[0])
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)


def test_settings_database_and_query_id_go_along_and_no_parameter_stands_in_a_url_a_trigger_or_a_log(
    hook: ClickHouseHook,
    table: str,
    request_heads: list[bytes],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level("DEBUG")
    database, name = table.split(".")
    sql = f"INSERT INTO {name} SELECT getSetting('max_threads') + length({{secret:String}}) + sleep(2)"
    of_task = {"settings": {"max_threads": 3}, "database": database, "query_id": "mine"}
    deferred = start(sql, parameters={"secret": SECRET}, **of_task)
    assert deferred.trigger.query_id.startswith("mine_")
    event = deferred.wait()
    assert deferred.resume() == []
    assert rows_of(hook, table) == [3 + len(SECRET)]
    assert len(request_heads) == 1
    shown = f"{request_heads} {deferred.trigger.serialize()} {event} {caplog.text} {capfd.readouterr()}"
    assert deferred.trigger.query_id in shown
    assert not [part for part in ("secret", "27+char", "27%20char") if part in shown]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"sql": "SELECT count() FROM {table}"}, "its statements have results"),
        ({"sql": "WITH 1 AS a SELECT count() FROM {table}"}, "its statements have results"),
        (
            {"sql": ["CREATE TEMPORARY TABLE mine (n UInt64)", "INSERT INTO mine SELECT 0", "SELECT n FROM mine"]},
            "its statements share a session",
        ),
        (
            {"sql": ["SET max_threads = 3", "INSERT INTO {table} SELECT 0", "SELECT getSetting('max_threads') - 3"]},
            "its statements share a session",
        ),
        (
            {
                "sql": ["INSERT INTO {table} SELECT id FROM ids", "SELECT count() - 1 FROM {table}"],
                "external_tables": [{"name": "ids", "structure": [("id", "UInt64")], "data": [(7,)]}],
            },
            "its statements send external tables",
        ),
    ],
)
def test_what_needs_its_worker_keeps_it(
    table: str, arguments: dict[str, Any], why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    sql = arguments["sql"]
    told = [each.replace("{table}", table) for each in ([sql] if isinstance(sql, str) else sql)]
    assert stay({**arguments, "sql": told}) == [[0]]
    assert f"The task keeps its worker, and a retry starts over, as {why}." in "".join(capfd.readouterr())


def test_rows_keep_their_worker(hook: ClickHouseHook, table: str) -> None:
    assert stay({"sql": f"INSERT INTO {table} VALUES", "parameters": [[7], [8]]}) == 2
    assert rows_of(hook, table) == [7, 8]


def test_what_is_too_large_for_a_form_keeps_its_worker(hook: ClickHouseHook, table: str) -> None:
    text = "é" * 100_000
    assert stay({"sql": f"INSERT INTO {table} SELECT lengthUTF8({{a:String}})", "parameters": {"a": text}}) == []
    assert stay({"sql": f"INSERT INTO {table} SELECT {{a:UInt8}} -- {text}", "parameters": {"a": 7}}) == []
    assert rows_of(hook, table) == [7, 100_000]
