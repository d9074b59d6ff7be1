"""How CSV is written, where that is not the usual way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from airflow_provider_chs3.core.values.models import SettingValue
from airflow_provider_chs3.exceptions import ConfigurationError

_QUOTES = ('"', "'", "")
_BLANK_LINES = ("fail", "skip_last")


@dataclass(frozen=True, kw_only=True)
class Dialect:
    r"""The dialect of CSV files.

    Args:
        delimiter: Between fields: one character, a comma by default.
        quote: Around fields: `"` by default, `'`, or empty where quotes mean themselves.
        null: A field that stands for NULL, quoted or not: `\N` by default. An empty field without quotes does, too,
            but for a column of text that cannot be NULL.
        skip_lines: Lines before the header, or before the first row where there is none: 0 by default.
        trim: Whether spaces and tabs around fields without quotes are left out: false by default.
        blank_lines: `fail`, the default, or `skip_last`, which leaves out empty lines at the end.

    Raises:
        ConfigurationError: If a value is none of these.
    """

    delimiter: str = ","
    quote: str = '"'
    null: str = "\\N"
    skip_lines: int = 0
    trim: bool = False
    blank_lines: str = "fail"

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in "\r\n\"'":
            raise ConfigurationError(f"csv: delimiter={self.delimiter!r} is not a single character, such as ';'.")
        if self.quote not in _QUOTES:
            raise ConfigurationError(f"csv: quote={self.quote!r} is not known: use '\"', \"'\" or ''.")
        if self.blank_lines not in _BLANK_LINES:
            raise ConfigurationError(
                f"csv: blank_lines={self.blank_lines!r} is not known: use one of {', '.join(_BLANK_LINES)}."
            )
        if self.skip_lines < 0:
            raise ConfigurationError(f"csv: skip_lines={self.skip_lines} must not be negative.")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Dialect:
        """The dialect that a user gave as a dict.

        Args:
            given: Name to value.

        Raises:
            ConfigurationError: If a name is not known, or a value of the wrong type.
        """
        known = {each.name: type(each.default) for each in fields(cls)}
        for name, value in given.items():
            if name not in known:
                raise ConfigurationError(f"csv: {name!r} is not known: use {', '.join(known)}.")
            if type(value) is not known[name]:
                raise ConfigurationError(f"csv: {name}={value!r} must be of type {known[name].__name__}.")
        return cls(**given)

    @property
    def changes(self) -> dict[str, SettingValue]:
        """What is not as usual."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) != each.default}

    @property
    def settings(self) -> dict[str, SettingValue]:
        """The settings that read it."""
        return {
            "format_csv_delimiter": self.delimiter,
            "input_format_csv_allow_whitespace_or_tab_as_delimiter": int(self.delimiter in "\t "),
            "format_csv_allow_double_quotes": int(self.quote == '"'),
            "format_csv_allow_single_quotes": int(self.quote == "'"),
            "input_format_csv_skip_first_lines": self.skip_lines,
            "input_format_csv_trim_whitespaces": int(self.trim),
            "input_format_csv_skip_trailing_empty_lines": int(self.blank_lines == "skip_last"),
        }


#: No field has it: ClickHouse would read NULL as an empty text where a column cannot be NULL, so it is told afterwards.
_NO_MARKER = "\1chs3: no field\1"

#: With every format. Names are compared letter by letter, and columns that are not asked for do not matter.
_ALWAYS: dict[str, SettingValue] = {
    "input_format_column_name_matching_mode": "match_case",
    "input_format_parquet_case_insensitive_column_matching": 0,
    "input_format_orc_case_insensitive_column_matching": 0,
    "input_format_arrow_case_insensitive_column_matching": 0,
    "input_format_skip_unknown_fields": 1,
    # A column of the file that has the name of a virtual one would be compared in its place.
    "input_format_parquet_filter_push_down": 0,
    "input_format_parquet_bloom_filter_push_down": 0,
    "input_format_parquet_page_filter_push_down": 0,
    "input_format_parquet_dictionary_filter_push_down": 0,
    "input_format_orc_filter_push_down": 0,
    # The default of newer servers: 25.8 reads no time of ISO 8601 otherwise.
    "cast_string_to_date_time_mode": "best_effort",
    "date_time_input_format": "best_effort",
    # Without a line of names a first row of texts would be taken for one.
    "input_format_csv_detect_header": 0,
    "input_format_tsv_detect_header": 0,
    # JSON in Parquet is text: parsed, it would be written anew, with 31 February as 3 March.
    "input_format_parquet_enable_json_parsing": 0,
    "input_format_csv_empty_as_default": 1,
    "input_format_tsv_empty_as_default": 0,
    "input_format_import_nested_json": 1,
    # In Dynamic and JSON columns 31 February would become 2 March, and a time lose its zone: text stays text.
    "input_format_try_infer_dates": 0,
    "input_format_try_infer_datetimes": 0,
    "input_format_json_read_numbers_as_strings": 1,
    # The default since 26: before, a sixth of all doubles differ in their last bit from what the text says.
    "precise_float_parsing": 1,
    # The default of newer servers: 25.8 knows no type for a Variant or a text otherwise.
    "use_variant_as_common_type": 1,
    "input_format_json_read_bools_as_strings": 1,
    "input_format_json_read_objects_as_strings": 1,
}


def reading_settings(
    dialect: Dialect,
    *,
    is_selected: bool,
    has_nested_containers: bool,
    has_escaped_labels: bool = False,
    has_shapes: bool = False,
) -> dict[str, SettingValue]:
    """The settings that decide what fields of text files are.

    Args:
        dialect: The dialect of CSV files.
        is_selected: Whether expressions read the fields, for which a field that is the dialect's `null` is NULL.
        has_nested_containers: Whether a column is a Tuple that holds an Array, Map or Tuple: a line of JSON that lacks
            one is refused then.
        has_escaped_labels: Whether an element of a Tuple has a name that JSON may escape: a key that no element has is
            refused then.
        has_shapes: Whether a column holds points, lines or polygons, which GeoParquet has as bytes: in a column of text
            these bytes are wanted.
    """
    return {
        **_ALWAYS,
        **dialect.settings,
        "format_csv_null_representation": dialect.null if is_selected else _NO_MARKER,
        "input_format_json_defaults_for_missing_elements_in_named_tuple": int(not has_nested_containers),
        "input_format_json_ignore_unknown_keys_in_named_tuple": int(not has_escaped_labels),
        "input_format_parquet_allow_geoparquet_parser": int(has_shapes),
    }


#: Their names.
READING_SETTING_NAMES = frozenset(reading_settings(Dialect(), is_selected=False, has_nested_containers=False))
