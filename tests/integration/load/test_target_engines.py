"""Targets whose merges make rows fewer: loaded exactly, loaded again, and not taken for changed afterwards."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from tests.support.lake import PERIOD, Lake
from tests.support.refusal import parquet

FILES = 12
IDS_PER_FILE = 50
#: Each id three times.
VERSIONS = range(3)
#: Engine, further columns, what follows the sorting key, and how many versions of an id stay. `test_nights` has others.
SHAPES = {
    "expiring": ("MergeTree", "", "TTL at + INTERVAL 50 YEAR", 3),
    "projected": (
        "ReplacingMergeTree(version)",
        ", INDEX skip amount TYPE minmax, PROJECTION sums (SELECT amount, count() GROUP BY amount)",
        "SETTINGS deduplicate_merge_projection_mode = 'rebuild'",
        1,
    ),
}


def amount(identity: int, version: int, seed: int) -> int:
    return identity * 7 + version * 100_003 + seed * 13


def expected(versions: int, seed: int) -> list[tuple[int, int]]:
    ids = range(FILES * IDS_PER_FILE)
    return sorted((each, amount(each, version, seed)) for each in ids for version in VERSIONS[-versions:])


def upload(lake: Lake, seed: int) -> None:
    for number in range(FILES):
        ids = [each for each in range(number * IDS_PER_FILE, (number + 1) * IDS_PER_FILE) for _ in VERSIONS]
        versions = [*VERSIONS] * IDS_PER_FILE
        table = pa.table(
            {
                "version": pa.array(versions, pa.uint8()),
                "amount": pa.array(map(amount, ids, versions, [seed] * len(ids)), pa.uint64()),
                "at": pa.array([datetime(2026, 10, 5, tzinfo=UTC)] * len(ids), pa.timestamp("ms", tz="UTC")),
                "id": pa.array(ids, pa.uint64()),
            }
        )
        lake.put(f"trips/{PERIOD}/{number:02}.parquet", parquet(table))


def found(lake: Lake) -> list[tuple[int, int]]:
    lake.on_every_node(f"OPTIMIZE TABLE {lake.database}.trips FINAL")
    return sorted(lake.on_node(0, f"SELECT id, amount FROM {lake.database}.trips"))


@pytest.mark.thorough
@pytest.mark.parametrize("name", SHAPES)
def test_a_period_is_exact_and_merges_are_no_change(lake: Lake, name: str) -> None:
    engine, columns, clauses, versions = SHAPES[name]
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.trips (id UInt64, at DateTime('UTC'), version UInt8, amount UInt64{columns}) "
        f"ENGINE = {engine} PARTITION BY toYYYYMM(at) ORDER BY id {clauses}"
    )
    upload(lake, 1)
    # Blocks so small that merges have something to do.
    lake.load(settings={"min_insert_block_size_rows": 60, "max_block_size": 60, "max_insert_threads": 1})
    assert found(lake) == expected(versions, 1)
    assert lake.load()["status"] == "unchanged"
    upload(lake, 2)
    assert lake.load()["reason"] == "its objects changed since it was published"
    assert found(lake) == expected(versions, 2)


#: Engine, what follows the sorting key, how it is merged, and what the files hold: nothing once it is merged.
VANISHING = {
    "expired": ("MergeTree", "TTL at - INTERVAL 50 YEAR", "FINAL", {"sign": [1, 1]}),
    "zero": ("SummingMergeTree(sign)", "", "FINAL", {"sign": [0, 0]}),
    "cancelled": ("CollapsingMergeTree(sign)", "", "FINAL", {"sign": [1, -1]}),
    "deleted": (
        "ReplacingMergeTree(version, is_deleted)",
        "SETTINGS allow_experimental_replacing_merge_with_cleanup = 1",
        "FINAL CLEANUP",
        {"is_deleted": [0, 1]},
    ),
}


@pytest.mark.three_nodes
@pytest.mark.thorough
@pytest.mark.parametrize("name", VANISHING)
def test_a_period_that_merges_leave_nothing_of_is_unchanged(lake: Lake, name: str) -> None:
    engine, clauses, merge, values = VANISHING[name]
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.trips (id UInt64, at DateTime('UTC'), version UInt8, sign Int8 DEFAULT 1, "
        f"is_deleted UInt8 DEFAULT 0) ENGINE = {engine} PARTITION BY toYYYYMM(at) ORDER BY id {clauses}"
    )
    at = pa.array([datetime(2026, 10, 5, tzinfo=UTC)] * 2, pa.timestamp("ms", tz="UTC"))
    lake.put(f"trips/{PERIOD}/a.parquet", parquet(pa.table({"id": [1, 1], "at": at, "version": [1, 2], **values})))
    lake.load()
    lake.on_every_node(f"OPTIMIZE TABLE {lake.database}.trips {merge}")
    assert not any(lake.rows_per_node())
    assert lake.load()["status"] == "unchanged"
