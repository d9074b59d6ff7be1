"""The job of the page on pull requests runs as written, as a user who may not write."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from clickhouse_driver.errors import ServerException

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.nodes import LOADER, User
from airflow_provider_chs3.testbed.s3 import S3Server
from airflow_provider_chs3.testbed.trips import Trips, create_table_sql
from tests.support.narrow_user import TRAIT

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "test-your-dags.md").read_text(encoding="utf-8")
REVIEWER = User("reviewer", "only reads")
#: This month, as the job asks for it.
MONTH = "2026-10"
TRIPS = Trips(rows_per_period=300, files_per_period=3)
LOADS = """
defaults:
  bucket: taxi
  database: taxi
loads:
  - table: trips
    key: trips/{YYYY-MM}/*.parquet
  - table: refunds
    key: refunds/{YYYY-MM}/*.parquet
    select: refunds.json
"""
#: A load without a column, one without a table, one that the user may not see all of, and one that is fine.
CHANGED = """
defaults: {database: taxi, bucket: taxi}
loads:
  - table: refunds
    key: refunds/{YYYY-MM}/*.parquet
    select: {trip_id: trip_id, price: fare}
  - {table: journeys, key: "trips/{YYYY-MM}/*.parquet"}
  - {table: trips, database: hidden, name: hidden, key: "trips/{YYYY-MM}/*.parquet"}
  - {table: again, key: "refunds/{YYYY-MM}/*.parquet"}
  - {table: trips, key: "trips/{YYYY-MM}/*.parquet"}
"""
Review = Callable[[str], tuple[int, str]]


def _script() -> str:
    (workflow,) = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
    (script,) = (step["run"] for step in workflow["jobs"]["review"]["steps"] if "run" in step)
    return script


def _grants() -> list[str]:
    blocks = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    return [grant for block in blocks for grant in re.findall(r"^GRANT ([^;]*) TO reviewer;", block, re.MULTILINE)]


@pytest.fixture(scope="module")
def server() -> Iterator[ClickHouseCluster]:
    users = {REVIEWER: [*_grants(), TRAIT, "SHOW TABLES ON hidden.*", "SHOW COLUMNS ON hidden.*"]}
    with ClickHouseCluster.start(1, clusters={"main": LOADER, "chs3": LOADER}, users=users) as cluster:
        with cluster.nodes[0].client() as client:
            for database in ("taxi", "hidden"):
                client.execute(f"CREATE DATABASE {database}")
            for table in ("taxi.trips", "taxi.refunds", "taxi.again", "hidden.trips"):
                client.execute(create_table_sql(table))
        yield cluster


@pytest.fixture
def review(server: ClickHouseCluster, tmp_path: Path) -> Iterator[Review]:
    """Returns what the job prints of a pull request with a file of loads."""
    folder = tmp_path / "repository"
    loads = folder / "dags" / "loads.yaml"
    loads.parent.mkdir(parents=True)
    (loads.parent / "refunds.json").write_text('{"trip_id": "trip_id"}', encoding="utf-8")

    def git(*words: str) -> None:
        identity = ("-c", "user.name=reviewer", "-c", "user.email=reviewer@example.com")
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)

    with S3Server.start() as s3:
        s3.client().create_bucket(Bucket="taxi")
        for name in ("trips", "refunds"):
            TRIPS.upload(s3.client(), MONTH, bucket="taxi", prefix=f"{name}/{MONTH}/")
        git("init", "--initial-branch", "main")
        loads.write_text(LOADS, encoding="utf-8")
        git("add", ".")
        git("commit", "-m", "loads")
        git("update-ref", "refs/remotes/origin/main", "main")
        user = {"login": REVIEWER.login, "password": REVIEWER.password}
        connection = {**server.airflow_connection(), "schema": "taxi", **user}
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "GITHUB_BASE_REF": "main",
            "AIRFLOW_CONN_CHS3_DEFAULT": json.dumps(connection),
            "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(s3.airflow_connection()),
        }

        def run(text: str) -> tuple[int, str]:
            loads.write_text(text, encoding="utf-8")
            script = _script().replace("$(date -u +%Y-%m)", MONTH)
            done = subprocess.run(
                ["bash", "-e", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            git("worktree", "remove", "../before")
            return done.returncode, done.stdout + done.stderr

        yield run


@pytest.mark.thorough
def test_what_changed_is_planned_and_what_is_missing_is_named(review: Review) -> None:
    code, printed = review(f"{LOADS}# Nothing changed.\n")
    assert (code, "No load has changed." in printed.splitlines()) == (0, True)
    code, printed = review(CHANGED)
    assert code == 1
    rows = re.findall(r"^(\w+) +(2026-10|table|privileges|period 2026-10)   (.*)", printed, re.MULTILINE)
    assert [(load, what) for load, what, _ in rows] == [
        *(("refunds", MONTH), ("hidden", MONTH), ("again", MONTH)),
        *(("refunds", f"period {MONTH}"), ("journeys", "table"), ("hidden", "privileges"), ("hidden", "privileges")),
    ]
    texts = [" ".join(text.split()) for _, _, text in rows]
    assert texts[0] == "load never loaded 3 19.5 KiB"
    assert "No such column to load in the target: 'price'" in texts[3]
    assert "Table taxi.journeys does not exist on " in texts[4]
    assert "run GRANT SELECT ON `hidden`.`chs3_ledger` TO `reviewer` there." in texts[5]


@pytest.mark.thorough
def test_the_reviewer_writes_nothing_and_reads_no_rows(server: ClickHouseCluster) -> None:
    with server.nodes[0].client(user=REVIEWER.login, password=REVIEWER.password) as client:
        for statement in (
            "INSERT INTO taxi.trips SELECT * FROM taxi.trips",
            "SELECT trip_id FROM taxi.trips",
            "DROP TABLE taxi.trips",
        ):
            with pytest.raises(ServerException, match="Not enough privileges"):
                client.execute(statement)
