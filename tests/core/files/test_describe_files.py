"""Columns of single files: many are asked for at the same time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_provider_chs3.core.files.describe_files import describe, row_width_bytes, shape_of
from airflow_provider_chs3.core.files.file_set import Files, Reading
from airflow_provider_chs3.core.files.key_template import KeyTemplate
from airflow_provider_chs3.core.files.loaded_columns import FileGroup
from airflow_provider_chs3.core.model.models import Manifest, Unit
from airflow_provider_chs3.core.model.store_kind import format_named
from airflow_provider_chs3.core.steps.operations import Gather, Log
from airflow_provider_chs3.sources.s3.reading import Credentials, S3Source
from tests.support.driving import drive

SOURCE = S3Source("bucket", KeyTemplate("{YYYY-MM}/"), "http://s3", Credentials(), base="bucket/")
FILES = Files(SOURCE, Manifest.of([]), format_named("ORC"), "auto", None)


def paths_of(number):
    return [f"bucket/{each:03}.orc" for each in range(number)]


def described(step):
    """A column that has the file's name."""
    return [(step.name.rpartition("/")[2], "Int64")]


def test_every_file_has_its_own_columns_in_the_files_order():
    paths = paths_of(40)
    driven = drive(describe(FILES, paths), None, *[described] * 40)
    assert list(driven.result.items()) == [(path, {path.removeprefix("bucket/"): "Int64"}) for path in paths]


def test_of_many_files_sixteen_are_asked_at_a_time_and_that_is_said():
    workflow = describe(FILES, paths_of(40))
    said, together = next(workflow), workflow.send(None)
    assert isinstance(said, Log)
    assert said.name == "Read the columns of 40 files, 16 at a time"
    assert isinstance(together, Gather)
    assert len(together.workflows) == 16


def test_of_few_files_nothing_is_said():
    assert drive(describe(FILES, paths_of(2)), described, described).result.keys() == set(paths_of(2))


def test_of_no_files_nothing_is_asked():
    assert drive(describe(FILES, [])).result == {}


class TestTheShapeOfTheData:
    @staticmethod
    def files(file_format, *keys, size_bytes=600, compression="auto"):
        objects = [Unit(f"b/{key}", size_bytes, "e", datetime(2026, 11, 1, tzinfo=UTC)) for key in keys]
        source = S3Source(
            bucket="bucket", template=KeyTemplate("{YYYY-MM}/"), endpoint_url="", credentials=Credentials()
        )
        return Files(source, Manifest.of(objects), format_named(file_format), compression, "c")

    @pytest.mark.parametrize(
        ("file_format", "key", "share"),
        [("CSV", "a.csv", 600), ("CSV", "a.csv.gz", 1800), ("CSV", "a.csv.lz4", 1200), ("JSONEachRow", "a.jsonl", 300)],
    )
    def test_text_is_estimated_from_size_and_compression(self, file_format, key, share):
        reading = Reading(())
        shape = shape_of(self.files(file_format, key), reading, nodes=1, is_on_remote_disk=False)
        assert shape.share_bytes == share

    def test_a_compression_that_is_given_counts(self):
        files = self.files("CSV", "a", compression="xz")
        shape = shape_of(files, Reading(()), nodes=1, is_on_remote_disk=False)
        assert shape.share_bytes == 2400

    def test_parquets_footers_tell_bytes_and_rows(self):
        reading = Reading((FileGroup({"a": "Nullable(UInt64)"}, ()),), rows=30, uncompressed_bytes=900)
        shape = shape_of(self.files("Parquet", "a", "b", "c"), reading, nodes=3, is_on_remote_disk=True)
        assert (shape.share_bytes, shape.share_rows, shape.files_per_node) == (300, 10, 1)

    @pytest.mark.parametrize(("largest_period_bytes", "periods"), [(None, 1), (600, 3), (1500, 1)])
    def test_periods_together_count_as_many_as_the_largest_fits(self, largest_period_bytes, periods):
        files = self.files("CSV", "a", "b", "c")
        shape = shape_of(
            files, Reading(()), nodes=1, is_on_remote_disk=False, largest_period_bytes=largest_period_bytes
        )
        assert shape.periods == periods

    def test_values_take_at_least_their_width_in_memory(self):
        reading = Reading((FileGroup({"a": "Nullable(UInt64)"}, ()),), rows=300, uncompressed_bytes=900)
        assert shape_of(self.files("Parquet", "a"), reading, nodes=1, is_on_remote_disk=False).share_bytes == 2400

    @pytest.mark.parametrize(
        ("column_type", "width"),
        [("UInt8", 1), ("Nullable(Int128)", 16), ("LowCardinality(Nullable(String))", 8), ("DateTime64(3, 'UTC')", 8)],
    )
    def test_a_type_has_a_width(self, column_type, width):
        assert row_width_bytes({"a": column_type}) == width
