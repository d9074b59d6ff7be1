"""A connection that leads to something else than ClickHouse: the doctor, loads and everything else say the same."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.client import detached_runner as detached
from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.sensors.merge_health import ClickHouseMergeHealthSensor
from airflow_provider_chs3.testbed.trips import Trips
from tests.support import deferring
from tests.support.lake import PERIOD, Lake
from tests.support.narrow_user import narrow_connection

TRIPS = Trips(rows_per_period=60, files_per_period=1)


def connect(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, *, extra: dict[str, Any] | None = None, **changes: Any
) -> None:
    connection = narrow_connection(lake.cluster)
    connection |= changes | {"extra": connection["extra"] | (extra or {})}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))


def test_the_http_port_is_recognised_by_all(
    trips_lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trips_lake.upload(TRIPS)
    node = trips_lake.cluster.nodes[0]
    connect(trips_lake, monkeypatch, port=node.http_port)
    said = (
        f"{node.host}:{node.http_port} speaks HTTP: this is ClickHouse's HTTP port. The native port is 9000 by default."
    )
    table = ["--database", trips_lake.database, "--table", trips_lake.table]
    where = [*table, "--bucket", trips_lake.bucket, "--key", "trips/{YYYY-MM}/"]
    codes = [
        main(["plan", *where, "--from", PERIOD, "--to", PERIOD]),
        main(["ledger", *table]),
        main(["adopt", *where, "--period", PERIOD]),
    ]
    assert (codes, capsys.readouterr().err) == ([2, 2, 2], f"plan: {said}\nledger: {said}\nadopt: {said}\n")
    main(["doctor", "--output=json", *where])
    (finding,) = json.loads(capsys.readouterr().out)["checks"][0]["findings"]
    assert finding == f"host of the connection: {said}"
    sensor = ClickHouseMergeHealthSensor(
        task_id="wait", database=trips_lake.database, table=trips_lake.table, period=PERIOD
    )
    for run in (trips_lake.load, lambda: sensor.poke({})):
        # Airflow's exception: a retry would end the same way.
        with pytest.raises(AirflowFailException) as caught:
            run()
        assert str(caught.value) == said


@pytest.fixture
def hanging_up() -> Iterator[int]:
    """A port that ends each connection, as a server does that does not understand what comes."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=_hang_up, args=(listener,), daemon=True).start()
        yield listener.getsockname()[1]


def _hang_up(listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            accepted, _ = listener.accept()
            with closing(accepted):
                accepted.recv(4096)


def refused(lake: Lake) -> str:
    """Return the error of a deferred load that cannot send its insert."""
    lake.upload(TRIPS)
    with pytest.raises((AirflowFailException, Chs3Error)) as caught:
        deferring.run(lake, {})
    assert lake.facts().rows == 0
    return str(caught.value)


def test_the_native_port_is_recognised_where_http_is_needed(trips_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    node = trips_lake.cluster.nodes[0]
    connect(trips_lake, monkeypatch, extra={"http_port": node.tcp_port})
    # A busy server may hang up before its answer, with the HTTP status, is read.
    assert refused(trips_lake).startswith(
        f"{node.host}:{node.tcp_port} is ClickHouse's native port, where HTTP is needed. "
        "The HTTP port ('http_port') is 8123 by default."
    )


@pytest.mark.thorough
def test_another_http_server_is_recognised_where_http_is_needed(
    trips_lake: Lake, monkeypatch: pytest.MonkeyPatch, chs3_s3: Any
) -> None:
    port = urlsplit(chs3_s3.endpoint_url).port
    connect(trips_lake, monkeypatch, extra={"http_port": port})
    # The S3 server answers a POST of what it does not understand with an error of its own.
    assert f":{port}" in (message := refused(trips_lake))
    assert "HTTP status 500" in message or "speaks HTTP, but is not ClickHouse" in message


@pytest.mark.thorough
def test_a_web_server_that_says_yes_to_everything_has_loaded_nothing(
    trips_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=_always, args=(listener, answer), daemon=True).start()
        connect(trips_lake, monkeypatch, extra={"http_port": listener.getsockname()[1]})
        assert "speaks HTTP, but is not ClickHouse: check host and port." in refused(trips_lake)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("status", "said"),
    [
        (
            "413 Content Too Large",
            r"takes no request of [\d,]+ bytes with a URL of \d,\d{3} \(HTTP status 413\): raise",
        ),
        ("400 Bad Request", r"is not ClickHouse: .* It answers with HTTP status 400\."),
        ("429 Too Many Requests", "HTTP status 429: "),
        ("502 Bad Gateway", "HTTP status 502: "),
    ],
)
def test_a_load_balancer_that_refuses_a_request_is_quoted(
    trips_lake: Lake, monkeypatch: pytest.MonkeyPatch, status: str, said: str
) -> None:
    monkeypatch.setattr(detached, "_LOG_TIMEOUT_SECONDS", 1)
    answer = f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=_always, args=(listener, answer), daemon=True).start()
        connect(trips_lake, monkeypatch, extra={"http_port": listener.getsockname()[1]})
        assert re.search(said, refused(trips_lake))


def _always(listener: socket.socket, answer: bytes) -> None:
    with suppress(OSError):
        while True:
            accepted, _ = listener.accept()
            with closing(accepted):
                accepted.recv(65_536)
                accepted.sendall(answer)


def test_where_nobody_listens_for_http_it_is_said(trips_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    connect(trips_lake, monkeypatch, extra={"http_port": port})
    said = refused(trips_lake)
    assert "Connection refused: nothing listens on this port; the HTTP port ('http_port') is 8123" in said
    assert "'http_port', or leave deferrable and durable out" in said


@pytest.mark.thorough
def test_a_port_that_hangs_up_is_named_at_once(
    trips_lake: Lake, monkeypatch: pytest.MonkeyPatch, hanging_up: int
) -> None:
    connect(trips_lake, monkeypatch, extra={"http_port": hanging_up})
    began = time.monotonic()
    message = refused(trips_lake)
    assert f":{hanging_up}" in message
    assert "accepts connections and ends each without an answer, and no node runs the query" in message
    # As long as a lost insert waits for the servers' logs, four times.
    assert time.monotonic() - began < 4 * detached._LOG_TIMEOUT_SECONDS
