"""Formats by keys, and the types that text is read as."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.model.store_kind import format_named, format_of_key
from airflow_provider_chs3.exceptions import ConfigurationError


class TestFormatOfAKey:
    @pytest.mark.parametrize(
        ("key", "name"),
        [
            ("t/a.parquet", "Parquet"),
            ("t/A.PARQUET", "Parquet"),
            ("t/a.snappy.parquet", "Parquet"),
            ("a.orc", "ORC"),
            ("a.arrow", "Arrow"),
            ("a.native.lz4", "Native"),
            ("a.csv", "CSVWithNames"),
            ("a.csv.gz", "CSVWithNames"),
            ("a.csv.zst", "CSVWithNames"),
            ("a.tsv.bz2", "TabSeparatedWithNames"),
            ("a.jsonl", "JSONEachRow"),
            ("a.ndjson.xz", "JSONEachRow"),
            ("a.json.gzip", "JSONEachRow"),
            ("v1.2/x.csv/a.json", "JSONEachRow"),
        ],
    )
    def test_goes_by_its_ending(self, key, name):
        assert format_of_key(key).name == name

    @pytest.mark.parametrize(
        "key", ["a", "t.parquet/a", "a.txt", "a.gz", "gz", ".gz", "a.parquet.", "t/", "", "a.csv.zip"]
    )
    def test_an_ending_that_says_nothing_needs_a_format(self, key):
        with pytest.raises(
            ConfigurationError, match=r"names no format: set it, such as files={'file_format': 'Parquet'}"
        ):
            format_of_key(key)


class TestFormatByName:
    @pytest.mark.parametrize("name", ["Parquet", "CSV", "CSVWithNames", "JSONEachRow"])
    def test_is_the_servers_name(self, name):
        assert format_named(name).name == name

    @pytest.mark.parametrize("name", ["parquet", "", "Values", "CustomSeparated", "Parquet'"])
    def test_others_are_refused_with_the_known_ones(self, name):
        with pytest.raises(ConfigurationError, match=r"^files\['file_format'\]=.* use one of Parquet, ORC"):
            format_named(name)

    @pytest.mark.parametrize("name", ["Parquet", "ORC", "Arrow", "Native"])
    def test_these_carry_types(self, name):
        assert format_named(name).is_typed

    @pytest.mark.parametrize("name", ["CSV", "TabSeparated"])
    def test_these_carry_no_names(self, name):
        assert not format_named(name).names_columns
