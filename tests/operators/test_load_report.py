"""The report of a load in its task's log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_chs3.core.load.decision import LoadResult
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.operators._support.load_report import report

RESULT = LoadResult(
    status="published",
    period=Period.of_month(2026, 10),
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
    settings={"max_threads": 8, "max_insert_threads": "4", "max_memory_usage": 2 * 1024**3, "optimize_on_insert": 0},
)


def test_it_is_one_block_of_objects_rows_speed_steps_parts_settings_and_the_query():
    assert report(RESULT) == (
        f"{RESULT.summary()}\n"
        "  source:   6 objects, 3.0 MiB\n"
        "  rows:     3,000,000 (1,500,000 on a:9000, 1,500,000 on b:9000)\n"
        "  insert:   1.5 s, 2,000,000 rows/s, 2.0 MiB/s of objects, peak memory 1.0 GiB on a node\n"
        "  steps:    2.0 s in all: list 0.5 s, insert 1.5 s\n"
        "  parts:    2 on 2 nodes\n"
        "  settings: max_threads 8, max_insert_threads 4, max_memory_usage 2.0 GiB\n"
        "  look at:  system.query_log, query id q1"
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"objects": 1}, "look at:  there are fewer objects (1) than nodes (2)"),
        ({"rows_by_node": {"a": 9, "b": 0, "c": 0}}, "look at:  nodes have uneven shares"),
        ({"parts": 50}, "look at:  50 parts are a lot: wait for merges"),
        ({"other_period_rows": 7}, "; 7 of other periods left out"),
    ],
)
def test_it_says_what_is_worth_a_look(change, text):
    assert text in report(replace(RESULT, **change))


@pytest.mark.parametrize(
    ("rows_by_node", "text"),
    [
        ({"a": 60, "b": 95, "c": 25}, ""),
        ({"a": 180, "b": 0, "c": 0}, "uneven shares of the rows, and the busiest one sets the pace: set a key_column"),
    ],
)
def test_of_rows_of_a_database_it_says_nothing_of_objects_to_write(rows_by_node, text):
    told = report(replace(RESULT, objects=0, loaded_objects=0, rows_by_node=rows_by_node))
    assert "write" not in told
    assert "object" not in told
    assert text in told


def test_of_an_increment_it_tells_what_is_new():
    told = report(replace(RESULT, loaded_objects=1, loaded_bytes=1024, loaded_rows=3_000))
    assert "source:   1 new object, 1.0 KiB; 6 objects, 3.0 MiB, with those published before" in told
    assert "rows:     3,000,000, 3,000 of them new (" in told
    assert "insert:   1.5 s, 2,000 rows/s, 683 bytes/s of objects" in told


def test_of_held_rows_it_tells_how_many_there_are_and_nothing_of_the_table():
    told = report(replace(RESULT, status="held", rows=0, parts=0, rows_by_node={"a": 0, "b": 0}))
    assert "rows:     3,000,000 staged and held\n" in told
    assert "parts:" not in told


@pytest.mark.parametrize("change", [{"status": "unchanged"}, {"status": "skipped"}, {"insert_seconds": 0.0}])
def test_of_a_load_that_inserted_nothing_the_summary_is_all(change):
    result = replace(RESULT, **change)
    assert report(result) == result.summary()
