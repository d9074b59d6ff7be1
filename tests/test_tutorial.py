"""The tutorial, typed as it says, comes to what it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

TUTORIAL = (Path(__file__).parents[1] / "docs" / "tutorial.md").read_text(encoding="utf-8")

SHELL = re.findall(r"^```sh\n(.*?)^```", TUTORIAL, re.DOTALL | re.MULTILINE)
DAG_FILE = re.findall(r"^```python\n(.*?)^```", TUTORIAL, re.DOTALL | re.MULTILINE)
STATEMENTS = re.findall(r"^```sql\n(.*?)^```", TUTORIAL, re.DOTALL | re.MULTILINE)
#: A question, and the table that is shown below it.
ANSWERS = re.findall(r'^(ask "[^"]*")\n```\n\n((?: {4}.*\n)+)', TUTORIAL, re.MULTILINE)


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """`./dev cluster` runs, and its variables are set."""
    command = [sys.executable, "-m", "tests.demo", "cluster"]
    # What `./dev run` runs; and the project, where the shell is in another folder.
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert any(line.startswith("Ctrl-C") for line in process.stdout)
        variables = _typed(f"{_starting('. ./')}env -0", folder=tmp_path)
        for name, _, value in (each.partition("=") for each in variables.split("\0") if each):
            monkeypatch.setenv(name, value)
        yield
        process.terminate()


def _starting(text: str) -> str:
    """Return the tutorial's only block of shell commands that starts like this."""
    (block,) = (each for each in SHELL if each.startswith(text))
    return str(block)


def _typed(commands: str, *, folder: Path) -> str:
    """Return what commands print in a folder that stands for the clone."""
    shell = ["sh", "-euc", commands.replace("./dev run ", "")]
    return subprocess.run(shell, stdout=subprocess.PIPE, text=True, check=True, cwd=folder).stdout


def _ask(question: str, *, folder: Path) -> str:
    function = _starting("ask()").splitlines()[0]
    answer = _typed(f"{function}\n{question}", folder=folder)
    return "".join(f"    {line}" for line in answer.splitlines(keepends=True))


def test_it_comes_to_what_it_shows(connected: None, run_dag: Callable[..., Any], tmp_path: Path) -> None:
    from tests.support.dag_bag import DagBag

    # Readers have servers of their own, and no test bed.
    assert "airflow_provider_chs3.testbed" not in TUTORIAL
    (dag_file,), (statements,) = DAG_FILE, STATEMENTS
    first_night, after_the_late_file, on_record, _ = ANSWERS
    dags = tmp_path / ".dev" / "tutorial"
    dags.mkdir()
    (dags / "trips.py").write_text(dag_file)
    dag = DagBag(dags).dags["tutorial"]
    night = datetime(2026, 3, 15, tzinfo=UTC)

    assert _typed(_starting("./dev run chs3 ddl"), folder=tmp_path) == statements
    run_dag(dag, logical_date=night)
    assert _ask(first_night[0], folder=tmp_path) == first_night[1]

    _typed(_starting("curl"), folder=tmp_path)
    run_dag(dag, logical_date=night)
    assert _ask(after_the_late_file[0], folder=tmp_path) == after_the_late_file[1]
    assert _ask(on_record[0], folder=tmp_path) == on_record[1]
