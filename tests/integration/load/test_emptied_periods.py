"""Periods that somebody empties where merges may leave nothing of a partition: noticed, if merges would leave a row."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.operators.ledger import AdoptPeriodsOperator
from tests.support.arguments import grouped
from tests.support.lake import PERIOD, Lake
from tests.support.refusal import parquet
from tests.support.sets import MONTHLY, Tenants
from tests.support.strikes import Strikes, strikes

#: Engine with its clauses, and the columns of the files, each row of which lasts.
ENGINES = {
    "summing": ("SummingMergeTree(sign)", ""),
    "collapsing": ("CollapsingMergeTree(sign)", ""),
    "deleting": (
        "ReplacingMergeTree(version, is_deleted)",
        "SETTINGS allow_experimental_replacing_merge_with_cleanup = 1",
    ),
}
EMPTYING = {
    "truncated": "TRUNCATE TABLE {}",
    "dropped": "ALTER TABLE {} DROP PARTITION 202610",
    "detached": "ALTER TABLE {} DETACH PARTITION 202610",
    "deleted": "ALTER TABLE {} DELETE WHERE 1 SETTINGS mutations_sync = 2",
}
#: A fixture.
__all__ = ["strikes"]
COLUMNS = "id,at,version,sign,is_deleted"


def create(lake: Lake, engine: str) -> str:
    name, (kind, clauses) = f"{lake.database}.trips", ENGINES.get(engine, (engine, ""))
    lake.on_every_node(
        f"CREATE TABLE {name} (id UInt64, at DateTime('UTC'), version UInt8, sign Int8, is_deleted UInt8) "
        f"ENGINE = {kind} PARTITION BY toYYYYMM(at) ORDER BY id {clauses}"
    )
    return name


def put(lake: Lake, name: str, *rows: tuple[int, int, int, int]) -> None:
    lines = (f"{number},{PERIOD}-05 00:00:00,{','.join(map(str, others))}" for number, *others in rows)
    lake.put(f"trips/{PERIOD}/{name}.csv", "\n".join([COLUMNS, *lines, ""]).encode())


def load(lake: Lake, **options: Any) -> str:
    return str(lake.load(file_format="CSVWithNames", **options)["status"])


def rows(lake: Lake) -> list[tuple[Any, ...]]:
    found = lake.on_every_node(f"SELECT id, version, sign, is_deleted FROM {lake.database}.trips")
    return sorted(row for of_node in found for row in of_node)


FIRST = [(number, 1, 1, 0) for number in range(60)]


def put_first(lake: Lake) -> None:
    for number in range(6):
        put(lake, f"{number}", *FIRST[10 * number : 10 * number + 10])


@pytest.mark.three_nodes
@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("emptied", EMPTYING)
def test_a_node_that_somebody_emptied_is_a_change(lake: Lake, emptied: str, engine: str) -> None:
    name = create(lake, engine)
    put_first(lake)
    assert load(lake) == "published"
    lake.on_every_node(f"OPTIMIZE TABLE {name} FINAL")
    assert load(lake) == "unchanged"
    (filled, *_) = (number for number, rows_of_node in enumerate(lake.rows_per_node()) if rows_of_node)
    lake.on_node(filled, EMPTYING[emptied].format(name))
    with pytest.raises(AirflowFailException, match="the partition was changed since it was published"):
        load(lake)
    assert load(lake, on_target_changed="reload") == "published"
    assert rows(lake) == FIRST
    assert load(lake) == "unchanged"


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["summing", "deleting"])
def test_what_merges_leave_is_judged_by_all_that_a_period_holds(lake: Lake, engine: str) -> None:
    name = create(lake, engine)
    put_first(lake)
    assert load(lake) == "published"
    undone, again = ((2, -1, 0), (3, 1, 0)) if engine == "summing" else ((2, 1, 1), (3, 1, 0))
    put(lake, "undone", *((number, *undone) for number, *_ in FIRST))
    assert load(lake) == "published"
    lake.on_every_node(f"OPTIMIZE TABLE {name} FINAL {'CLEANUP' if engine == 'deleting' else ''}")
    assert rows(lake) == []
    assert load(lake) == "unchanged"
    put(lake, "z_again", *((number, *again) for number, *_ in FIRST))
    assert load(lake) == "published"
    lake.on_every_node(f"TRUNCATE TABLE {name}")
    with pytest.raises(AirflowFailException, match="the partition was changed since it was published"):
        load(lake)


@pytest.mark.thorough
@pytest.mark.parametrize("added", [False, True])
def test_one_of_several_partitions_of_a_period(lake: Lake, added: bool) -> None:
    tenants = Tenants(lake, MONTHLY, engine="SummingMergeTree(amount)", columns="amount Int64 DEFAULT 1")
    tenants.put("2026-10", "a", ("eu", 1), ("us", 2))
    assert tenants.load(period="2026-10") == ["published"]
    if added:
        tenants.put("2026-10", "b", ("us", 3))
        assert tenants.load(period="2026-10") == ["published"]
    lake.on_every_node(f"ALTER TABLE {tenants.name} DROP PARTITION ('eu', 202610)")
    with pytest.raises(AirflowFailException, match="the partition was changed since it was published"):
        tenants.load(period="2026-10")
    assert tenants.load(period="2026-10", on_target_changed="reload") == ["published"]
    tenants.assert_exact()


@pytest.mark.thorough
def test_a_period_that_a_dead_load_has_left_unfinished(lake: Lake, strikes: Strikes) -> None:
    name = create(lake, "summing")
    put_first(lake)

    strikes.die("before", f"Record {PERIOD} as published", lambda: load(lake))
    assert load(lake) == "published"
    lake.on_every_node(f"TRUNCATE TABLE {name}")
    with pytest.raises(AirflowFailException, match="the partition was changed since it was published"):
        load(lake)


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["summing", "ReplacingMergeTree"])
def test_who_empties_a_period_right_after_it_was_replaced(lake: Lake, strikes: Strikes, engine: str) -> None:
    name = create(lake, engine)
    put_first(lake)
    strikes.before("Look for replaced parts", lambda: lake.on_every_node(f"TRUNCATE TABLE {name}"))
    with pytest.raises(AirflowFailException, match="holds 0 rows of 2026-10 right after publishing"):
        load(lake)
    strikes.reset()
    assert load(lake) == "published"
    assert rows(lake) == FIRST


def test_an_adopted_period(lake: Lake) -> None:
    name = create(lake, "summing")
    lake.on_node(0, f"INSERT INTO {name} SELECT number, '{PERIOD}-05', 1, 1, 0 FROM numbers({len(FIRST)})")
    at = pa.array([datetime(2026, 10, 5, tzinfo=UTC)] * len(FIRST), pa.timestamp("ms", tz="UTC"))
    ones = {column: [1] * len(FIRST) for column in ("version", "sign")}
    table = pa.table({"id": range(len(FIRST)), "at": at, **ones, "is_deleted": [0] * len(FIRST)})
    lake.put(f"trips/{PERIOD}/a.parquet", parquet(table))
    source = {"bucket": lake.bucket, "key": "trips/{YYYY-MM}/"}
    (adopted,) = AdoptPeriodsOperator(**grouped(task_id="adopt", periods=[PERIOD], **lake.target, **source)).execute({})
    assert adopted["status"] == "adopted"
    assert lake.load()["status"] == "unchanged"
    lake.on_node(0, f"TRUNCATE TABLE {name}")
    with pytest.raises(AirflowFailException, match="the partition was changed since it was published"):
        lake.load()
