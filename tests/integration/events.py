"""A table of small events, of which each file becomes a part, and what people do to it."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.operators.ledger import AdoptPeriodsOperator
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from tests.support.arguments import grouped
from tests.support.lake import PERIOD, Lake

OTHER_PERIOD = "2026-09"
FILES = 18
#: Staging takes the table's settings over.
UNMERGED = "max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1"
CHANGED = "the partition was changed since it was published"


@pytest.fixture
def events(lake: Lake) -> Lake:
    """A lake of small events."""
    lake.table = "events"
    return lake


def create(lake: Lake, *, engine: str = "MergeTree", columns: str = "", ttl: str = "", settings: str = "") -> None:
    clauses = f"{ttl and f'TTL {ttl}'} SETTINGS {', '.join(filter(None, (UNMERGED, settings)))}"
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.events (at DateTime('UTC'), n Int64, kind String{columns}) ENGINE = {engine} "
        f"PARTITION BY toYYYYMM(at) ORDER BY n {clauses}"
    )
    lake.on_every_node(f"SYSTEM STOP MERGES {lake.database}.events")


def upload(lake: Lake, period: str = PERIOD, *, files: int = FILES, **columns: Any) -> None:
    """Files of ten events each, of which each becomes a part."""
    for number in range(files):
        values = {
            "at": pa.array([f"{period}-02"] * 10).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
            "n": pa.array(range(number * 10, number * 10 + 10), pa.int64()),
            "kind": pa.array([f"kind {number}"] * 10),
            **{name: pa.array([value] * 10) for name, value in columns.items()},
        }
        buffer = io.BytesIO()
        pq.write_table(pa.table(values), buffer)
        lake.put(f"events/{period}/{number}.parquet", buffer.getvalue())


def load(lake: Lake, period: str = PERIOD, **options: Any) -> dict[str, Any]:
    arguments = {
        "key": "events/{YYYY-MM}/",
        "period": period,
        # A block a file, and so several parts.
        "settings": {"max_insert_threads": 1, "min_insert_block_size_rows": 1, "min_insert_block_size_bytes": 1},
    }
    return lake.load(**(arguments | options))


def plan(lake: Lake, **options: Any) -> list[str]:
    arguments = {
        "task_id": "plan",
        **{**lake.place, "key": "events/{YYYY-MM}/", "table": "events"},
        "periods": [PERIOD],
        "definition": {},
    }
    return PlanLoadsOperator(**grouped(**(arguments | options))).execute({})


def published(lake: Lake, *periods: str, **options: Any) -> None:
    create(lake, **options)
    for period in periods or (PERIOD,):
        upload(lake, period)
        assert load(lake, period)["status"] == "published"


def parts(lake: Lake, number: int, period: str = PERIOD) -> list[str]:
    sql = (
        f"SELECT name FROM system.parts WHERE database = '{lake.database}' AND table = 'events' AND active AND rows "
        f"AND partition_id = '{period.replace('-', '')}' ORDER BY min_block_number"
    )
    return [name for (name,) in lake.on_node(number, sql)]


def fullest(lake: Lake) -> int:
    counts = [len(parts(lake, number)) for number in range(len(lake.cluster.nodes))]
    assert max(counts) >= 3
    return counts.index(max(counts))


def alter(lake: Lake, number: int, change: str, **settings: Any) -> None:
    with lake.cluster.nodes[number].client() as client:
        client.execute(f"ALTER TABLE {lake.database}.events {change}", settings={"mutations_sync": 2, **settings})


def merge(lake: Lake, number: int | None = None, period: str = PERIOD, *, how: str = "FINAL") -> None:
    for each in range(len(lake.cluster.nodes)) if number is None else (number,):
        lake.on_node(each, f"SYSTEM START MERGES {lake.database}.events")
        lake.on_node(each, f"OPTIMIZE TABLE {lake.database}.events PARTITION ID '{period.replace('-', '')}' {how}")


def refused(lake: Lake) -> None:
    assert plan(lake) == [PERIOD]
    with pytest.raises(AirflowFailException, match=CHANGED):
        load(lake)


def adopt(lake: Lake) -> None:
    (found,) = AdoptPeriodsOperator(
        task_id="adopt", periods=[PERIOD], **{**lake.place, "key": "events/{YYYY-MM}/", "table": "events"}
    ).execute({})
    assert found["status"] == "adopted"


def evidence(lake: Lake, number: int) -> str:
    sql = f"SELECT evidence FROM {lake.database}.chs3_ledger WHERE event = 'published' ORDER BY sequence DESC LIMIT 1"
    ((text,),) = lake.on_node(number, sql)
    return text


def count_records(lake: Lake) -> list[int]:
    return [rows[0][0] for rows in lake.on_every_node(f"SELECT count() FROM {lake.database}.chs3_ledger")]


def alter_ledger(lake: Lake, number: int, change: str) -> None:
    lake.on_node(number, f"ALTER TABLE {lake.database}.chs3_ledger {change} SETTINGS mutations_sync = 2")
