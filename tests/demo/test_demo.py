"""`./dev demo`: what it shows, that it checks itself, and that it leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from airflow_provider_chs3.testbed.trips import Trips
from tests.demo.lake import Lake

COMMAND = [sys.executable, "-m", "tests.demo", "demo"]


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """For the demo; afterwards no process that has it may be there, and no temporary file."""
    marker = f"CHS3_TEST_MARKER={uuid.uuid4().hex}"
    folder = tmp_path / "temporary"
    folder.mkdir()
    yield {**os.environ, **dict([marker.split("=")]), "TMPDIR": str(folder)}
    assert _processes_with(marker) == []
    assert list(folder.iterdir()) == []


@pytest.mark.thorough
def test_it_shows_what_it_promises_and_says_of_each_step_whether_it_was_right(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [*COMMAND, "--periods", "2", "--rows-per-period", "6000", "--settings"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = re.findall(r"taxi\.trips(?:_all)? (\S+) (published|unchanged|skipped)[ :]", done.stdout)
    first, second = "2026-01", "2026-02"
    assert [sorted(told[:2]), told[2], sorted(told[3:5]), *told[5:]] == [
        [(first, "published"), (second, "published")],
        (first, "unchanged"),
        [(first, "unchanged"), (second, "published")],
        # After the kill, unless that came too late; and after the undo, which a load leaves alone.
        (first, "unchanged" if (is_late := "the kill came too late" in done.stdout) else "published"),
        (first, "skipped"),
    ]
    before = "still has its 6,000 rows of before"
    assert re.findall(r"(Right|WRONG): (.*?)\. (\S+) rows;", done.stdout) == [
        ("Right", "2026-02 waits for a file", "11,000"),
        ("Right", "the table has the same parts", "11,000"),
        ("Right", "only that file was read, 1,000 rows", "12,000"),
        ("Right", f"2026-01 {'has its new rows, as the kill came too late' if is_late else before}", "12,000"),
        ("Right", "2026-01 has the rows of the files that overwrote the others", "12,000"),
        ("Right", "2026-01 has the rows of before", "12,000"),
    ]
    screen = done.stdout[done.stdout.index("Settings of the last load") :]
    rows = [line.split() for line in screen.splitlines() if re.match(r" ?\d{4}-\d\d ", line)]
    assert [(row[0], row[1], row[2], row[5], row[-1]) for row in rows] == [
        (first, "6", "6,000", "2", "healthy"),
        (second, "6", "6,000", "2", "healthy"),
    ]
    assert re.search(r"max_insert_threads +\d+ +(half|\d+) of \d+ cores", screen)


@pytest.mark.thorough
def test_the_page_stays_up_until_it_is_ended(environment: dict[str, str]) -> None:
    options = ["--periods", "1", "--rows-per-period", "600", "--stay"]
    with subprocess.Popen([*COMMAND, *options], env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = next(found[1] for line in process.stdout if (found := re.search(r"The page: (\S+)", line)))
        page = httpx.get(address).raise_for_status()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)
    assert (page.headers["content-type"].partition(";")[0], process.returncode) == ("text/html", 130)


@pytest.mark.thorough
def test_ctrl_c_ends_everything(environment: dict[str, str]) -> None:
    with subprocess.Popen(COMMAND, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "$ airflow dags test" not in process.stdout.readline():
            assert process.poll() is None
        time.sleep(1)  # into the work of the Airflow command
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)
    assert process.returncode == 130


@pytest.mark.thorough
def test_numbers_that_make_no_sense_are_refused(environment: dict[str, str]) -> None:
    done = subprocess.run([*COMMAND, "--periods", "0"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "at least 1 period" in done.stderr


def test_a_value_that_differs_from_the_files_is_found() -> None:
    trips = Trips(rows_per_period=60)
    with ClickHouseCluster.start(1) as cluster, cluster.nodes[0].client() as client:
        lake = Lake(cluster, S3Endpoint("http://unused", "", ""), trips, ["2026-01", "2026-02"], "2026-02")
        lake.create_tables()
        for period in lake.periods:
            client.execute("INSERT INTO taxi.trips VALUES", trips.table(period).to_pylist())
        assert lake.differences() == []
        client.execute(
            "ALTER TABLE taxi.trips UPDATE vendor = 'Nobody' WHERE trip_id IN (SELECT max(trip_id) FROM taxi.trips)",
            settings={"mutations_sync": 1},
        )
        assert [line[:7] for line in lake.differences()] == ["2026-02"]


def _processes_with(variable: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if variable.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue  # it ended meanwhile, or it is another user's
    return found
