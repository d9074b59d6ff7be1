"""Settings that make an answer complete, and the same under every profile.

Every statement of this package carries them, overriding those of the connection. Without them a profile may truncate an
answer (`limit`, `result_overflow_mode='break'`), add rows (`extremes`), hide rows (`additional_table_filters`), or turn
numbers into NULL (`aggregate_functions_null_for_empty`), all without an error.

The oldest supported server knows each except those of `NEWER`, as they are sent without checking.
"""

from __future__ import annotations

from airflow_provider_chs3.core.model.models import SettingValues
from airflow_provider_chs3.core.sql.quoting import PARSED, Sql, settings_clause

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
