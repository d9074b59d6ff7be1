"""The dialect of CSV files that differ from the usual."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_chs3.core.arguments.declaration import Group, argument
from airflow_provider_chs3.core.model.models import SettingValue
from airflow_provider_chs3.exceptions import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Dialect(Group):
    """The dialect of CSV files.

    Raises:
        ConfigurationError: If a value is not allowed.
    """

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
