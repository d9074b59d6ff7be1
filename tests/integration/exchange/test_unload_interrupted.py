"""Unloads that are killed before or after each of their steps: the manifest names a whole period at any time."""

from __future__ import annotations

import json
from itertools import count

import pytest

from tests.support.lake import Lake
from tests.support.unloading import MANIFEST, Killed, ids, ids_of_table, keys, killed_at, manifest, unload


@pytest.fixture
def unloaded(trips_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(trips_lake.cluster.airflow_connection()))
    add_row(trips_lake, 0)
    unload(trips_lake)
    return trips_lake


def add_row(lake: Lake, number: int) -> None:
    name = f"{lake.database}.{lake.table}"
    lake.on_node(0, f"INSERT INTO {name} (trip_id, pickup_at) VALUES ({number}, '2026-10-05')")


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("has_effect", [False, True])
@pytest.mark.parametrize("every", [5, 1])
def test_a_kill_at_any_step_leaves_the_older_or_the_newer_period(unloaded: Lake, has_effect: bool, every: int) -> None:
    outcomes = set()
    for step in count(step=every):
        before = ids(unloaded)
        add_row(unloaded, step + 1)
        after = ids_of_table(unloaded)
        was_killed = False
        try:
            with killed_at(step, has_effect=has_effect):
                unload(unloaded)
        except Killed:
            was_killed = True
        found = ids(unloaded)
        assert found in (before, after)
        outcomes.add("newer" if found == after else "older")
        unload(unloaded)
        assert ids(unloaded) == after
        assert sorted(keys(unloaded)) == sorted([*(each["key"] for each in manifest(unloaded)["files"]), MANIFEST])
        if not was_killed:
            break
    assert step > 10
    assert outcomes == {"older", "newer"}
