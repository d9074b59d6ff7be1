"""How much a period's files hold, before they are read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_provider_chs3.core.files.data_volume import row_width_bytes, shape_of
from airflow_provider_chs3.core.files.file_groups import Reading
from airflow_provider_chs3.core.files.file_set import Files
from airflow_provider_chs3.core.files.key_template import KeyTemplate
from airflow_provider_chs3.core.files.loaded_columns import FileGroup
from airflow_provider_chs3.core.model.formats import format_named
from airflow_provider_chs3.core.model.models import Manifest, Unit
from airflow_provider_chs3.sources.s3.reading import Credentials, S3Source


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
