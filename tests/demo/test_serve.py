"""`./dev cluster`: servers that stay up until Ctrl-C, and what it prints leads to them."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_chs3.testbed.external import cluster_from, s3_from
from airflow_provider_chs3.testbed.processes import is_listening


@pytest.fixture
def served(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.demo", "cluster", "--nodes", "2"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    lines = []
    while process.poll() is None and not (lines and lines[-1].startswith("Ctrl-C")):
        lines.append(process.stdout.readline())
    yield process, _exports(lines)
    process.kill()
    process.communicate()


@pytest.mark.thorough
def test_the_printed_variables_lead_to_the_servers_until_they_are_interrupted(served):
    process, variables = served
    cluster, s3 = cluster_from(variables), s3_from(variables)
    with cluster.nodes[0].client() as client:
        periods = client.execute(
            f"SELECT extract(_path, '\\\\d+-\\\\d+'), count() FROM s3Cluster('{cluster.name}', chs3_s3, "
            "filename = 'taxi/trips/*/*.parquet') GROUP BY 1 ORDER BY 1"
        )
        databases = client.execute("SELECT count() FROM system.databases WHERE name = 'taxi' AND engine = 'Atomic'")
    assert databases == [(1,)]
    assert periods == [("2026-01", 10_000), ("2026-02", 10_000), ("2026-03", 10_000)]
    assert json.loads(variables["AIRFLOW_CONN_CHS3_DEFAULT"])["schema"] == "taxi"
    assert variables["CLICKHOUSE_URL"].endswith("/?database=taxi")
    assert s3.client().list_objects_v2(Bucket="taxi")["KeyCount"] == 12

    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=300) == 130
    assert [is_listening(node.tcp_port) for node in cluster.nodes] == [False, False]


def _exports(lines):
    exported = [line.strip().removeprefix("export ") for line in lines if line.strip().startswith("export ")]
    return dict(shlex.split(line)[0].split("=", 1) for line in exported)
