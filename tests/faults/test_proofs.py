"""Proofs that are struck: none says *equal* of what was not, and none writes or leaves anything."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_chs3.exceptions import ClickHouseConnectionError
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import Trips
from tests.faults.mortal_nodes import mortal_lake, name_of, own_cluster
from tests.support.killing import steps_of, writes
from tests.support.lake import PERIOD, Lake
from tests.support.proofs import prove
from tests.support.slow import SLOW, SLOW_SETTINGS
from tests.support.strikes import Strikes
from tests.support.waiting import wait_until

__all__ = ["mortal_lake", "own_cluster"]

#: As many rows in every version, so that counts tell nothing.
OLD, NEW = (Trips(seed=seed, rows_per_period=600, files_per_period=3) for seed in (1, 2))
WHERE = {"key": "trips/{YYYY-MM}/"}

WRITES = {
    "inserted": "INSERT INTO {table} SELECT * FROM {other} LIMIT 1",
    "deleted": "DELETE FROM {table} WHERE trip_id = (SELECT max(trip_id) FROM {table})",
    "mutated": "ALTER TABLE {table} UPDATE fare = fare + 1 WHERE 1 SETTINGS mutations_sync = 2",
    "patched": "UPDATE {table} SET fare = fare + 1 WHERE 1 SETTINGS allow_experimental_lightweight_update = 1",
    "swapped": "ALTER TABLE {table} REPLACE PARTITION 202610 FROM {other}",
    "dropped": "ALTER TABLE {table} DROP PARTITION 202610",
    "filled": "INSERT INTO {table} SELECT * FROM {other}",
    "emptied": "TRUNCATE TABLE {table}",
    # Last, as the other table is then the table.
    "exchanged": "EXCHANGE TABLES {table} AND {other}",
}


@pytest.fixture
def proved_lake(trips_lake: Lake) -> Lake:
    """A lake whose table holds the rows of its objects."""
    trips_lake.upload(OLD)
    trips_lake.load()
    return trips_lake


@pytest.mark.thorough
def test_a_proof_writes_nothing(proved_lake: Lake) -> None:
    steps = steps_of(lambda: prove(proved_lake, **WHERE))
    assert [step.name for step in steps if writes(step)] == []
    assert len(steps) > 5


@pytest.mark.thorough
def test_a_period_that_others_write_to_meanwhile_is_refused(proved_lake: Lake, strikes: Strikes) -> None:
    lake = proved_lake
    table, other = f"{lake.database}.trips", f"{lake.database}.other"
    lake.on_node(
        0, f"ALTER TABLE {table} MODIFY SETTING enable_block_number_column = 1, enable_block_offset_column = 1"
    )
    lake.on_node(0, f"CREATE TABLE {other} AS {table}")
    # As many rows, in as many blocks.
    lake.on_node(
        0, f"INSERT INTO {other} SELECT * REPLACE (fare + 1 AS fare) FROM cluster('{lake.cluster.name}', {table})"
    )
    found = {}
    for write, sql in WRITES.items():
        for is_after in (False, True):
            lake.on_node(0, f"TRUNCATE TABLE {table}")
            lake.on_node(0, f"INSERT INTO {table} SELECT * FROM {other}")
            strikes.reset()
            strike = strikes.after if is_after else strikes.before
            strike("Read the rows of", lambda sql=sql: lake.on_node(0, sql.format(table=table, other=other)))
            one = prove(lake, **WHERE)
            assert strikes.struck
            found[write, is_after] = one["status"], one["reason"].partition(" on ")[0]
    refused = "refused", f"Somebody wrote to {table}"
    assert found == dict.fromkeys(found, refused)


@pytest.mark.thorough
def test_merges_meanwhile_are_nothing_that_somebody_wrote(proved_lake: Lake, strikes: Strikes) -> None:
    lake = proved_lake
    table = f"{lake.database}.trips"
    lake.on_node(0, f"CREATE TABLE {lake.database}.other AS {table}")
    lake.on_node(0, f"INSERT INTO {lake.database}.other SELECT * FROM cluster('{lake.cluster.name}', {table})")
    lake.on_every_node(f"TRUNCATE TABLE {table}")
    for rest in (0, 1):
        lake.on_node(0, f"INSERT INTO {table} SELECT * FROM {lake.database}.other WHERE trip_id % 3 = {rest}")
    # The version of the parts so far, which that of the last part is not.
    lake.on_node(0, f"ALTER TABLE {table} UPDATE fare = fare WHERE 1 SETTINGS mutations_sync = 2")
    lake.on_node(0, f"INSERT INTO {table} SELECT * FROM {lake.database}.other WHERE trip_id % 3 = 2")
    strikes.before("Read the rows of", lambda: lake.on_node(0, f"OPTIMIZE TABLE {table} FINAL"))
    assert prove(lake, **WHERE)["reason"] == "600 rows"
    assert strikes.struck


OBJECTS: dict[str, Callable[[Lake], Any]] = {
    "overwritten": lambda lake: lake.upload(NEW),
    "deleted": lambda lake: lake.s3.delete_object(Bucket=lake.bucket, Key=f"trips/{PERIOD}/trips-{PERIOD}-001.parquet"),
    "damaged": lambda lake: lake.put(f"trips/{PERIOD}/trips-{PERIOD}-001.parquet", b"not even Parquet"),
}


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("change", OBJECTS)
def test_a_period_whose_objects_change_meanwhile_is_refused(proved_lake: Lake, strikes: Strikes, change: str) -> None:
    for strike, step in ((strikes.before, f"Look up {PERIOD}"), (strikes.before, "Read 3"), (strikes.after, "Read 3")):
        proved_lake.upload(OLD)
        strikes.reset()
        strike(step, lambda: OBJECTS[change](proved_lake))
        found = prove(proved_lake, **WHERE)
        print(f"{change}, {step}: {found['reason']}")  # shown where it fails
        assert strikes.struck
        assert found["status"] == "refused"
        assert f"Objects of {PERIOD} changed while they were compared" in found["reason"]


def test_an_object_that_comes_meanwhile_is_told(proved_lake: Lake, strikes: Strikes) -> None:
    strikes.before(f"Look up {PERIOD}", lambda: proved_lake.put(f"trips/{PERIOD}/late.parquet", b"not even Parquet"))
    found = prove(proved_lake, **WHERE)
    assert (found["status"], found["reason"]) == ("equal", "600 rows; not compared: 1 object that came meanwhile")


_OF_PROOF = "position(query, 'chs3: row') > 0 AND position(query, 'system.') = 0"


def is_read(lake: Lake, what: str) -> bool:
    """Return whether a server reads this for a proof."""
    sql = f"SELECT 1 FROM system.processes WHERE {_OF_PROOF} AND position(query, '{what}') > 0"
    return any(lake.on_every_node(sql))


@pytest.mark.three_nodes
@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("what", ["s3Cluster", "_partition_id"])
def test_a_proof_whose_process_is_ended_leaves_nothing_running(
    trips_lake: Lake, tmp_path: Path, what: str, number: signal.Signals
) -> None:
    lake = trips_lake
    load: dict[str, Any] = {"table": "trips", "database": lake.database, "cluster": lake.cluster.name}
    load |= {"bucket": lake.bucket, "key": "trips/{YYYY-MM}/"}
    of_objects = what != "_partition_id"
    if of_objects:
        slow = SLOW | {"trip_id": "toUInt64(trip_id) + sleepEachRow(0.02)"}
        lake.upload(Trips(rows_per_period=6_000, files_per_period=3), file_format="jsonl")
        load |= {"select": slow, "settings": SLOW_SETTINGS}
    else:
        rows = "toDateTime('2026-10-05 12:00:00', 'UTC') AS pickup_at, repeat('x', 2000) AS zone FROM numbers(1000000)"
        lake.on_node(0, f"INSERT INTO {lake.database}.trips (pickup_at, zone) SELECT {rows}")
    loads = tmp_path / "loads.json"
    loads.write_text(json.dumps({"loads": [load]}), encoding="utf-8")
    arguments = ["prove", "--loads", str(loads), "--period", PERIOD]
    proof = subprocess.Popen([sys.executable, "-m", "airflow_provider_chs3", *arguments])
    wait_until(lambda: is_read(lake, what), seconds=60)
    proof.send_signal(number)
    proof.wait(timeout=20)
    wait_until(lambda: not is_read(lake, ""), seconds=20)
    lake.on_node(0, "SYSTEM FLUSH LOGS")
    ended = (
        f"SELECT type FROM system.query_log WHERE {_OF_PROOF} AND position(query, '{what}') > 0 AND is_initial_query "
    )
    ended += f"AND position(query, '{lake.bucket if of_objects else lake.database}') > 0 AND type != 'QueryStart'"
    assert lake.on_node(0, ended) == [("ExceptionWhileProcessing",)]


@pytest.mark.thorough
def test_a_node_that_dies_or_is_down_is_named(
    mortal_lake: Lake, own_cluster: ClickHouseCluster, strikes: Strikes
) -> None:
    mortal_lake.load()
    for step in ("Read 6 objects", "Read the rows of", f"List s3://{mortal_lake.bucket}"):
        strikes.reset()
        strikes.before(step, lambda: own_cluster.kill(1))
        for _ in ("it dies", "it is down"):
            with pytest.raises(ClickHouseConnectionError, match=name_of(mortal_lake, 1)):
                prove(mortal_lake, **WHERE)
        assert strikes.struck
        own_cluster.restart(1)
    strikes.reset()
    assert prove(mortal_lake, **WHERE)["reason"] == "3,500 rows"
