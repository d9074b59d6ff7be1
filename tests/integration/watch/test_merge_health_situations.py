"""The table of situations and verdicts in docs/merge-health.md, each made for real."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.target.topology import TableRequest
from airflow_provider_chs3.core.watch.health import Health, Verdict, judge
from airflow_provider_chs3.core.watch.merge_observation import observe_periods
from airflow_provider_chs3.exceptions import ClickHouseConnectionError, TransientError
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.operators.optimize import OptimizePartitionOperator
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.integration.situations import ON_A_CLUSTER_OF_ITS_OWN, ON_THE_CLUSTER, Situation, create
from tests.support.lake import PERIOD, Lake
from tests.support.merge_states import ON_REPLICAS

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.s3 import S3Endpoint

DOCS = Path(__file__).parents[3] / "docs" / "merge-health.md"
NO_ANSWER = "a node that does not answer"


def verdicts(lake: Lake, situation: Situation) -> list[Verdict]:
    hook = ClickHouseHook()
    runner = Runner(session=hook, listing=None, log=hook.log, progress_interval_seconds=1)
    table = TableRequest(target=TableName(lake.database, lake.table), cluster=lake.cluster.name, default_cluster=None)
    look = observe_periods(table, (Period.parse(PERIOD),))
    return [judge(state, situation.thresholds) for state in runner.run(look)]


def check(lake: Lake, situation: Situation) -> None:
    with situation.made(lake):
        first, *others = verdicts(lake, situation)
    assert (first.health, [other.health for other in others]) == (situation.health, [Health.HEALTHY] * len(others))
    assert re.search(situation.reason, str(first).partition(": ")[2])


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ON_THE_CLUSTER)
def test_the_verdict_on(lake: Lake, name: str) -> None:
    check(lake, ON_THE_CLUSTER[name])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("to mount a tmpfs takes root")
    command = ["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(tmp_path)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


@pytest.fixture
def own_lake(
    small_disk: Path, chs3_s3: S3Endpoint, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lake]:
    with ClickHouseCluster.start(1, folder=small_disk / "cluster") as cluster:
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(cluster.airflow_connection()))
        lake = Lake(cluster, chs3_s3.client(), chs3_bucket, "lake")
        lake.on_every_node("CREATE DATABASE lake")
        yield lake


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ON_A_CLUSTER_OF_ITS_OWN)
def test_the_verdict_with_a_disk_of_96_mib_on(own_lake: Lake, name: str) -> None:
    check(own_lake, ON_A_CLUSTER_OF_ITS_OWN[name])


@pytest.mark.thorough
def test_no_optimize_is_started_without_room(own_lake: Lake) -> None:
    task = OptimizePartitionOperator(
        task_id="optimize", database="lake", table=own_lake.table, periods=[PERIOD], deferrable=False
    )
    with (
        ON_A_CLUSTER_OF_ITS_OWN["a disk without room for the smallest merge"].made(own_lake),
        pytest.raises(TransientError, match=r"12 parts.* are free on its disk, and the merge needs more than"),
    ):
        task.execute({})
    sql = "SELECT count() FROM system.query_log WHERE query_kind = 'Optimize'"
    own_lake.on_node(0, "SYSTEM FLUSH LOGS")
    assert own_lake.on_node(0, sql) == [(0,)]
    # Background merges may be first, now that there is room.
    task.execute({})
    parts = f"SELECT count() FROM system.parts WHERE active AND database = 'lake' AND table = '{own_lake.table}'"
    assert own_lake.on_node(0, parts) == [(1,)]


def test_there_is_no_verdict_where_a_node_does_not_answer(
    chs3_s3: S3Endpoint, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ClickHouseCluster.start(2) as cluster:
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(cluster.airflow_connection()))
        lake = Lake(cluster, chs3_s3.client(), chs3_bucket, "lake")
        lake.on_every_node("CREATE DATABASE lake")
        create(lake)
        cluster.kill(1)
        with pytest.raises(ClickHouseConnectionError, match=str(cluster.nodes[1].tcp_port)):
            verdicts(lake, ON_THE_CLUSTER["one fresh part"])


def test_the_docs_have_these_situations_and_verdicts_and_no_others() -> None:
    section = DOCS.read_text().partition("## Made for real")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", section, re.MULTILINE)[1:]
    made = {**ON_THE_CLUSTER, **ON_A_CLUSTER_OF_ITS_OWN}
    expected = {name: situation.health for name, situation in made.items()} | ON_REPLICAS
    told = {name: re.split("[:,]", verdict)[0].replace(" ", "_") for name, verdict in rows}
    assert told == {**expected, NO_ANSWER: "none"}
