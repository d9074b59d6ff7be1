"""The lines of a run about its seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.durations import told

ROOT = Path(__file__).parents[1]
CONFTEST = """
from pathlib import Path
from tests.durations import Durations, SharedFixtures

def pytest_configure(config):
    config.pluginmanager.register(SharedFixtures())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations(Path("kept.json")))
"""
TESTS = """
import time
import pytest

@pytest.fixture(scope="session")
def inner():
    time.sleep(0.3)

@pytest.fixture(scope="module")
def outer(inner):
    time.sleep(0.2)
    yield
    time.sleep(0.4)

@pytest.fixture
def own():
    time.sleep(0.1)

def test_first(outer, own): ...
def test_second(outer): ...
"""


def test_a_shared_fixture_counts_for_itself(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--numprocesses", "1", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout.splitlines()[-1]
    assert "test_it.py (outer)" in done.stdout
    kept = json.loads((tmp_path / "kept.json").read_text())
    least = {"session (inner)": 0.3, "test_it.py (outer)": 0.2, "test_it.py::test_first": 0.1, "test_it.py (end)": 0.4}
    assert [name for name, seconds in least.items() if kept[name] < seconds] == []
    assert kept["test_it.py::test_first"] < kept["session (inner)"] + kept["test_it.py (outer)"]
    assert kept["test_it.py::test_second"] < kept["test_it.py (end)"]


def test_the_ten_slowest_come_first() -> None:
    seconds = {f"tests/core/test_{number}.py::test": float(number) for number in range(12)}
    lines = told(seconds, {})
    assert lines[0] == "by folder: tests/core 66"
    assert [line.split()[0] for line in lines[1:]] == [f"{number}.0" for number in range(11, 1, -1)]


def test_what_grew_is_what_grew_more_than_the_rest() -> None:
    before = {f"tests/core/test_{number}.py::test": 10.0 for number in range(9)} | {"tests/core/test_x.py::test": 1.0}
    now = {name: seconds * 3 for name, seconds in before.items()} | {"tests/core/test_x.py::test": 7.0}
    assert told(now, before)[11:] == ["   7.0  tests/core/test_x.py::test, 1.0 before"]


def test_what_is_slower_by_less_than_two_seconds_did_not_grow() -> None:
    before = dict.fromkeys([f"tests/core/test_{number}.py::test" for number in range(9)], 1.0)
    assert told({**before, "tests/core/test_0.py::test": 2.9}, before)[10:] == []
