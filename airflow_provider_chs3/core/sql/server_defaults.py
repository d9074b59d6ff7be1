"""Settings that decide which rows and values are read from files: loads use the server's own defaults.

The user's profile, that of the user with which nodes query each other, and the connection may all differ, for reasons
unrelated to loads. So each statement that reads files carries all of these settings, with the server's default
(`default` of `system.settings`), unless this package or the operator's `settings` set another value. Settings of
memory, threads, time and network are left to the profile.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from airflow_provider_chs3.core.model.models import SettingValue, SettingValues
from airflow_provider_chs3.core.sql.complete_answers import NEWER
from airflow_provider_chs3.core.sql.quoting import literal, literals

#: Prefixes of their names.
_FAMILIES = (
    "analyzer_compatibility_",
    "bool_",
    "cast_",
    "cluster_function_",
    "cluster_table_function_",
    "date_time_",
    "describe_",
    "format_",
    "formatdatetime_",
    "function_",
    "functions_",
    "geo",
    "h3",
    "input_format_",
    "json_",
    "parsedatetime_",
    "schema_inference_",
    "splitby_",
    "type_json_",
    "variant_",
)

#: In those families: settings that only cost time or memory, and those that secrets depend on.
_LEFT_TO_PROFILE = re.compile(
    r"(?:format_avro_schema_registry|format_display_secrets|function_range_max|function_sleep)_.*"
    r"|input_format_(?:max_block_.*|orc_row_batch_size|json_max_string_column_growth_step)"
    r"|input_format_parquet_(?:enable_row_group_prefetch|local_file_.*|max_block_size|memory_.*|prefer_block_bytes)"
)

_SINGLE = frozenset(
    {
        "aggregate_function_input_format",
        "allow_archive_path_syntax",
        "allow_experimental_object_type",
        "allow_lossy_numeric_supertype",
        "allow_nonconst_timezone_arguments",
        "allow_special_bool_values_inside_variant",
        "azure_ignore_file_doesnt_exist",
        "azure_skip_empty_files",
        "azure_throw_on_zero_files_match",
        "check_conversion_from_numbers_to_enum",
        "column_names_for_schema_inference",
        "compatibility_s3_presigned_url_query_in_path",
        "count_matches_stop_at_empty_match",
        "decimal_check_overflow",
        "dynamic_throw_on_type_mismatch",
        "enable_extended_results_for_datetime_functions",
        "enable_named_columns_in_function_tuple",
        "enable_nullable_tuple_type",
        "enable_parsing_to_custom_serialization",
        "enable_time_time64_type",
        "enable_unaligned_array_join",
        "enable_url_encoding",
        "extract_key_value_pairs_max_pairs_per_row",
        "glob_expansion_max_elements",
        "hdfs_ignore_file_doesnt_exist",
        "hdfs_skip_empty_files",
        "hdfs_throw_on_zero_files_match",
        "implicit_select",
        "insert_allow_materialized_columns",
        "insert_distributed_one_random_shard",
        "insert_shard_id",
        "least_greatest_legacy_null_behavior",
        "make_distributed_plan",
        "max_dynamic_subcolumns_in_json_type_parsing",
        "optimize_count_from_files",
        "optimize_trivial_insert_select",
        "precise_float_parsing",
        "regexp_max_matches_per_row",
        "rename_files_after_processing",
        "s3_base",
        "s3_ignore_file_doesnt_exist",
        "s3_path_filter_limit",
        "s3_skip_empty_files",
        "s3_throw_on_zero_files_match",
        "s3_uri_style",
        "s3_validate_etag_on_read",
        "session_timezone",
        "short_circuit_function_evaluation",
        "short_circuit_function_evaluation_for_nulls",
        "throw_on_hive_partitioning_resolution_failure",
        "transform_null_in",
        "use_cache_for_count_from_files",
        "use_hive_partitioning",
        "use_legacy_to_time",
        "use_structure_from_insertion_table_in_table_functions",
        "use_variant_as_common_type",
        "use_variant_default_implementation_for_comparisons",
        "validate_polygons",
        "zstd_window_log_max",
    }
)

#: Prefixes of settings that matter only to files. Operators may set another value where their profile fixes it.
_OF_FILES = ("azure_", "cluster_", "describe_", "format_", "hdfs_", "input_format_", "s3_", "schema_inference_")


def is_about_reading(name: str) -> bool:
    """Check whether a setting decides which rows or values are read from files."""
    return name in _SINGLE or name in NEWER or (name.startswith(_FAMILIES) and not _LEFT_TO_PROFILE.fullmatch(name))


def has_default() -> str:
    """Return the condition on `system.settings` for those that may affect reading, and have a default to be sent.

    Obsolete ones do nothing, and a second name of a setting would set it twice.
    """
    families = " OR ".join(f"startsWith(name, {literal(family)})" for family in _FAMILIES)
    single = literals(sorted({*_SINGLE, *NEWER}))
    return f"NOT is_obsolete AND alias_for = '' AND ({families} OR name IN ({single}))"


def neutral_settings(defaults: Mapping[str, str], user_settings: SettingValues) -> dict[str, SettingValue]:
    """Return the settings for statements that read files."""
    return {**defaults, **{name: value for name, value in user_settings.items() if is_about_reading(name)}}


def evaluating_settings(defaults: Mapping[str, str]) -> dict[str, SettingValue]:
    """Return the settings that may change the value of a table's expression, whatever the operator sets for files."""
    return {name: default for name, default in defaults.items() if not name.startswith(_OF_FILES)}
