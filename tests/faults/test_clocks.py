"""Clocks an hour apart: of nodes, and of the worker.

The engine asks the kernel for the time, past the C library, so that libfaketime cannot set its clock. Times from a
node's clock are set here instead: when a record was written, and when staging was created.
"""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta, tzinfo
from typing import Any

import pytest

from airflow_provider_chs3 import table
from airflow_provider_chs3.exceptions import NotReadyError
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.killing import Worker
from tests.support.lake import Lake
from tests.support.outcome import assert_exact, assert_untouched
from tests.support.slow import SLOW, SLOW_SETTINGS, wait_for_insert

pytestmark = pytest.mark.three_nodes

#: As many rows each, so that counts tell nothing.
VERSIONS = (Trips(rows_per_period=3_000, files_per_period=5), Trips(seed=2, rows_per_period=3_000, files_per_period=5))
COORDINATOR = 0


@pytest.mark.thorough
@pytest.mark.parametrize("node", [COORDINATOR, 1])
def test_a_node_whose_clock_goes_back_an_hour_tells_the_newest_record(trips_lake: Lake, node: int) -> None:
    trips_lake.upload(VERSIONS[0])
    trips_lake.load()
    ledger = f"{trips_lake.database}.chs3_ledger"
    trips_lake.on_node(node, f"ALTER TABLE {ledger} MODIFY COLUMN recorded_at DEFAULT now64(3) - INTERVAL 1 HOUR")
    trips_lake.upload(VERSIONS[1])
    assert trips_lake.load()["status"] == "published"
    assert_exact(trips_lake, VERSIONS[1])
    assert trips_lake.load()["status"] == "unchanged"
    first, *_, last = trips_lake.on_node(node, f"SELECT recorded_at FROM {ledger} ORDER BY sequence")
    assert last < first


@pytest.mark.thorough
@pytest.mark.parametrize("hours", [-1, 1])
def test_what_a_dead_attempt_left_goes_whatever_the_clock_was_then(trips_lake: Lake, hours: int) -> None:
    folder = trips_lake.cluster.nodes[COORDINATOR].folder
    if folder is None:
        pytest.skip("the node's files are not on this machine")
    trips_lake.upload(VERSIONS[0])
    worker = Worker(lambda: trips_lake.load(select=SLOW, settings=SLOW_SETTINGS))
    wait_for_insert(trips_lake)
    worker.kill()
    created = time.time() + 3600 * hours
    sql = (
        "SELECT metadata_path, metadata_modification_time FROM system.tables "
        f"WHERE database = '{trips_lake.database}' AND name LIKE 'chs3\\_%\\_%'"
    )
    ((staging, _),) = trips_lake.on_node(COORDINATOR, sql)
    os.utime(folder / "data" / staging, (created, created))
    ((_, shown),) = trips_lake.on_node(COORDINATOR, sql)
    assert abs(shown.timestamp() - created) < 2
    trips_lake.load()
    assert_exact(trips_lake, VERSIONS[0])


def set_workers_clock(monkeypatch: pytest.MonkeyPatch, *, hours: int) -> None:
    class Shifted(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.now(tz) + timedelta(hours=hours)

    monkeypatch.setattr(table, "datetime", Shifted)


@pytest.mark.thorough
def test_workers_whose_clocks_are_two_hours_apart_load_in_turns(
    trips_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hours, trips in zip((1, -1), VERSIONS, strict=True):
        set_workers_clock(monkeypatch, hours=hours)
        trips_lake.upload(trips)
        assert trips_lake.load()["status"] == "published"
        assert_exact(trips_lake, trips)
        assert trips_lake.load()["status"] == "unchanged"


@pytest.mark.thorough
def test_a_worker_whose_clock_is_behind_waits_longer_for_objects_to_be_old_enough(
    trips_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips_lake.upload(VERSIONS[0])
    set_workers_clock(monkeypatch, hours=-1)
    with pytest.raises(NotReadyError, match=r"min_object_age_seconds'\]=1 ago"):
        trips_lake.load(min_object_age_seconds=1)
    assert_untouched(trips_lake, None)
