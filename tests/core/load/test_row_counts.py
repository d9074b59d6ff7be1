"""How rows of the source are known. See also `tests/integration/load/test_source_rows.py` and `tests/faults`."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest

from airflow_provider_chs3.core.files.file_set import Files
from airflow_provider_chs3.core.files.loaded_columns import FileGroup
from airflow_provider_chs3.core.files.source import Batch
from airflow_provider_chs3.core.load.resume import DoneInsert
from airflow_provider_chs3.core.load.row_counts import rows_of_source, source_read_of
from airflow_provider_chs3.core.model.store_kind import StoreKind, format_named
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.steps.operations import InsertStats, Query, Sleep, SourceRead
from airflow_provider_chs3.exceptions import SourceError, TransientError
from airflow_provider_chs3.sources.hdfs.reading import HDFS
from airflow_provider_chs3.sources.s3.reading import S3
from tests.core.surroundings import ONE, TWO
from tests.support.driving import drive, server_error

NODES = (ONE, TWO)
BATCH = Batch("{a,b}.csv", ("lake/a.csv", "lake/b.csv"))
ALL = SourceRead(2, 30)
REFUSED = dict.fromkeys(NODES, server_error(497))


def load(file_format: str = "CSV", *, count_again: bool = False, kind: StoreKind = S3):
    objects = (SimpleNamespace(path="lake/a.csv", size_bytes=10), SimpleNamespace(path="lake/b.csv", size_bytes=20))
    files = SimpleNamespace(
        source=SimpleNamespace(has_files=True, beginning_of=lambda batch: "lake/"),
        manifest=SimpleNamespace(objects=objects),
        format=format_named(file_format),
        look_settings={},
        read=lambda glob, structure: Sql("s3()"),
        look=lambda name, sql: Query(name=name, sql=sql),
    )
    files.check_found = partial(Files.check_found, files)
    policies = SimpleNamespace(count_again=count_again)
    return SimpleNamespace(
        files=files,
        policies=policies,
        request=SimpleNamespace(source=SimpleNamespace(kind=kind)),
        periods="2026-10",
        context=SimpleNamespace(nodes=NODES),
    )


def rows(under_way, read: SourceRead | None, *answers, read_rows: int = 5, seconds: float = 60):
    done = DoneInsert("insert1", InsertStats(seconds, read_rows, None, read))
    group = FileGroup(types={}, loaded=())
    under_way.planned = SimpleNamespace(reading=SimpleNamespace(rows=None, batches=lambda files: [(group, BATCH)]))
    return drive(rows_of_source(under_way, [done]), *answers)


def counted(rows_of_a: int, rows_of_b: int = 2):
    """Return the rows that a second read counts in each object, and in one that a wildcard opens beside them."""
    return [("lake/a.csv", rows_of_a), ("lake/b.csv", rows_of_b), ("lake/c.csv", 100)]


def told(*reads: SourceRead):
    return {node: [(read.files, read.size_bytes)] for node, read in zip(NODES, reads, strict=True)}


def counted_by(driven) -> tuple[int, str]:
    return driven.result


def test_each_object_once_and_to_its_end_is_proof():
    assert counted_by(rows(load(), ALL)) == (5, "insert")


@pytest.mark.parametrize("read", [SourceRead(3, 30), SourceRead(1, 10), SourceRead(2, 31)])
def test_anything_else_is_not(read):
    driven = rows(load(), read, None, counted(4))
    assert counted_by(driven) == (6, "second read")
    assert f"insert1 read {read.size_bytes} bytes of {read.files} objects, which are not the 30 bytes of 2" in (
        driven.steps[0].name
    )


def test_the_rows_that_were_read_count_and_not_those_that_are_staged():
    assert counted_by(rows(load(), ALL, read_rows=6)) == (6, "insert")


def test_text_that_was_cut_off_is_not_counted_at_all():
    with pytest.raises(TransientError, match=r"read 29 bytes of the 2 objects of 2026-10, which have 30"):
        rows(load(), SourceRead(2, 29))


def test_but_a_reader_that_seeks_may_leave_bytes_out():
    assert counted_by(rows(load("ORC"), SourceRead(2, 29), None, counted(3))) == (5, "second read")


def test_a_second_read_can_be_asked_for():
    assert counted_by(rows(load(count_again=True), ALL, None, counted(3))) == (5, "second read")


@pytest.mark.parametrize("path", ["/lake/a.csv", "a.csv"])
def test_files_that_servers_call_otherwise_than_the_listing_are_not_counted_as_none(path):
    with pytest.raises(
        SourceError, match=f"ClickHouse calls a file '{path}', but in the listing it begins with 'lake/'"
    ):
        rows(load(count_again=True), ALL, None, [(path, 2)])


def test_without_a_counter_of_bytes_text_is_read_twice():
    driven = rows(load(kind=HDFS), SourceRead(2, 0), None, counted(3))
    assert counted_by(driven) == (5, "second read")
    assert "servers do not count the bytes that they read from HDFS" in driven.steps[0].name


def test_logs_that_were_flushed_are_read_at_once():
    flushed = {node: [] for node in NODES}
    assert counted_by(rows(load(), None, flushed, told(SourceRead(1, 10), SourceRead(1, 20)))) == (5, "insert")


def test_others_are_waited_for():
    early, late = told(ALL, SourceRead(0, 0)), told(SourceRead(1, 10), SourceRead(1, 20))
    driven = rows(load(), None, REFUSED, told(SourceRead(1, 10), SourceRead(0, 0)), None, late)
    assert counted_by(driven) == (5, "insert")
    assert counted_by(rows(load(), None, REFUSED, early)) == (5, "insert")


@pytest.mark.parametrize(("insert_seconds", "waits"), [(2, 0), (9, 3), (3600, 10)])
def test_no_longer_than_a_second_read_would_take(insert_seconds, waits):
    nothing = told(SourceRead(0, 0), SourceRead(0, 0))
    looks = [nothing, *[None, nothing] * waits]
    driven = rows(load(), None, REFUSED, *looks, None, counted(3), seconds=insert_seconds)
    assert counted_by(driven) == (5, "second read")
    assert sum(isinstance(step, Sleep) for step in driven.steps) == waits


def test_a_user_who_may_not_read_the_logs_waits_for_nothing():
    driven = rows(load(), None, REFUSED, REFUSED, None, counted(3))
    assert counted_by(driven) == (5, "second read")
    assert "no server reports what insert1 read" in driven.steps[2].name


def test_no_counters_are_not_zero_bytes():
    assert source_read_of({}, S3.bytes_event) is None
    assert source_read_of({"Query": 1}, S3.bytes_event) == SourceRead(0, 0)
