"""Settings that make an answer complete, and the same under every profile.

Every statement of this package carries them, overriding those of the connection. Without them a profile may truncate an
answer (`limit`, `result_overflow_mode='break'`), add rows (`extremes`), hide rows (`additional_table_filters`), or turn
numbers into NULL (`aggregate_functions_null_for_empty`), all without an error.

The oldest supported server knows each except those of `NEWER`, as they are sent without checking.

The user's profile, that of the user with which nodes query each other, and the connection may all differ, for reasons
unrelated to loads. So each statement that reads files also carries all settings that decide which rows and values are
read, with the server's default (`default` of `system.settings`), unless this package or the operator's `settings` set
another value. Settings of memory, threads, time and network are left to the profile.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from airflow_provider_chs3.core.model.models import SettingValue, SettingValues
from airflow_provider_chs3.core.sql.quoting import PARSED, Sql, literal, literals, settings_clause

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


#: Settings that could truncate an answer, hide rows or add some: every load needs these values.
WHOLE: SettingValues = {
    "limit": 0,
    "offset": 0,
    **dict.fromkeys(
        (
            "max_rows_to_read",
            "max_bytes_to_read",
            "max_rows_to_read_leaf",
            "max_bytes_to_read_leaf",
            "max_rows_to_group_by",
            "max_rows_to_sort",
            "max_bytes_to_sort",
            "max_result_rows",
            "max_result_bytes",
            "max_rows_in_distinct",
            "max_bytes_in_distinct",
            "max_rows_in_set",
            "max_bytes_in_set",
            "max_rows_in_join",
            "max_bytes_in_join",
            "max_rows_to_transfer",
            "max_bytes_to_transfer",
        ),
        0,
    ),
    # A limit that remains, such as that of time, must raise an error.
    **dict.fromkeys(
        (
            "read_overflow_mode",
            "read_overflow_mode_leaf",
            "group_by_overflow_mode",
            "sort_overflow_mode",
            "result_overflow_mode",
            "timeout_overflow_mode",
            "timeout_overflow_mode_leaf",
            "set_overflow_mode",
            "join_overflow_mode",
            "transfer_overflow_mode",
            "distinct_overflow_mode",
        ),
        "throw",
    ),
    "extremes": 0,
    "final": 0,
    "additional_table_filters": "{}",
    "additional_result_filter": "",
    "empty_result_for_aggregation_by_empty_set": 0,
    "empty_result_for_aggregation_by_constant_keys_on_empty_set": 1,
    "distributed_group_by_no_merge": 0,
    "optimize_skip_unused_shards": 0,
    "skip_unavailable_shards": 0,
    "enable_parallel_replicas": 0,
    "use_query_cache": 0,
    "apply_deleted_mask": 1,
    "implicit_transaction": 0,
    # A ledger row must be visible as soon as its INSERT ends.
    "async_insert": 0,
    "wait_for_async_insert": 1,
    # Replicated tables take a second record with the token of a profile for one that is there.
    "insert_deduplicate": 0,
    "insert_deduplication_token": "",
}

#: Settings of how values are written, computed and sent.
_PLAIN: SettingValues = {
    "aggregate_functions_null_for_empty": 0,
    "join_use_nulls": 0,
    "group_by_use_nulls": 0,
    "transform_null_in": 0,
    "union_default_mode": "",
    "prefer_column_name_to_alias": 0,
    "count_distinct_implementation": "uniqExact",
    "session_timezone": "",
    "cast_keep_nullable": 0,
    "cast_ipv4_ipv6_default_on_conversion_error": 0,
    "data_type_default_nullable": 0,
    "short_circuit_function_evaluation": "enable",
    "compatibility": "",
    # A record names each column, and a statement each object: of thousands, both are beyond the server's defaults.
    "max_query_size": PARSED["max_query_size"],
    "max_ast_elements": 100_000_000,
    "max_expanded_ast_elements": 100_000_000,
    "low_cardinality_allow_in_native_format": 1,
    "input_format_native_decode_types_in_binary_format": 0,
    "output_format_native_write_json_as_string": 0,
    # Each of these refuses statements that do not use what they demand: records are looked up by other columns, too.
    **dict.fromkeys(
        (
            "force_index_by_date",
            "force_primary_key",
            "force_optimize_projection",
            "force_optimize_skip_unused_shards",
            "force_optimize_skip_unused_shards_nesting",
            "force_grouping_standard_compatibility",
        ),
        0,
    ),
    "force_optimize_projection_name": "",
    # With 0 a server would wait forever for a connection to another one.
    "distributed_connections_pool_size": 1024,
}

#: No value switches it off again: an empty one is refused like one that names no index (seen on 25.8 and 26.9).
NOT_TO_BE_UNSET = "force_data_skipping_indices"

#: The driver cannot read any answer without these, even in statements that otherwise follow the profile.
READABLE: SettingValues = {"output_format_native_encode_types_in_binary_format": 0}

COMPLETE: SettingValues = {**WHOLE, **_PLAIN, **READABLE}

#: Settings that rewrite each SELECT (seen on 26.9).
REWRITING: SettingValues = {"select": "", "filter": "", "sort": "", "order": "", "page": 0}

#: Settings without which a ledger would lose records with equal content.
DEDUPLICATING: SettingValues = {"deduplicate_insert": "disable", "deduplicate_insert_select": "disable"}

#: Settings of newer servers only. Sent so that a server which does not know them ignores them.
NEWER: SettingValues = {**REWRITING, **DEDUPLICATING}

#: For the many statements of a few rows each. Servers send counters for each sub-query, which nobody reads, and parsing
#: them took a worker two thirds of its time. From its third run on, they compile what an expression does, which took
#: 40 ms each time and saves microseconds. 25.8 does not know the first, which is sent as those of `NEWER` are.
OF_FEW_ROWS: SettingValues = {
    "send_profile_events": 0,
    "compile_expressions": 0,
    "compile_aggregate_expressions": 0,
    "compile_sort_description": 0,
}

#: For loads without absent replicas (`core.target.topology`). A frozen one accepts connections and never
#: answers: by default servers wait three times ten seconds for it (seen on 25.8), before each part of a statement.
WITHOUT_ABSENT: SettingValues = {"handshake_timeout_ms": 1000, "connections_with_failover_max_tries": 1}

#: For queries that the nodes that are up can answer. A node that is down runs nothing, and only the node that started
#: an insert knows its outcome.
OF_THOSE_UP: SettingValues = {**WITHOUT_ABSENT, "handshake_timeout_ms": 3000, "skip_unavailable_shards": 1}


def passed_on(sql: Sql, settings: SettingValues | None = None) -> Sql:
    """Return the statement with its settings inside, so that they reach every node that takes part.

    A server passes on only those settings sent beside a statement that differ from its own values: where another node's
    profile differs, that node would follow its profile (seen on 26.9).
    """
    clause = settings_clause({**COMPLETE, **(settings or {})})
    return Sql(f"{sql.text}{clause}", sql.secrets, unshown=clause)
