"""The settings with which an answer is complete, and the same under every profile.

They go with every statement of this package, over those of the connection. Without them a profile may cut an answer off
(`limit`, `result_overflow_mode='break'`), add rows to it (`extremes`), leave rows out (`additional_table_filters`), or
turn numbers into NULL (`aggregate_functions_null_for_empty`), all without an error.

Each but those of `NEWER` is known to the oldest server that is supported, as none is looked up before it is sent.
"""

from __future__ import annotations

from airflow_provider_chs3.core.sql.quoting import Sql, settings_clause
from airflow_provider_chs3.core.values.models import SettingValues

#: What could cut an answer off, leave rows out of it, or add some to it: no load may have it otherwise.
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
    # Where a limit remains, as that of time does, it must not go unnoticed.
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
    # A row of the ledger is there once its INSERT has ended.
    "async_insert": 0,
    "wait_for_async_insert": 1,
}

#: What says how values are written, computed and sent.
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
    "low_cardinality_allow_in_native_format": 1,
    "input_format_native_decode_types_in_binary_format": 0,
    "output_format_native_write_json_as_string": 0,
    # With 0 a server would wait for ever for a connection to another one.
    "distributed_connections_pool_size": 1024,
}

#: Without which the driver cannot read any answer: also with statements that go by the profile otherwise.
READABLE: SettingValues = {"output_format_native_encode_types_in_binary_format": 0}

COMPLETE: SettingValues = {**WHOLE, **_PLAIN, **READABLE}

#: What newer servers know besides: they rewrite each SELECT by these (seen on 26.9). Sent such that a server which does
#: not know them takes no offence.
#: And a record of the ledger is one of its own, whatever it is like.
NEWER: SettingValues = {
    **{"select": "", "filter": "", "sort": "", "order": "", "page": 0},
    "deduplicate_insert_select": "disable",
}

#: Where replicas are left out (`core.cluster.absent_replicas`). One that froze takes connections and says nothing:
#: servers wait three times ten seconds for it by default (seen on 25.8), before each part of a statement meant for it.
WITHOUT_ABSENT: SettingValues = {"handshake_timeout_ms": 1000, "connections_with_failover_max_tries": 1}

#: For questions that those who are up can answer. A node that is down runs nothing, and only the node that started an
#: insert knows how it ended.
OF_THOSE_UP: SettingValues = {**WITHOUT_ABSENT, "handshake_timeout_ms": 3000, "skip_unavailable_shards": 1}


def passed_on(sql: Sql, settings: SettingValues | None = None) -> Sql:
    """The same statement with its settings inside, so that they reach all nodes that it makes others ask.

    Of what comes beside a statement, a server drops what equals its own value, and passes on the rest: where another
    node's profile says otherwise, that node would go by its profile (seen on 26.9).

    Args:
        sql: A statement that ends without settings.
        settings: The settings, over those of `COMPLETE`; none by default.
    """
    clause = settings_clause({**COMPLETE, **(settings or {})})
    return Sql(f"{sql.text}{clause}", sql.secrets, unshown=clause)
