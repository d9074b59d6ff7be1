"""The pytest plugin, which users name in their conftest."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "test-your-dags.md"
README = Path(__file__).parents[2] / "README.md"
HEAVY = [
    "airflow",
    "boto3",
    "clickhouse_driver",
    "chdb",
    "docker",
    "moto",
    "numpy",
    "pandas",
    "pyarrow",
    "testcontainers",
]


def test_its_import_is_cheap():
    code = (
        "import sys, airflow_provider_chs3.testbed.pytest_plugin; "
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_it_is_in_no_pytest_that_does_not_name_it():
    assert [point for point in entry_points(group="pytest11") if "chs3" in point.value] == []


def test_the_page_of_the_test_bed_says_how_to_name_it(tmp_path):
    (line,) = re.findall(r"^pytest_plugins = .*", HOW_TO.read_text("utf-8"), re.MULTILINE)
    (tmp_path / "conftest.py").write_text(line)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--fixtures", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "chs3_bucket -- " in done.stdout


@pytest.mark.thorough
def test_the_files_of_the_how_to_are_a_project_whose_tests_pass(tmp_path):
    for folder in ("dags", "tests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "dags" / "trips.py").write_text(block_with("trips_nightly", README))
    (tmp_path / "tests" / "conftest.py").write_text(block_with("pytest_plugins"))
    for test in ("test_the_night", "test_the_load"):
        (tmp_path / "tests" / f"{test}.py").write_text(block_with(test))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "tests")]
    others = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    done = subprocess.run(command, cwd=tmp_path, env=others, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout


def block_with(text, page=HOW_TO):
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (block,) = (each for each in blocks if text in each)
    return block


def test_a_database_is_there_on_every_node(chs3_cluster, chs3_database):
    for node in chs3_cluster.nodes:
        with node.client(database=chs3_database) as client:
            assert client.execute("SELECT currentDatabase()") == [(chs3_database,)]


def test_connections_reach_a_task_that_airflow_runs(run_dag, chs3_airflow_connections, chs3_cluster):
    from airflow.providers.common.compat.sdk import DAG, BaseHook, task

    with DAG("connections", schedule=None) as dag:

        @task
        def port():
            return BaseHook.get_connection("chs3_default").port

        port()

    run = run_dag(dag)
    assert run.get_task_instance("port").xcom_pull(task_ids="port") == chs3_cluster.nodes[0].tcp_port


def test_the_task_of_the_how_to_runs(chs3_cluster, chs3_s3, chs3_bucket, chs3_database, chs3_airflow_connections):
    names = {}
    exec(block_with("test_the_load"), names)
    names["test_the_load"](chs3_cluster, chs3_s3, chs3_bucket, chs3_database, chs3_airflow_connections)
