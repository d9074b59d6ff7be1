"""Formats by keys, and the types that text is read as."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.formats import format_named, format_of_key, roomy_text_type
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
        with pytest.raises(ConfigurationError, match="names no format: give it, such as format='Parquet'"):
            format_of_key(key)


class TestFormatByName:
    @pytest.mark.parametrize("name", ["Parquet", "CSV", "CSVWithNames", "JSONEachRow"])
    def test_is_the_servers_name(self, name):
        assert format_named(name).name == name

    @pytest.mark.parametrize("name", ["parquet", "", "Values", "CustomSeparated", "Parquet'"])
    def test_others_are_refused_with_the_known_ones(self, name):
        with pytest.raises(ConfigurationError, match="use one of Parquet, ORC"):
            format_named(name)

    @pytest.mark.parametrize("name", ["Parquet", "ORC", "Arrow", "Native"])
    def test_these_carry_types(self, name):
        assert format_named(name).is_typed

    @pytest.mark.parametrize("name", ["CSV", "TabSeparated"])
    def test_these_carry_no_names(self, name):
        assert not format_named(name).names_columns


class TestTypeToReadTextAs:
    """Text formats wrap integers and turn missing fields into 0: read wider and nullable, both show."""

    @pytest.mark.parametrize(
        ("column_type", "expected"),
        [
            ("UInt8", "Nullable(Int128)"),
            ("Int64", "Nullable(Int128)"),
            ("UInt64", "Nullable(Int128)"),
            ("UInt128", "Nullable(Int256)"),
            ("Int256", "Nullable(Int256)"),
            ("Nullable(UInt16)", "Nullable(Int128)"),
            ("LowCardinality(UInt16)", "Nullable(Int128)"),
            ("String", "Nullable(String)"),
            ("LowCardinality(Nullable(String))", "Nullable(String)"),
            ("DateTime('Europe/Berlin')", "Nullable(DateTime('Europe/Berlin'))"),
            ("Decimal(18, 4)", "Nullable(Decimal(18, 4))"),
            ("Array(UInt8)", "Array(Int128)"),
            ("Map(String, UInt128)", "Map(String, Int256)"),
            ("Tuple(a UInt8, b Nullable(Int32))", "Tuple(a Int128, b Nullable(Int128))"),
            ("SimpleAggregateFunction(sum, UInt64)", "Nullable(SimpleAggregateFunction(sum, Int128))"),
        ],
    )
    def test_holds_more_than_the_column(self, column_type, expected):
        assert roomy_text_type(column_type, empty_is_text=False) == expected

    @pytest.mark.parametrize("name", ["Int8", "UInt64 or not", "it\\'s UInt8"])
    def test_names_of_enum_values_stay(self, name):
        column_type = f"Enum8('{name}' = 1)"
        assert roomy_text_type(column_type, empty_is_text=False) == f"Nullable({column_type})"

    @pytest.mark.parametrize("column_type", ["String", "FixedString(3)"])
    def test_an_empty_field_of_csv_is_text(self, column_type):
        assert roomy_text_type(column_type, empty_is_text=True) == column_type

    @pytest.mark.parametrize("column_type", ["Nullable(String)", "LowCardinality(Nullable(String))"])
    def test_unless_the_column_can_be_null(self, column_type):
        assert roomy_text_type(column_type, empty_is_text=True) == "Nullable(String)"

    def test_an_empty_field_of_csv_is_no_number(self):
        assert roomy_text_type("UInt8", empty_is_text=True) == "Nullable(Int128)"
