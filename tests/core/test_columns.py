"""Which columns are loaded, from what, and how a value that does not fit is refused."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.columns import LoadedColumn, Selection, SourceSchema, plain_columns, text_schema
from airflow_provider_chs3.core.formats import format_named
from airflow_provider_chs3.core.target_facts import Column
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError

ID, AT, NOTE = Column("id", "UInt64"), Column("at", "DateTime"), Column("note", "String", "DEFAULT", "''")
COMPUTED = [
    Column("m", "UInt64", "MATERIALIZED", "id"),
    Column("a", "UInt64", "ALIAS", "id"),
]
RAW = Column("e", "UInt64", "EPHEMERAL")


def loaded(column_type: str, source_type: str, source: str = "x") -> LoadedColumn:
    return LoadedColumn(Column("c", column_type), source, source_type)


class TestSelection:
    def test_takes_all_columns_that_an_insert_gives_values_to(self):
        assert Selection().wanted([ID, *COMPUTED, NOTE, RAW]) == [ID, NOTE, RAW]

    def test_columns_come_in_the_users_order(self):
        assert Selection(columns=("at", "id")).wanted([ID, AT, NOTE]) == [AT, ID]

    def test_select_names_its_columns_in_order(self):
        assert Selection(select={"note": "x", "id": "y"}).wanted([ID, AT, NOTE]) == [NOTE, ID]

    @pytest.mark.parametrize("selection", [Selection(columns=("id", "nope")), Selection(select={"nope": "1"})])
    def test_an_unknown_column_is_told_with_the_known_ones(self, selection):
        with pytest.raises(ConfigurationError, match="'nope': no such column to load in the target; it takes id, at"):
            selection.wanted([ID, AT])

    @pytest.mark.parametrize("column", COMPUTED, ids=lambda column: column.default_kind)
    def test_a_computed_column_cannot_be_loaded(self, column):
        with pytest.raises(ConfigurationError, match="no such column to load"):
            Selection(columns=(column.name,)).wanted([ID, column])

    def test_a_column_goes_in_once(self):
        with pytest.raises(ConfigurationError, match="names a column twice"):
            Selection(columns=("id", "id"))

    def test_columns_and_select_exclude_each_other(self):
        with pytest.raises(ConfigurationError, match="exclude each other"):
            Selection(columns=("id",), select={"id": "1"})


class TestCast:
    @pytest.mark.parametrize(
        ("column_type", "source_type", "expected"),
        [
            ("UInt64", "UInt64", "x"),
            ("Nullable(String)", "Nullable(String)", "x"),
            ("UInt16", "Nullable(Int64)", "accurateCast(x, 'UInt16')"),
            ("UInt64", "Nullable(UInt64)", "accurateCast(x, 'UInt64')"),
            ("Enum8('a' = 1)", "String", r"accurateCast(x, 'Enum8(\'a\' = 1)')"),
            ("LowCardinality(String)", "String", "accurateCast(x, 'LowCardinality(String)')"),
            ("Float32", "Nullable(Int64)", "accurateCast(x, 'Float32')"),
            ("Int32", "Float64", "accurateCast(x, 'Int32')"),
        ],
    )
    def test_refuses_what_does_not_fit(self, column_type, source_type, expected):
        assert loaded(column_type, source_type).cast(null_as_default=False) == expected

    @pytest.mark.parametrize("source_type", ["Float64", "Nullable(Float64)", "BFloat16"])
    def test_rounds_only_floats_to_floats(self, source_type):
        assert loaded("Float32", source_type).cast(null_as_default=False) == "CAST(x, 'Float32')"

    @pytest.mark.parametrize(
        ("column_type", "expected"),
        [
            ("UInt16", "Nullable(UInt16)"),
            ("Nullable(UInt16)", "Nullable(UInt16)"),
            ("LowCardinality(String)", "LowCardinality(Nullable(String))"),
            ("LowCardinality(Nullable(String))", "LowCardinality(Nullable(String))"),
            ("Array(UInt8)", "Array(UInt8)"),
            ("Map(String, UInt8)", "Map(String, UInt8)"),
        ],
    )
    def test_keeps_null_where_it_is_to_become_the_default(self, column_type, expected):
        assert loaded(column_type, "Nullable(Int8)").cast(null_as_default=True) in (
            f"accurateCast(x, '{expected}')",
            "x",
        )


class TestMisfit:
    """The condition goes with the cast: true for the values that the cast refuses."""

    NULL = "isNull(x)"

    @staticmethod
    def bad(column_type: str) -> str:
        return f"(isNotNull(x) AND isNull(accurateCastOrNull(x, '{column_type}')))"

    def test_asks_for_null_and_for_bad_values(self):
        condition = loaded("UInt8", "Nullable(Int64)").misfit(null_as_default=False)
        assert condition == f"({self.NULL} OR {self.bad('UInt8')})"

    @pytest.mark.parametrize("column_type", ["Nullable(UInt8)", "LowCardinality(Nullable(UInt8))"])
    def test_null_fits_a_column_that_can_hold_it(self, column_type):
        assert loaded(column_type, "Nullable(Int64)").misfit(null_as_default=False) == self.bad("UInt8")

    def test_null_fits_where_it_becomes_the_default(self):
        assert loaded("UInt8", "Nullable(Int64)").misfit(null_as_default=True) == self.bad("UInt8")

    @pytest.mark.parametrize(
        ("column_type", "source_type"),
        [
            ("UInt8", "Nullable(UInt8)"),
            ("Float32", "Nullable(Float64)"),
            ("Array(UInt8)", "Array(Int128)"),
            ("JSON", "JSON"),
        ],
    )
    def test_only_null_is_asked_where_every_value_fits_or_cannot_be_asked(self, column_type, source_type):
        assert loaded(column_type, source_type).misfit(null_as_default=False) == self.NULL

    @pytest.mark.parametrize("source_type", ["String", "Int64"])
    def test_a_float_is_asked_where_the_source_is_none(self, source_type):
        assert self.bad("Float32") in loaded("Float32", source_type).misfit(null_as_default=False)

    @pytest.mark.parametrize("column_type", ["Variant(String, UInt8)", "Dynamic", "Dynamic(max_types=3)"])
    def test_nothing_is_asked_of_types_that_hold_null_and_anything(self, column_type):
        assert loaded(column_type, "Nullable(String)").misfit(null_as_default=False) is None

    def test_nothing_is_asked_where_all_fits(self):
        assert loaded("Nullable(UInt8)", "Nullable(UInt8)").misfit(null_as_default=False) is None


class TestPlainColumns:
    @staticmethod
    def schema(**by_file: str) -> SourceSchema:
        files = {path: dict.fromkeys(names.split(), "Int64") for path, names in by_file.items()}
        return SourceSchema(
            types={name: kind for types in files.values() for name, kind in types.items()}, rows=1, by_file=files
        )

    def test_each_comes_from_the_one_of_its_name(self):
        assert plain_columns([AT, ID], self.schema(a="id at")) == [
            LoadedColumn(AT, "`at`", "Int64"),
            LoadedColumn(ID, "`id`", "Int64"),
        ]

    def test_hostile_names_are_quoted(self):
        schema = SourceSchema(types={"x`; DROP": "Int64"}, rows=1)
        assert plain_columns([Column("x`; DROP", "Int64")], schema)[0].source == "`x\\`; DROP`"

    def test_a_column_that_one_file_lacks_is_an_error_that_names_both(self):
        with pytest.raises(SourceError, match="Column 'at' is missing in b: mend the file, or name the columns"):
            plain_columns([ID, AT], self.schema(a="id at", b="id"))

    def test_a_column_that_no_file_has_is_an_error(self):
        with pytest.raises(SourceError, match="Column 'at' is missing in a"):
            plain_columns([ID, AT], self.schema(a="id"))

    def test_a_column_that_no_file_has_may_take_its_default(self):
        assert [each.column for each in plain_columns([ID, NOTE], self.schema(a="id", b="id"))] == [ID]

    def test_a_column_that_some_files_have_may_not_take_its_default(self):
        with pytest.raises(SourceError, match="Column 'note' is missing in b"):
            plain_columns([ID, NOTE], self.schema(a="id note", b="id"))

    def test_names_are_compared_with_their_case(self):
        with pytest.raises(SourceError, match="Column 'id' is missing in a"):
            plain_columns([ID], self.schema(a="ID"))


class TestTextSchema:
    CSV, CSV_WITH_NAMES = format_named("CSV"), format_named("CSVWithNames")

    def test_types_come_from_the_target(self):
        schema = text_schema(self.CSV_WITH_NAMES, [ID, NOTE], {"f": {"id": "Int64", "note": "Int64"}})
        assert schema.types == {"id": "Nullable(Int128)", "note": "String"}

    def test_other_columns_are_text(self):
        schema = text_schema(self.CSV_WITH_NAMES, [ID], {"f": {"id": "Int64", "extra": "Date"}})
        assert schema.types["extra"] == "Nullable(String)"

    def test_a_column_that_files_do_not_have_is_not_read(self):
        assert "note" not in text_schema(self.CSV_WITH_NAMES, [ID, NOTE], {"f": {"id": "Int64"}}).types

    def test_without_names_columns_go_by_their_order(self):
        assert text_schema(self.CSV, [AT, ID], {}).structure == "`at` Nullable(DateTime), `id` Nullable(Int128)"

    def test_rows_are_not_known(self):
        assert text_schema(self.CSV, [ID], {}).rows is None

    def test_hostile_names_are_quoted_in_the_structure(self):
        assert SourceSchema(types={"a`b, c": "Int8"}, rows=0).structure == "`a\\`b, c` Int8"
