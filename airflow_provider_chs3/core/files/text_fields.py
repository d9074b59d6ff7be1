"""The dialect of text files, and the types as which their fields are read.

ClickHouse parses a field by the requested type, and some types accept what they should not: a quoted empty field is 0
as a number, and 31 February is 3 March. So most fields are read as text, and cast afterwards.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_provider_chs3.core.arguments.declaration import Group, argument
from airflow_provider_chs3.core.model.models import SettingValue
from airflow_provider_chs3.core.model.store_kind import Format
from airflow_provider_chs3.core.sql.casts import is_variant_of_scalars, roomy_type, shape_for
from airflow_provider_chs3.core.sql.column_types import COMPOUND, ColumnType
from airflow_provider_chs3.core.sql.quoting import identifier, literal
from airflow_provider_chs3.core.sql.server_casts import TEXTS, is_integer
from airflow_provider_chs3.exceptions import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Dialect(Group):
    """The dialect of CSV files."""

    group = "csv"

    delimiter: str = argument(",", "Character between fields.")
    quote: str = argument(
        '"', "Quote around fields; empty where quotes are ordinary characters.", choices=('"', "'", "")
    )
    null: str = argument(
        "\\N",
        "A field that means NULL, quoted or not. An empty unquoted field means NULL too, except in a text column that "
        "cannot be NULL.",
    )
    skip_lines: int = argument(0, "Lines to skip before the header, or before the first row without a header.", least=0)
    trim: bool = argument(False, "Whether to trim spaces and tabs around unquoted fields.")
    blank_lines: str = argument(
        "fail", "`fail`, or `skip_last`, which skips empty lines at the end.", choices=("fail", "skip_last")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in "\r\n\"'":
            raise ConfigurationError(f"csv['delimiter']={self.delimiter!r} is not a single character, such as ';'.")

    @property
    def settings(self) -> dict[str, SettingValue]:
        """The settings for reading this dialect."""
        return {
            "format_csv_delimiter": self.delimiter,
            "input_format_csv_allow_whitespace_or_tab_as_delimiter": int(self.delimiter in "\t "),
            "format_csv_allow_double_quotes": int(self.quote == '"'),
            "format_csv_allow_single_quotes": int(self.quote == "'"),
            "input_format_csv_skip_first_lines": self.skip_lines,
            "input_format_csv_trim_whitespaces": int(self.trim),
            "input_format_csv_skip_trailing_empty_lines": int(self.blank_lines == "skip_last"),
        }


#: No field has this value: ClickHouse would read NULL as empty text where a column cannot be NULL, so NULL is detected
#: later.
_NO_MARKER = "\1chs3: no field\1"

#: For every format. Names are case-sensitive, and columns that are not requested are ignored.
_ALWAYS: dict[str, SettingValue] = {
    "input_format_column_name_matching_mode": "match_case",
    "input_format_parquet_case_insensitive_column_matching": 0,
    "input_format_orc_case_insensitive_column_matching": 0,
    "input_format_arrow_case_insensitive_column_matching": 0,
    "input_format_skip_unknown_fields": 1,
    # A file column named like a virtual column would be compared in its place.
    "input_format_parquet_filter_push_down": 0,
    "input_format_parquet_bloom_filter_push_down": 0,
    "input_format_parquet_page_filter_push_down": 0,
    "input_format_parquet_dictionary_filter_push_down": 0,
    "input_format_orc_filter_push_down": 0,
    # The default of newer servers: without it 25.8 cannot read ISO 8601 times.
    "cast_string_to_date_time_mode": "best_effort",
    "date_time_input_format": "best_effort",
    # In a file without a header a first row of text would be read as one.
    "input_format_csv_detect_header": 0,
    "input_format_tsv_detect_header": 0,
    # JSON in Parquet is text: parsing would rewrite it, with 31 February as 3 March.
    "input_format_parquet_enable_json_parsing": 0,
    # A column that they do not read matters only to those who load it.
    "input_format_arrow_skip_columns_with_unsupported_types_in_schema_inference": 1,
    "input_format_csv_empty_as_default": 1,
    "input_format_tsv_empty_as_default": 0,
    # In Dynamic and JSON columns 31 February would become 2 March, and a time lose its zone: text stays text.
    "input_format_try_infer_dates": 0,
    "input_format_try_infer_datetimes": 0,
    "input_format_json_read_numbers_as_strings": 1,
    # The default since 26: in earlier versions a sixth of all doubles differ from the text in their last bit.
    "precise_float_parsing": 1,
    # The default of newer servers: without it 25.8 has no type for a Variant or a text.
    "use_variant_as_common_type": 1,
    "input_format_json_read_bools_as_strings": 1,
    "input_format_json_read_objects_as_strings": 1,
}


def reading_settings(
    dialect: Dialect,
    *,
    has_nested_containers: bool,
    has_whole_objects: bool = False,
    has_escaped_labels: bool = False,
    has_shapes: bool = False,
) -> dict[str, SettingValue]:
    """Return the settings that decide how fields are read."""
    return {
        **_ALWAYS,
        **dialect.settings,
        "format_csv_null_representation": _NO_MARKER,
        "input_format_import_nested_json": int(not has_whole_objects),
        "input_format_json_defaults_for_missing_elements_in_named_tuple": int(not has_nested_containers),
        "input_format_json_ignore_unknown_keys_in_named_tuple": int(not has_escaped_labels),
        "input_format_parquet_allow_geoparquet_parser": int(has_shapes),
    }


#: Names of these settings.
READING_SETTING_NAMES = frozenset(reading_settings(Dialect(), has_nested_containers=False))

#: The type of a text field that an expression reads.
TEXT_TYPE = "Nullable(String)"
_NUMBER_TYPE = "Nullable(Float64)"

#: Read as they are: ClickHouse decides what is in them.
_READ_AS_IS = ("Variant", "Dynamic", "AggregateFunction", "Nothing")
#: Those that take a text as it is.
_OF_ANY_TEXT = ("Variant", "Dynamic")
#: Integers that a double holds to the last digit: nearly all writers of JSON write numbers as doubles, and ClickHouse
#: takes five times as long to read a number as text.
_INTEGERS_OF_A_DOUBLE = ("Int8", "Int16", "Int32", "UInt8", "UInt16", "UInt32")
_DIGITS_OF_A_DOUBLE = 15
#: Writers escape quotes and what is not ASCII, and some also `&`, `<`, `>`, `'`, `+` and `/`.
_NEVER_ESCAPED = re.compile(r"[A-Za-z0-9_ .,:;@#$%*()\[\]{}|~^?!=-]*")
_HAS_EMPTY_LABEL = re.compile(r"Enum.*[(,] *'' *=")
#: Stands for a key that a line of JSON has not got, in columns that cannot be NULL.
_NO_KEY = literal("\0chs3: no such key")


@dataclass(frozen=True)
class TextField:
    """The way in which a field of a text file is read."""

    type: str
    source: str
    default: str = ""
    kept: str = ""
    null: str = ""


def read_as(
    name: str,
    column_type: str,
    *,
    file_format: Format,
    null_marker: str,
    may_be_null: bool,
    has_exact_doubles: bool = True,
) -> TextField:
    """Return how the field of a column is read."""
    column, wanted = identifier(name), ColumnType(column_type)
    may_be_null = may_be_null or wanted.holds_null
    is_json = file_format.name == "JSONEachRow"
    # A Variant would read an empty field of CSV as 0, and the mark for NULL as a text; a Dynamic takes " 1" of TSV for
    # 0, and 31 February for 2 March.
    # In JSON, "" and "007" are numbers to a Variant that has any.
    if (is_json and _is_any_json(wanted.bare)) or (
        wanted.bare.name in _READ_AS_IS and wanted.bare.name not in _OF_ANY_TEXT
    ):
        return TextField(column_type, column)
    if is_json:
        return _read_json(column, wanted, may_be_null=may_be_null, has_exact_doubles=has_exact_doubles)
    if wanted.bare.name == "Map":
        return _read_map(column, roomy_type(wanted.bare))
    if file_format.name.startswith("TabSeparated") and wanted.bare.name in COMPOUND:
        # Its texts are escaped once, and not once more as a text.
        return TextField(roomy_type(wanted).text, column)
    if file_format.name.startswith("TabSeparated"):
        # An Enum may have a name for an empty text.
        is_text = wanted.bare.name in (*TEXTS, *_OF_ANY_TEXT) or _HAS_EMPTY_LABEL.search(column_type)
        return TextField(TEXT_TYPE, column if is_text else f"nullIf({column}, '')")
    if may_be_null:
        return TextField(TEXT_TYPE, f"nullIf({column}, {literal(null_marker)})")
    # An empty field is an empty text here, so that it cannot be read as NULL. The marker may be a number, such as -1.
    null = literal(null_marker)
    return TextField("String", column, kept=f"{column} != {null}", null=null)


def _read_map(column: str, read: ColumnType) -> TextField:
    """Read a Map as one, because ClickHouse casts no text to a Map: an empty field of CSV shows by its default."""
    key, value = (f"defaultValueOfTypeName({literal(inner.text)})" for inner in read.inner)
    default = f"CAST([({key}, {value}), ({key}, {value})], {literal(read.text)})"
    return TextField(read.text, column, default=default, kept=f"{column} != {default}")


def _read_json(column: str, wanted: ColumnType, *, may_be_null: bool, has_exact_doubles: bool) -> TextField:
    bare = shape_for(wanted.bare, wanted.bare)
    if bare.name in COMPOUND:
        read = _json_container(wanted)
        if read.holds_null:
            return TextField(read.text, column)
        default = f"CAST({_no_key(read)}, {literal(read.text)})"
        # Values of any type have no order.
        text, other = (f"toString({value})" if any(read.parts(*_OF_ANY_TEXT)) else value for value in (column, default))
        return TextField(read.text, column, default=default, kept=f"{text} != {other}")
    if bare.name == "JSON":
        return TextField(TEXT_TYPE, column, kept="" if may_be_null else f"isNotNull({column})")
    if bare.name == "Bool":
        return TextField("Nullable(Bool)", column)
    if bare.name in _INTEGERS_OF_A_DOUBLE or (has_exact_doubles and _fits_a_double(bare)):
        kept = f"NOT isInfinite({column})" if bare.name.startswith(("Float", "BFloat")) else ""
        return TextField(_NUMBER_TYPE, column, kept=kept)
    # As pandas writes integers of a column that has NULLs.
    whole = f"if(endsWith({column}, '.0'), left({column}, length({column}) - 2), {column})"
    return TextField(TEXT_TYPE, whole if is_integer(bare) else column)


def _fits_a_double(bare: ColumnType) -> bool:
    if bare.name == "Decimal":
        return bare.precision <= _DIGITS_OF_A_DOUBLE
    return bare.name in ("Float32", "Float64", "BFloat16")


def _json_container(wanted: ColumnType) -> ColumnType:
    """Return a type of the same shape, with a text for each value but those whose type ClickHouse chooses by it.

    A Tuple holds NULL where the column's does.
    """
    bare = shape_for(wanted.bare, wanted.bare)
    if _is_any_json(bare):
        return wanted
    if bare.name not in COMPOUND:
        return ColumnType(TEXT_TYPE)
    inner = [_json_container(inner) for inner in bare.inner]
    if bare.name == "Map":
        inner[0] = ColumnType("String")
    read = bare.with_inner(inner)
    return ColumnType(f"Nullable({read})") if wanted.holds_null else read


def _is_any_json(bare: ColumnType) -> bool:
    """Check whether the form of a value in JSON decides about its type: 1 and "1" differ there."""
    return bare.name in _READ_AS_IS and not is_variant_of_scalars(bare)


def _no_key(read: ColumnType) -> str:
    read = read.bare
    if read.name == "Array":
        return f"[{_no_key(read.inner[0])}]"
    if read.name == "Map":
        return f"map({', '.join(map(_no_key, read.inner))})"
    return f"tuple({', '.join(map(_no_key, read.inner))})" if read.name == "Tuple" else _NO_KEY


def has_escaped_labels(wanted: ColumnType) -> bool:
    """Check whether the name of a Tuple's element may be escaped in JSON, where ClickHouse does not recognize it."""
    return not all(_NEVER_ESCAPED.fullmatch(label) for part in wanted.bare.parts(*COMPOUND) for label in part.labels)


def lacks_elements_of_containers(wanted: ColumnType) -> bool:
    """Check whether a Tuple holds an Array, Map or Tuple, which would be empty if a line of JSON lacks it."""
    return any(inner.bare.name in COMPOUND for part in wanted.bare.parts("Tuple") for inner in part.inner)
