"""What a load took, in lines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_chs3.core.load.outcome import report
from airflow_provider_chs3.core.values.load_result import LoadResult
from airflow_provider_chs3.core.values.models import Month, TableName

RESULT = LoadResult(
    status="published",
    month=Month(2026, 10),
    target=TableName("db", "trips"),
    reason="never loaded",
    objects=6,
    source_bytes=3 * 1024**2,
    rows=3_000_000,
    loaded_objects=6,
    loaded_bytes=3 * 1024**2,
    loaded_rows=3_000_000,
    rows_by_node={"a:9000": 1_500_000, "b:9000": 1_500_000},
    parts=2,
    insert_seconds=1.5,
    peak_memory_bytes=1024**3,
    seconds_by_step={"list": 0.5, "insert": 1.5},
    query_ids=("q1",),
)


def test_it_tells_objects_rows_speed_parts_and_the_query():
    assert report(RESULT) == (
        "What it took:\n"
        "  source:  6 objects, 3.0 MiB\n"
        "  rows:    3,000,000 (1,500,000 on a:9000, 1,500,000 on b:9000)\n"
        "  insert:  1.5 s, 2,000,000 rows/s, 2.0 MiB/s of objects, at most 1.0 GiB of memory on a node\n"
        "  time:    2.0 s in all: list 0.5 s, insert 1.5 s\n"
        "  parts:   2 on 2 nodes\n"
        "  look at: system.query_log, query id q1"
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"objects": 1}, "look at: there are fewer objects (1) than nodes (2)"),
        ({"rows_by_node": {"a": 9, "b": 0, "c": 0}}, "look at: nodes have uneven shares"),
        ({"parts": 50}, "look at: 50 parts are many: wait for merges"),
        ({"other_month_rows": 7}, "; 7 of other months left out"),
    ],
)
def test_it_says_what_is_worth_a_look(change, text):
    assert text in report(replace(RESULT, **change))


def test_of_an_increment_it_tells_what_is_new():
    told = report(replace(RESULT, loaded_objects=1, loaded_bytes=1024, loaded_rows=3_000))
    assert "source:  1 new object, 1.0 KiB; 6 objects, 3.0 MiB, with those published before" in told
    assert "rows:    3,000,000, 3,000 of them new (" in told
    assert "insert:  1.5 s, 2,000 rows/s, 683 bytes/s of objects" in told


@pytest.mark.parametrize("change", [{"status": "unchanged"}, {"status": "skipped"}, {"insert_seconds": 0.0}])
def test_of_a_load_that_inserted_nothing_there_is_nothing_to_tell(change):
    assert report(replace(RESULT, **change)) == ""


def test_a_plain_insert_knows_no_parts():
    told = report(replace(RESULT, status="appended", rows_by_node={}, parts=0, peak_memory_bytes=None))
    assert "parts:" not in told
    assert "memory" not in told
