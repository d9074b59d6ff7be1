"""The tutorial, typed as it says, comes to what it shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_chs3.testbed.external import cluster_from

TUTORIAL = (Path(__file__).parents[1] / "docs" / "tutorial.md").read_text(encoding="utf-8")

SCRIPTS = re.findall(r"<<'END'\n(.*?)^END$", TUTORIAL, re.DOTALL | re.MULTILINE)
DAG_FILE = re.findall(r"^```python\n(.*?)^```", TUTORIAL, re.DOTALL | re.MULTILINE)
#: A question, and the table that is shown below it.
ANSWERS = re.findall(r'^ask "([^"]*)"\n```\n\n((?: {4}.*\n)+)', TUTORIAL, re.MULTILINE)


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`./dev cluster` runs, and the variables that it printed are set."""
    command = [sys.executable, "-m", "airflow_provider_chs3.testbed", "cluster"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip().startswith("export "):
                name, _, value = shlex.split(line)[1].partition("=")
                monkeypatch.setenv(name, value)
            if line.startswith("Ctrl-C"):
                break
        yield
        process.terminate()


def _ask(sql: str) -> str:
    node = cluster_from(os.environ).nodes[0]
    login = {"X-ClickHouse-User": node.credentials.login, "X-ClickHouse-Key": node.credentials.password}
    url = f"http://{node.host}:{node.http_port}/"
    request = urllib.request.Request(url, f"{sql} FORMAT PrettyCompactMonoBlock".encode(), login)
    with urllib.request.urlopen(request) as answer:
        return "".join(f"    {line}" for line in answer.read().decode().splitlines(keepends=True))


def test_it_comes_to_what_it_shows(connected: None, run_dag: Callable[..., Any], tmp_path: Path) -> None:
    from tests.dag_bag import DagBag

    (create_tables, upload_late_file), (dag_file,) = SCRIPTS, DAG_FILE
    first_night, after_the_late_file, on_record, _ = ANSWERS
    login = cluster_from(os.environ).nodes[0].credentials
    # Without quotes: people type it.
    assert f"curl --user {login.login}:{login.password} http" in TUTORIAL
    (tmp_path / "trips.py").write_text(dag_file)
    dag = DagBag(tmp_path).dags["tutorial"]
    night = datetime(2026, 3, 15, tzinfo=UTC)

    exec(create_tables, {})
    run_dag(dag, logical_date=night)
    assert _ask(first_night[0]) == first_night[1]

    exec(upload_late_file, {})
    run_dag(dag, logical_date=night)
    assert _ask(after_the_late_file[0]) == after_the_late_file[1]
    assert _ask(on_record[0]) == on_record[1]
