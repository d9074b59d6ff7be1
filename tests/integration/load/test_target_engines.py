"""Targets whose merges make rows fewer: loaded exactly, loaded again, and not taken for changed afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from tests.integration.lake import IS_OLDEST, PERIOD, Lake
from tests.integration.refusal import parquet

FILES = 12
IDS_PER_FILE = 50
#: Each id three times, as a collapsing table wants them: a row, its end, and what came instead.
SIGNS = (1, -1, 1)


@dataclass(frozen=True)
class Shape:
    """A target."""

    engine: str
    columns: str = "amount UInt64"
    clauses: str = ""
    answer: str = "count(), sum(amount) FROM {} FINAL"
    rows: int = 1
    weights: tuple[int, ...] = (0, 0, 1)


EVERY_ROW = {"answer": "count(), sum(amount) FROM {}", "rows": 3, "weights": (1, 1, 1)}
SHAPES = {
    "expiring": Shape("MergeTree", clauses="TTL at + INTERVAL 50 YEAR", **EVERY_ROW),
    "replacing": Shape("ReplacingMergeTree(version)"),
    "projected": Shape(
        "ReplacingMergeTree(version)",
        "amount UInt64, INDEX skip amount TYPE minmax, PROJECTION sums (SELECT amount, count() GROUP BY amount)",
        clauses="SETTINGS deduplicate_merge_projection_mode = 'rebuild'",
    ),
    "summing": Shape("SummingMergeTree(amount)", weights=(1, 1, 1)),
    "aggregating": Shape(
        "AggregatingMergeTree",
        "amount SimpleAggregateFunction(sum, UInt64)",
        clauses="" if IS_OLDEST else "SETTINGS allow_dimensions_outside_sorting_key = 1",
        weights=(1, 1, 1),
    ),
    "collapsing": Shape("CollapsingMergeTree(sign)", answer="sum(sign), sum(sign * amount) FROM {}"),
    "coalescing": Shape("CoalescingMergeTree", "amount Nullable(UInt64)"),
}


def amount(identity: int, version: int, seed: int) -> int:
    return identity * 7 + version // 2 * 100_003 + seed * 13


def expected(shape: Shape, seed: int) -> tuple[int, int]:
    ids = range(FILES * IDS_PER_FILE)
    sums = (weight * amount(each, version, seed) for each in ids for version, weight in enumerate(shape.weights))
    return shape.rows * len(ids), sum(sums)


def upload(lake: Lake, seed: int) -> None:
    for number in range(FILES):
        ids = [each for each in range(number * IDS_PER_FILE, (number + 1) * IDS_PER_FILE) for _ in SIGNS]
        versions = list(range(len(SIGNS))) * IDS_PER_FILE
        table = pa.table(
            {
                "version": pa.array(versions, pa.uint8()),
                "sign": pa.array(SIGNS * IDS_PER_FILE, pa.int8()),
                "amount": pa.array(map(amount, ids, versions, [seed] * len(ids)), pa.uint64()),
                "at": pa.array([datetime(2026, 10, 5, tzinfo=UTC)] * len(ids), pa.timestamp("ms", tz="UTC")),
                "id": pa.array(ids, pa.uint64()),
            }
        )
        lake.put(f"trips/{PERIOD}/{number:02}.parquet", parquet(table))


def answer(lake: Lake, shape: Shape) -> tuple[int, int]:
    rows = lake.on_every_node(f"SELECT {shape.answer.format(f'{lake.database}.trips')}")
    # A node that read no file has nothing to add up, which is NULL in a Nullable column.
    return tuple(map(sum, zip(*((value or 0 for value in row[0]) for row in rows), strict=True)))


def merge(lake: Lake) -> None:
    lake.on_every_node(f"OPTIMIZE TABLE {lake.database}.trips FINAL")


@pytest.mark.thorough
@pytest.mark.parametrize("name", SHAPES)
def test_a_period_is_exact_and_merges_are_no_change(lake: Lake, name: str) -> None:
    shape = SHAPES[name]
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.trips (id UInt64, at DateTime('UTC'), version UInt8, sign Int8, "
        f"{shape.columns}) ENGINE = {shape.engine} PARTITION BY toYYYYMM(at) ORDER BY id {shape.clauses}"
    )
    upload(lake, 1)
    # Blocks so small that each node gets several parts, and merges have something to do.
    lake.load(settings={"min_insert_block_size_rows": 60, "max_block_size": 60, "max_insert_threads": 1})
    assert answer(lake, shape) == expected(shape, 1)
    merge(lake)
    assert answer(lake, shape) == expected(shape, 1)
    assert lake.load()["status"] == "unchanged"
    upload(lake, 2)
    assert lake.load()["reason"] == "its objects changed since it was published"
    merge(lake)
    assert answer(lake, shape) == expected(shape, 2)


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
