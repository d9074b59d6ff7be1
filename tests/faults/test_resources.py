"""Servers that run out of memory, parts, disk or queries; files and keys that are no good."""

from __future__ import annotations

import io
import json
import os
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from clickhouse_driver.errors import Error as DriverError

from airflow_provider_chs3.exceptions import ClickHouseServerError, TransientError
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import PERIOD, Lake, lake_on
from tests.support.narrow_user import WITH_NARROW_USER
from tests.support.outcome import assert_exact, assert_untouched
from tests.support.strikes import Strikes

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.s3 import S3Endpoint

TRIPS = Trips(rows_per_period=3_000, files_per_period=3)
MIB = 1024**2
OUT_OF_MEMORY = "ran out of memory, so this try uses less"


def told(strikes: Strikes, text: str) -> list[str]:
    """Return the lines of the load that contain this text."""
    return [name for name in strikes.steps if text in name]


def put_in_small_groups(lake: Lake, trips: Trips, period: str) -> None:
    """One file whose row groups are small: blocks take the memory, and not the reader."""
    buffer = io.BytesIO()
    pq.write_table(trips.table(period), buffer, row_group_size=5_000)
    lake.put(f"trips/{period}/trips.parquet", buffer.getvalue())


def test_a_load_lowers_its_memory_until_it_fits_and_the_next_period_begins_with_that(
    trips_lake: Lake, strikes: Strikes
) -> None:
    # Blocks of all these rows were seen to take 56 MiB, of 131,056 rows 36 MiB.
    trips = Trips(rows_per_period=200_000, files_per_period=1)
    options = {"cluster": trips_lake.cluster.single_node_name, "settings": {"max_memory_usage": 46 * MIB}}
    put_in_small_groups(trips_lake, trips, PERIOD)
    trips_lake.load(**options)
    (steps,) = trips_lake.on_node(
        0,
        f"SELECT memory_steps FROM {trips_lake.database}.chs3_loads WHERE event = 'load'",
    )[0]
    assert steps > 0
    assert len(told(strikes, OUT_OF_MEMORY)) == steps
    assert strikes.pauses_seconds == []
    assert_exact(trips_lake, trips)

    strikes.reset()
    put_in_small_groups(trips_lake, trips, "2026-11")
    trips_lake.load(period="2026-11", **options)
    assert told(strikes, "this one starts with less")
    assert told(strikes, OUT_OF_MEMORY) == []
    assert_exact(trips_lake, trips, "2026-11")


@pytest.mark.thorough
def test_far_too_little_memory_is_an_error_after_a_few_steps(trips_lake: Lake, strikes: Strikes) -> None:
    trips_lake.upload(Trips(rows_per_period=60_000, files_per_period=1))
    # The block is the user's own, so that what is left to lower are threads and the reader.
    own = {"max_memory_usage": 6 * MIB, "min_insert_block_size_bytes": 64 * MIB, "min_insert_block_size_rows": 65_536}
    with pytest.raises(TransientError, match="even with the smallest blocks and the fewest threads"):
        trips_lake.load(cluster=trips_lake.cluster.single_node_name, settings=own)
    assert 1 <= len(told(strikes, OUT_OF_MEMORY)) <= 10
    assert_untouched(trips_lake, None)
    assert trips_lake.left_behind() == []


def limit_parts(lake: Lake, limit: int) -> None:
    lake.on_every_node(f"ALTER TABLE {lake.database}.{lake.table} MODIFY SETTING max_parts_in_total = {limit}")


def load_in_parts(lake: Lake) -> None:
    """Load on one node, each file in a part of its own."""
    lake.load(cluster=lake.cluster.single_node_name, settings={"min_insert_block_size_rows": 1})


@pytest.fixture
def crowded_lake(trips_lake: Lake) -> Lake:
    """Staging takes the table's limit of two parts over, and an odd key takes an insert of its own."""
    limit_parts(trips_lake, 2)
    *files, (_, last) = TRIPS.files(PERIOD)
    for name, content in files:
        trips_lake.put(f"trips/{PERIOD}/{name}", content)
    trips_lake.put(f"trips/{PERIOD}/an {{odd}} key.parquet", last)
    return trips_lake


@pytest.mark.thorough
def test_a_load_waits_while_there_are_too_many_parts_and_goes_on(crowded_lake: Lake, strikes: Strikes) -> None:
    strikes.before("Wait", lambda: limit_parts(crowded_lake, 3000))
    load_in_parts(crowded_lake)
    assert strikes.pauses_seconds == [20]
    assert_exact(crowded_lake, TRIPS)


@pytest.mark.thorough
def test_too_many_parts_for_ever_are_told_after_three_waits(crowded_lake: Lake, strikes: Strikes) -> None:
    with pytest.raises(ClickHouseServerError, match=r"(?s)252 .*Wait for merges"):
        load_in_parts(crowded_lake)
    assert strikes.pauses_seconds == [20, 40, 60]
    assert_untouched(crowded_lake, None)
    assert crowded_lake.left_behind() == []


@contextmanager
def busy(lake: Lake, queries: int) -> Iterator[Callable[[], None]]:
    """So many queries run on the first node, until they are ended."""
    name, sleep = f"busy_{uuid.uuid4().hex}", "SELECT sleepEachRow(1) FROM numbers(60) FORMAT Null"

    def run(number: int) -> None:
        with suppress(DriverError), lake.cluster.nodes[0].client() as client:
            client.execute(sleep, query_id=f"{name}_{number}", settings={"max_block_size": 1})

    def running() -> int:
        sql = f"SELECT count() FROM system.processes WHERE startsWith(query_id, '{name}')"
        return int(lake.on_node(0, sql)[0][0])

    def end() -> None:
        lake.on_node(0, f"KILL QUERY WHERE startsWith(query_id, '{name}') SYNC")

    with ThreadPoolExecutor(queries) as pool:
        for number in range(queries):
            pool.submit(run, number)
        while running() < queries:
            time.sleep(0.05)
        try:
            yield end
        finally:
            end()


@pytest.mark.thorough
def test_a_load_waits_while_too_many_queries_run_and_goes_on(trips_lake: Lake, strikes: Strikes) -> None:
    trips_lake.upload(TRIPS)
    with busy(trips_lake, 8) as end:
        strikes.before("Wait", end)
        trips_lake.load(settings={"max_concurrent_queries_for_all_users": 8})
    assert len(told(strikes, "202 ")) == 1
    assert strikes.pauses_seconds == [20]
    assert_exact(trips_lake, TRIPS)


def test_a_period_is_published_while_merges_are_stopped(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    trips_lake.on_every_node("SYSTEM STOP MERGES")
    try:
        trips_lake.load()
    finally:
        trips_lake.on_every_node("SYSTEM START MERGES")
    assert_exact(trips_lake, TRIPS)


def damaged(content: bytes, damage: str) -> bytes:
    if damage == "footer":
        return content[:-20]
    middle = len(content) // 2
    return content[:middle] + bytes(byte ^ 0xFF for byte in content[middle : middle + 16]) + content[middle + 16 :]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("page", r"trips-2026-10-000\.parquet cannot be read as Parquet"),
        ("footer", r"trips-2026-10-000\.parquet cannot be read as Parquet"),
    ],
)
def test_a_damaged_file_ends_the_task_and_is_named(trips_lake: Lake, damage: str, said: str) -> None:
    trips_lake.upload(TRIPS)
    name, content = next(iter(TRIPS.files(PERIOD)))
    trips_lake.put(f"trips/{PERIOD}/{name}", damaged(content, damage))
    with pytest.raises(AirflowFailException, match=f"(?s){said}"):
        trips_lake.load()
    assert_untouched(trips_lake, None)
    assert trips_lake.left_behind() == []
    trips_lake.upload(TRIPS)
    trips_lake.load()
    assert_exact(trips_lake, TRIPS)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("variable", "field", "said"),
    [
        (
            "AIRFLOW_CONN_CHS3_DEFAULT",
            "password",
            "516 .*The login or the password is wrong: correct those of the connection",
        ),
        (
            "AIRFLOW_CONN_CHS3_DEFAULT",
            "login",
            "516 .*The login or the password is wrong: correct those of the connection",
        ),
        ("AIRFLOW_CONN_AWS_DEFAULT", "password", "Cannot list s3://.* the secret key is wrong"),
        ("AIRFLOW_CONN_AWS_DEFAULT", "login", "Cannot list s3://.* the access key is not known there"),
    ],
)
def test_wrong_credentials_end_the_task_at_once(
    trips_lake: Lake, monkeypatch: pytest.MonkeyPatch, variable: str, field: str, said: str
) -> None:
    trips_lake.upload(TRIPS)
    monkeypatch.setenv(variable, json.dumps(json.loads(os.environ[variable]) | {field: "not-the-right-one"}))
    with pytest.raises(AirflowFailException, match=f"(?s){said}"):
        trips_lake.load()
    assert_untouched(trips_lake, None)
    assert trips_lake.left_behind() == []


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Path]:
    """A file system of 96 MiB."""
    if os.geteuid() != 0:
        pytest.skip("to mount a tmpfs takes root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(tmp_path)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


@pytest.mark.thorough
def test_a_disk_that_fills_up_during_the_insert_leaves_the_period_as_it_was(
    tmpfs: Path, chs3_s3: S3Endpoint, chs3_bucket: str, strikes: Strikes, monkeypatch: pytest.MonkeyPatch
) -> None:
    filler = tmpfs / "filler"

    def fill() -> None:
        with filler.open("wb") as file:
            try:
                while True:
                    file.write(bytes(MIB))
            except OSError:
                pass

    with (
        ClickHouseCluster.start(1, folder=tmpfs / "cluster", **WITH_NARROW_USER) as cluster,
        lake_on(cluster, chs3_s3, chs3_bucket, monkeypatch) as lake,
    ):
        lake.create_table()
        lake.upload(TRIPS)
        lake.load()
        new = Trips(seed=2, rows_per_period=3_100, files_per_period=3)
        lake.upload(new)
        strikes.before("Insert", fill)
        with pytest.raises(ClickHouseServerError, match=r"243 .*A disk is full: free space"):
            lake.load()
        assert_untouched(lake, TRIPS)
        filler.unlink()
        strikes.reset()
        lake.load()
        assert_exact(lake, new)
