"""Servers connect to PostgreSQL as safely as the worker: with its `sslmode`, and its root certificate."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import ClickHouseServerError
from airflow_provider_chs3.testbed.processes import HOST
from airflow_provider_chs3.testbed.programs.foreign import hand_over
from airflow_provider_chs3.testbed.programs.packages import started_or_skip
from airflow_provider_chs3.testbed.trips import Trips
from tests.sources.row_lake import RowLake
from tests.sources.rows import PostgresRows
from tests.sources.servers.postgres import PostgresServer
from tests.sources.trips_target import PERIOD
from tests.support.waiting import wait_until

pytestmark = pytest.mark.three_nodes

TRIPS = Trips(rows_per_period=600)


@pytest.fixture
def lake(chs3_cluster: Any, chs3_database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RowLake]:
    """A period of trips in a PostgreSQL that wants TLS, and whose certificate is for its address."""
    with started_or_skip(PostgresServer.start) as server:
        rows = PostgresRows.create(server)
        rows.put(TRIPS.table(PERIOD))
        _turn_tls_on(rows, server.folder / "data")
        yield RowLake.create(rows, chs3_cluster, chs3_database, monkeypatch)


def _turn_tls_on(rows: PostgresRows, folder: Path) -> None:
    certificate, key = folder / "server.crt", folder / "server.key"
    command = ["openssl", "req", "-x509", "-days", "2", "-nodes", "-subj", "/CN=trips", "-out", str(certificate)]
    command += ["-keyout", str(key), "-addext", f"subjectAltName=IP:{HOST}"]
    subprocess.run(command, check=True, capture_output=True)
    key.chmod(0o600)
    (folder / "pg_hba.conf").write_text(f"hostssl all all {HOST}/32 scram-sha-256\n", encoding="utf-8")
    hand_over(folder)
    with closing(rows.connection(autocommit=True)) as connection:
        connection.execute("ALTER SYSTEM SET ssl = on")
        connection.execute("SELECT pg_reload_conf()")
    wait_until(lambda: _has_tls(rows))


def _has_tls(rows: PostgresRows) -> bool:
    import psycopg

    try:
        rows.connection(sslmode="require").close()
    except psycopg.OperationalError:
        return False
    return True


def strict(lake: RowLake, tmp_path: Path) -> dict[str, str]:
    """Return the extra of an Airflow connection that checks the certificate; its file is the worker's."""
    root = tmp_path / "root.crt"
    shutil.copy(lake.rows.server.folder / "data" / "server.crt", root)
    return {"sslmode": "verify-full", "sslrootcert": str(root)}


def test_a_checked_certificate_is_one_that_servers_check_too(
    lake: RowLake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trusted = strict(lake, tmp_path)
    lake.connect(monkeypatch, extra=trusted)
    lake.load()
    assert lake.facts() == TRIPS.facts(PERIOD)
    # The certificate is for the address alone.
    other_name = f"localhost:{lake.rows.server.port}"
    with pytest.raises((AirflowFailException, ClickHouseServerError), match="does not match host name"):
        lake.load(server_address=other_name, period="2026-01", on_target_changed="reload", fingerprint="max(fare)")
    # The worker checks it, too.
    lake.connect(monkeypatch, extra=trusted | {"sslrootcert": str(tmp_path / "none.crt")})
    with pytest.raises(AirflowFailException, match=r"none\.crt. does not exist"):
        lake.load()


@pytest.mark.thorough
def test_with_a_token_of_aws_the_worker_and_the_servers_log_in(lake: RowLake, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without Amazon's own database none can check the token.
    (lake.rows.server.folder / "data" / "pg_hba.conf").write_text(
        f"hostssl all all {HOST}/32 trust\n", encoding="utf-8"
    )
    with closing(lake.rows.connection(autocommit=True)) as connection:
        connection.execute("SELECT pg_reload_conf()")
    for name, value in {
        "ACCESS_KEY_ID": "AKIA",
        "SECRET_ACCESS_KEY": "hush-hush",
        "DEFAULT_REGION": "eu-west-1",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    lake.connect(monkeypatch, password=None, extra={"iam": True, "aws_conn_id": None, "application_name": "nightly"})
    lake.load()
    assert lake.facts() == TRIPS.facts(PERIOD)
    source = lake.store().listing().source(server_address=None, named_collection=None)
    assert "X-Amz-Signature" in source.access.password
