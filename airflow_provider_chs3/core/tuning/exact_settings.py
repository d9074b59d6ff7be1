"""The settings without which a load could lose, double or change rows, and what else a load has to be allowed."""

from __future__ import annotations

from airflow_provider_chs3.core.model.models import Setting, SettingValue, SettingValues
from airflow_provider_chs3.core.model.store_kind import StoreKind
from airflow_provider_chs3.core.sql.complete_answers import COMPLETE, DEDUPLICATING, OF_FEW_ROWS, REWRITING
from airflow_provider_chs3.core.sql.quoting import PARSED

_NO_DEDUPLICATION = "staging makes retries exact, so deduplication gains nothing"

#: Without these a load could silently lose, double or change rows.
_EXACT = (
    Setting("parallel_distributed_insert_select", 2, "every node writes what it reads"),
    Setting("insert_deduplicate", 0, _NO_DEDUPLICATION),
    *(Setting(name, value, _NO_DEDUPLICATION) for name, value in DEDUPLICATING.items()),
    Setting("optimize_on_insert", 0, "no row is merged away before it is counted"),
    Setting("insert_quorum_parallel", 1, "all replicas of a shard write into one staging"),
    Setting("distributed_foreground_insert", 1, "no row is left in a queue"),
    Setting("skip_unavailable_shards", 0, "a missing shard is an error"),
    Setting("enable_parallel_replicas", 0, "with them, s3 returned rows twice"),
    Setting("use_hive_partitioning", 0, "names in paths add no columns"),
    Setting("input_format_null_as_default", 0, "NULL does not silently become a default"),
    Setting("input_format_allow_errors_num", 0, "no bad line is skipped"),
    Setting("input_format_allow_errors_ratio", 0, "no bad line is skipped"),
    Setting("input_format_parallel_parsing", 0, "no chunk begins within a row, as after a lone quote"),
    Setting("date_time_overflow_behavior", "throw", "a date out of range is an error"),
    Setting("read_overflow_mode", "throw", "no limit cuts the data off silently"),
    Setting("timeout_overflow_mode", "throw", "no limit cuts the data off silently"),
    Setting("limit", 0, "no limit cuts the data off silently"),
    Setting("offset", 0, "no limit cuts the data off silently"),
    Setting("max_execution_time", 0, "a load may take hours"),
    Setting("max_execution_time_leaf", 0, "a load may take hours"),
    *(Setting(name, value, "no statement is rewritten") for name, value in REWRITING.items()),
    *(
        Setting(name, value, "servers log statements that they cannot parse, with their keys")
        for name, value in PARSED.items()
    ),
)

#: Take precedence over those above if rows follow a sharding key.
_BY_SHARDING_KEY = (
    Setting(
        "parallel_distributed_insert_select", 0, "the node that inserts sends each row to the shard of its sharding key"
    ),
)

#: Aliases of exact settings.
_ALIASES = {"insert_distributed_sync", "allow_experimental_parallel_reading_from_replicas"}

#: Names of the exact settings of every load, which a user cannot set; those of a kind of storage come on top.
EXACT_NAMES = frozenset(setting.name for setting in _EXACT) | {"insert_null_as_default"} | _ALIASES

#: Every node must know these. The others were added later or removed: a server without the setting does not have the
#: problem that it guards against.
REQUIRED_SETTINGS = ("parallel_distributed_insert_select", "insert_deduplicate", "optimize_on_insert")

#: Whether REPLACE PARTITION may empty a partition. Set only if nothing was staged: `core.load.publish`.
EMPTY_SOURCE = "allow_replace_partition_from_empty_source"

#: Sent with REPLACE PARTITION and DROP TABLE, as servers otherwise refuse both for periods over 50 GB.
DDL_SETTINGS: SettingValues = {
    "max_partition_size_to_drop": 0,
    "max_table_size_to_drop": 0,
}


def exact_names(store: StoreKind) -> frozenset[str]:
    """Return the names of the exact settings, which a user cannot set."""
    return EXACT_NAMES | {setting.name for setting in store.exact}


def exact_settings(*, null_as_default: bool, by_sharding_key: bool, store: StoreKind) -> dict[str, Setting]:
    """Return the settings without which an insert could lose, double or change rows: name → setting."""
    nulls = Setting("insert_null_as_default", int(null_as_default), "set by null_as_default")
    return {
        setting.name: setting for setting in (*_EXACT, *store.exact, *_BY_SHARDING_KEY[: int(by_sharding_key)], nulls)
    }


def needed_settings(*, null_as_default: bool, by_sharding_key: bool, store: StoreKind) -> dict[str, SettingValue]:
    """Return the settings that a user's profile must allow for every load, if the server knows them: name → value.

    The arguments are those of `exact_settings`.
    """
    exact = exact_settings(null_as_default=null_as_default, by_sharding_key=by_sharding_key, store=store)
    return {**COMPLETE, **OF_FEW_ROWS, **DDL_SETTINGS, **{name: setting.value for name, setting in exact.items()}}
