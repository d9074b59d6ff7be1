"""Which lane has which test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lanes import LANES

ROOT = Path(__file__).parents[1]
SOME = [
    "tests/sources/test_row_loads.py",
    "tests/plugin/test_browser.py",
    "tests/core/model",
    "tests/test_lint.py",
    "tests/sources/test_changing_objects.py",
]


#: All collections in one process: each process would import Airflow for itself.
_COLLECT = """
import json, sys, pytest
for lane in (None, *json.loads(sys.argv[1])):
    print("lane", lane, flush=True)
    given = ["--lane", lane] if lane else []
    if code := pytest.main(["--collect-only", "--quiet", "-p", "no:cacheprovider", *given, *sys.argv[2:]]):
        sys.exit(code)
"""


@pytest.fixture(scope="module")
def collected() -> dict[str, list[str]]:
    """The tests of each lane, and without one."""
    # CI's options would have the tests in another form.
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    command = [sys.executable, "-c", _COLLECT, json.dumps(list(LANES)), *SOME]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        if line.startswith("lane "):
            names = found.setdefault(line.removeprefix("lane "), [])
        elif "::" in line:
            names.append(line)
    return found


@pytest.fixture
def of_all(collected: dict[str, list[str]]) -> list[str]:
    return collected["None"]


@pytest.fixture
def by_lane(collected: dict[str, list[str]]) -> dict[str, list[str]]:
    return {lane: collected[lane] for lane in LANES}


def test_each_test_is_in_one_lane(by_lane: dict[str, list[str]], of_all: list[str]) -> None:
    assert sorted(name for names in by_lane.values() for name in names) == sorted(of_all)


def test_every_change_runs_a_load_a_refusal_and_a_kill_of_a_source_but_not_all(by_lane: dict[str, list[str]]) -> None:
    every = {name.partition("[")[0].partition("::")[2] for name in by_lane["changes"] if "row_loads" in name}
    assert every == {
        "test_a_period_is_loaded_exactly_and_again_only_where_it_changed",
        "test_what_is_missing_is_told",
    }
    assert len([name for name in by_lane["sources"] if "row_loads" in name]) > 5


def test_what_needs_a_browser_is_delivery(by_lane: dict[str, list[str]]) -> None:
    assert {name.partition("::")[0] for name in by_lane["delivery"]} == {SOME[1], SOME[3]}


def test_files_with_long_tests_come_first(of_all: list[str]) -> None:
    files = list(dict.fromkeys(name.partition("::")[0] for name in of_all))
    assert files[0] == "tests/test_lint.py"
    assert files[-1].startswith("tests/core/")


def test_a_server_that_is_thorough_is_not_among_the_variants_that_always_run(of_all: list[str]) -> None:
    of_some_variants = [name for name in of_all if "test_changing_objects" in name]
    assert of_some_variants
    assert [name for name in of_some_variants if "gcs" in name] == []
