"""Which columns are loaded, from what, and how a value that does not fit is refused."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.files.loaded_columns import LoadedColumn, Selection, plain_columns, structure_of
from airflow_provider_chs3.core.sql.server_casts import Cast
from airflow_provider_chs3.core.target.table_facts import Column
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError

ID, AT, NOTE = Column("id", "UInt64"), Column("at", "DateTime"), Column("note", "String", "DEFAULT", "''")
COMPUTED = [
    Column("m", "UInt64", "MATERIALIZED", "id"),
    Column("a", "UInt64", "ALIAS", "id"),
]
RAW = Column("e", "UInt64", "EPHEMERAL")


def loaded(column_type: str, source_type: str, source: str = "x", *, null_as_default: bool = False) -> LoadedColumn:
    return LoadedColumn(Column("c", column_type), source, source_type, null_as_default=null_as_default)


class TestSelection:
    def test_takes_all_columns_that_an_insert_gives_values_to(self):
        assert Selection().wanted([ID, *COMPUTED, NOTE, RAW]) == [ID, NOTE, RAW]

    def test_columns_come_in_the_users_order(self):
        assert Selection(columns=("at", "id")).wanted([ID, AT, NOTE]) == [AT, ID]

    def test_select_names_its_columns_in_order(self):
        assert Selection(select={"note": "x", "id": "y"}).wanted([ID, AT, NOTE]) == [NOTE, ID]

    @pytest.mark.parametrize("selection", [Selection(columns=("id", "nope")), Selection(select={"nope": "1"})])
    def test_an_unknown_column_is_told_with_the_known_ones(self, selection):
        with pytest.raises(ConfigurationError, match=r"No such column to load in the target: 'nope'\. It takes id, at"):
            selection.wanted([ID, AT])

    @pytest.mark.parametrize("column", COMPUTED, ids=lambda column: column.default_kind)
    def test_a_computed_column_cannot_be_loaded(self, column):
        with pytest.raises(ConfigurationError, match="No such column to load"):
            Selection(columns=(column.name,)).wanted([ID, column])

    def test_a_column_goes_in_once(self):
        with pytest.raises(ConfigurationError, match="names a column twice"):
            Selection(columns=("id", "id"))

    def test_columns_and_select_exclude_each_other(self):
        with pytest.raises(ConfigurationError, match="Set either"):
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
    def test_fails_by_itself_where_the_server_refuses_what_does_not_fit(self, column_type, source_type, expected):
        assert loaded(column_type, source_type).cast == Cast(expected)

    @pytest.mark.parametrize("source_type", ["Float64", "Nullable(Float64)", "BFloat16"])
    def test_rounds_only_floats_to_floats(self, source_type):
        assert loaded("Float32", source_type).cast.value == "CAST(x, 'Float32')"

    @pytest.mark.parametrize(
        ("column_type", "expected"),
        [
            ("UInt16", "Nullable(UInt16)"),
            ("Nullable(UInt16)", "Nullable(UInt16)"),
            ("LowCardinality(String)", "LowCardinality(Nullable(String))"),
            ("LowCardinality(Nullable(String))", "LowCardinality(Nullable(String))"),
        ],
    )
    def test_keeps_null_where_it_is_to_become_the_default(self, column_type, expected):
        assert (
            loaded(column_type, "Nullable(Int8)", null_as_default=True).cast.value == f"accurateCast(x, '{expected}')"
        )

    def test_what_does_not_fit_is_no_null(self):
        made = "accurateCast(x, 'Nullable(UInt16)')"
        held = loaded("Nullable(UInt16)", "Nullable(String)").holds
        assert held == f"(isNull(x) OR ifNull(isNotNull({made}), 0))"

    def test_only_digits_before_the_point_are_compared_if_the_user_says_so(self):
        column, made = Column("c", "Decimal(9, 2)"), "accurateCast(x, 'Decimal(9, 2)')"
        lossy = LoadedColumn(column, "x", "Decimal(9, 3)", is_lossy=True)
        assert lossy.holds == f"abs({made}) < 10000000"
        exact = LoadedColumn(column, "x", "Decimal(9, 3)")
        assert exact.holds == f"{made} = x AND abs({made}) < 10000000"


class TestMisfit:
    """The condition goes with the cast: true for the values that the cast refuses."""

    NULL = "isNull(x)"

    @staticmethod
    def bad(column_type: str) -> str:
        return f"(isNotNull(x) AND NOT ifNull(isNotNull(accurateCastOrNull(x, '{column_type}')), 0))"

    def test_asks_for_null_and_for_bad_values(self):
        condition = loaded("UInt8", "Nullable(Int64)").misfit
        assert condition == f"({self.NULL} OR {self.bad('UInt8')})"

    @pytest.mark.parametrize("column_type", ["Nullable(UInt8)", "LowCardinality(Nullable(UInt8))"])
    def test_null_fits_a_column_that_can_hold_it(self, column_type):
        assert loaded(column_type, "Nullable(Int64)").misfit == self.bad("UInt8")

    def test_null_fits_where_it_becomes_the_default(self):
        assert loaded("UInt8", "Nullable(Int64)", null_as_default=True).misfit == self.bad("UInt8")

    def test_only_null_is_asked_where_every_value_fits(self):
        assert loaded("UInt8", "Nullable(UInt8)").misfit == self.NULL

    @pytest.mark.parametrize("column_type", ["Variant(String, UInt8)", "Dynamic", "Dynamic(max_types=3)"])
    def test_nothing_is_asked_of_types_that_hold_null_and_anything(self, column_type):
        assert loaded(column_type, "Nullable(String)").misfit is None

    def test_nothing_is_asked_where_all_fits(self):
        assert loaded("Nullable(UInt8)", "Nullable(UInt8)").misfit is None

    def test_each_value_of_an_array_is_asked(self):
        condition = loaded("Array(UInt8)", "Array(Nullable(Int64))").misfit
        bad = "(isNotNull(v1) AND NOT ifNull(isNotNull(accurateCastOrNull(v1, 'UInt8')), 0))"
        assert condition == f"arrayExists((v1) -> ifNull((isNull(v1) OR {bad}), 0), x)"


class TestPlainColumns:
    @staticmethod
    def columns(wanted: list[Column], **names_of: str) -> list[LoadedColumn]:
        files = {path: dict.fromkeys(names.split(), "Int64") for path, names in names_of.items()}
        return plain_columns(wanted, {name: kind for types in files.values() for name, kind in types.items()}, files)

    def test_each_comes_from_the_one_of_its_name(self):
        assert self.columns([AT, ID], a="id at") == [
            LoadedColumn(AT, "`at`", "Int64"),
            LoadedColumn(ID, "`id`", "Int64"),
        ]

    def test_hostile_names_are_quoted(self):
        found = plain_columns([Column("x`; DROP", "Int64")], {"x`; DROP": "Int64"}, {})
        assert found[0].source == "`x\\`; DROP`"

    def test_a_column_that_one_file_lacks_is_an_error_that_names_both(self):
        with pytest.raises(
            SourceError, match=r"Column 'at' is missing in b\. It has 'id'. Add it there, or name the columns"
        ):
            self.columns([ID, AT], a="id at", b="id")

    def test_a_column_that_no_file_has_is_an_error(self):
        with pytest.raises(SourceError, match="Column 'at' is missing in a"):
            self.columns([ID, AT], a="id")

    def test_a_column_that_no_file_has_may_take_its_default(self):
        assert [column.column for column in self.columns([ID, NOTE], a="id", b="id")] == [ID]

    def test_a_column_that_some_files_have_may_not_take_its_default(self):
        with pytest.raises(SourceError, match="Column 'note' is missing in b"):
            self.columns([ID, NOTE], a="id note", b="id")

    def test_names_are_compared_with_their_case(self):
        with pytest.raises(SourceError, match=r"Column 'id' is missing in a\. .* match exactly, and 'ID' does not"):
            self.columns([ID], a="ID")


def test_hostile_names_are_quoted_in_the_structure():
    assert structure_of({"a`b, c": "Int8"}, {"a`b, c": "7"}) == "`a\\`b, c` Int8 DEFAULT 7"
