"""The commands and the SQL of the documentation run as written, on a table that has what they are about."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException
from clickhouse_driver.errors import ServerException

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.nodes import LOADER, User
from airflow_provider_chs3.testbed.s3 import S3Server
from airflow_provider_chs3.testbed.trips import Trips, create_table_sql
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.support.dag_bag import bundles_in
from tests.support.doc_pages import commands, statements

#: The names in them.
BUCKETS = ("my-bucket", "taxi")
PERIODS = ["2026-01", "2026-02", "2026-03", "2026-10"]
KEY = "trips/{YYYY-MM}/*.parquet"
#: Statements of the pages, without their comments: those for users, which the servers' configuration runs, and others.
WRITTEN = {place: re.sub(r" *--.*", "", block) for place, block in statements()}
GRANTS = re.findall(r"^GRANT ([^;]*) TO (\w+);", "\n".join(WRITTEN.values()), re.MULTILINE)
GRANTED = {User(f"docs_{name}", name): [what for what, whom in GRANTS if whom == name] for _, name in GRANTS}
SQL = {place: block for place, block in WRITTEN.items() if not block.startswith("GRANT")}
#: The statements that make the table, or the one over all nodes.
MAKES_TRIPS = re.compile(r"CREATE TABLE (\S*\btrips(?:_all)?`?)(?=[\s(])")
OLD, NEW = Trips(rows_per_period=100, files_per_period=1), Trips(seed=2, rows_per_period=110, files_per_period=1)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """One of their own, as their buckets have names that other tests have, too."""
    with S3Server.start() as server:
        yield server


@pytest.fixture(scope="module")
def server() -> Iterator[ClickHouseCluster]:
    with ClickHouseCluster.start(1, clusters={"main": LOADER, "chs3": LOADER}, users=GRANTED) as cluster:
        with cluster.nodes[0].client() as client:
            for sql in (
                "CREATE DATABASE taxi",
                create_table_sql("taxi.trips"),
                # A proof of objects goes by it.
                "ALTER TABLE taxi.trips ADD COLUMN file String MATERIALIZED ''",
                "CREATE TABLE taxi.refunds AS taxi.trips",
                f"CREATE TABLE taxi.trips_all AS taxi.trips ENGINE = Distributed({cluster.name}, taxi, trips)",
            ):
                client.execute(sql)
        yield cluster


@pytest.fixture
def loads(server: ClickHouseCluster, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns a load of what is in the first bucket."""
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(server.airflow_connection() | {"schema": "taxi"}))
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(s3.airflow_connection()))
    for bucket in BUCKETS:
        s3.client().create_bucket(Bucket=bucket)

    def load(trips: Trips, *periods: str, **options: Any) -> None:
        for bucket in BUCKETS:
            for period in periods:
                trips.upload(s3.client(), period, bucket=bucket, prefix=f"trips/{period}/")
        S3ToClickHouseOperator(
            task_id="load", bucket="my-bucket", key=KEY, table="trips", periods=list(periods), **options
        ).execute({})

    return load


#: The file of loads, and the DAG, that commands name.
LOADS = [{"table": table, "bucket": "my-bucket", "key": KEY, "fresh_by": "07:00"} for table in ("trips", "refunds")]
DAG = f"""
from airflow.sdk import DAG
from airflow_provider_chs3.transfers.scheduled_load import scheduled_load

with DAG("trips_nightly", schedule=None):
    scheduled_load(table="trips", bucket="my-bucket", key="{KEY}", all_periods=True)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder in which commands run, which is that of DAG files, too."""
    (tmp_path / "loads.yaml").write_text(json.dumps({"loads": LOADS}), encoding="utf-8")
    (tmp_path / "nightly.py").write_text(DAG, encoding="utf-8")
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", bundles_in(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("folder")
def test_they_run(loads: Any, capsys: pytest.CaptureFixture[str]) -> None:
    loads(OLD, *PERIODS)
    loads(NEW, "2026-10", policies={"keep_versions": 1})
    failed = {}
    for place, command in commands():
        # Rehearsals, those of other storages, too, take longer, and have tests of their own.
        if command[0] == "rehearse":
            continue
        if command[0] == "approve":
            held = {"checks": {"statements": {"never": "SELECT false"}}, "policies": {"on_failed_check": "hold"}}
            with pytest.raises(AirflowSkipException):
                loads(NEW, command[command.index("--period") + 1], **held)
        code = main(command)
        if code not in (0, 1):
            failed[place] = capsys.readouterr().err
    assert failed == {}


def test_the_grants_give_what_they_say(server: ClickHouseCluster) -> None:
    lacking = []
    for user, privileges in GRANTED.items():
        with server.nodes[0].client(user=user.login, password=user.password) as client:
            lacking += [privilege for privilege in privileges if client.execute(f"CHECK GRANT {privilege}") != [(1,)]]
    assert GRANTED
    assert lacking == []


def test_the_other_sql_runs(loads: Any, server: ClickHouseCluster) -> None:
    loads(OLD, "2026-01")
    refused = {}
    with server.nodes[0].client(database="taxi") as client:
        # The command that makes the table comes last: the others need its rows.
        for place, block in sorted(SQL.items(), key=lambda each: bool(MAKES_TRIPS.search(each[1]))):
            for table in MAKES_TRIPS.findall(block):
                client.execute(f"DROP TABLE IF EXISTS {table} SYNC")
            try:
                for statement in filter(str.strip, block.split(";\n")):
                    client.execute(statement)
            except ServerException as error:
                refused[place] = str(error)
    assert refused == {}
