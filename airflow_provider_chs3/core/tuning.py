"""The settings of a load, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_chs3.core.models import NodeSpec, Setting, SettingValue, SettingValues
from airflow_provider_chs3.core.source_schema import MAX_QUERY_SIZE_BYTES
from airflow_provider_chs3.exceptions import ConfigurationError

#: A load that is not alone on its cluster takes half of the memory (ClickHouse, "Optimizing S3 insert and read
#: performance").
SHARED_MEMORY_FRACTION = 0.5

_NO_DEDUPLICATION = "retries are made exact by staging, so nothing is gained from deduplication"

#: Without these a load could lose, double or change rows and say nothing.
_EXACT = (
    Setting("parallel_distributed_insert_select", 2, "every node writes what it reads"),
    Setting("insert_deduplicate", 0, _NO_DEDUPLICATION),
    Setting("deduplicate_insert", "disable", _NO_DEDUPLICATION),
    Setting("deduplicate_insert_select", "disable", _NO_DEDUPLICATION),
    Setting("optimize_on_insert", 0, "no row is merged away before it is counted"),
    Setting("distributed_foreground_insert", 1, "no row is left in a queue"),
    Setting("skip_unavailable_shards", 0, "a missing shard is an error"),
    Setting("enable_parallel_replicas", 0, "reads of s3 with them were seen to double rows"),
    Setting("s3_throw_on_zero_files_match", 1, "finding no file is an error"),
    Setting("s3_ignore_file_doesnt_exist", 0, "a file that is gone is an error"),
    Setting("use_hive_partitioning", 0, "names in a path add no columns"),
    Setting("input_format_null_as_default", 0, "NULL does not turn into a default on its own"),
    Setting("input_format_allow_errors_num", 0, "no bad line is skipped"),
    Setting("input_format_allow_errors_ratio", 0, "no bad line is skipped"),
    Setting("date_time_overflow_behavior", "throw", "a date out of range is an error"),
    Setting("read_overflow_mode", "throw", "no limit cuts the data off silently"),
    Setting("timeout_overflow_mode", "throw", "no limit cuts the data off silently"),
    Setting("limit", 0, "no limit cuts the data off silently"),
    Setting("offset", 0, "no limit cuts the data off silently"),
    Setting("max_execution_time", 0, "a load may take hours"),
    Setting("max_query_size", MAX_QUERY_SIZE_BYTES, "room for the list of objects"),
)

#: Further names of them.
_ALIASES = {"insert_distributed_sync", "allow_experimental_parallel_reading_from_replicas"}

#: Their names: what a user cannot set.
EXACT_NAMES = frozenset(each.name for each in _EXACT) | {"insert_null_as_default"} | _ALIASES

#: Must be known to every node. The others came later or went; where one is not known, what it guards against is not
#: there.
REQUIRED_SETTINGS = ("parallel_distributed_insert_select", "insert_deduplicate", "optimize_on_insert")

#: Sent with REPLACE PARTITION and DROP TABLE, so that months over 50 GB do not stick.
DDL_SETTINGS: SettingValues = {
    "allow_replace_partition_from_empty_source": 1,
    "max_partition_size_to_drop": 0,
    "max_table_size_to_drop": 0,
}


def tuned_settings(spec: NodeSpec) -> tuple[Setting, ...]:
    """The rule of ClickHouse's guide: half of the cores insert, the other half merges, and blocks fill the memory.

    `min_insert_block_size_bytes = memory / (3 × max_insert_threads)`: about three blocks of each thread are in memory.

    Args:
        spec: What each node has; where nodes differ, the smallest. Memory of 0 is not known.
    """
    threads = max(1, spec.cores // 2)
    settings = (
        Setting("max_insert_threads", threads, f"half of {spec.cores} cores; the others merge"),
        Setting(
            "max_insert_threads_min_free_memory_per_thread", 0, "the number of threads was computed from the memory"
        ),
    )
    memory_bytes = int(spec.memory_bytes * SHARED_MEMORY_FRACTION)
    if not memory_bytes:
        # A server without a memory limit of its own: its defaults for blocks are safer than a guess.
        return settings
    return (
        *settings,
        Setting(
            "min_insert_block_size_bytes",
            memory_bytes // (3 * threads),
            f"{memory_bytes} bytes (half of the node's memory) / (3 × {threads} threads)",
        ),
        Setting("min_insert_block_size_rows", 0, "bytes alone decide, so that memory is bounded"),
    )


def smallest(specs: Iterable[NodeSpec]) -> NodeSpec:
    """The fewest cores and the least memory of all nodes: settings are the same on every node."""
    every = list(specs)
    return NodeSpec(min(spec.cores for spec in every), min(spec.memory_bytes for spec in every))


def load_settings(
    *, spec: NodeSpec, known: frozenset[str], own: SettingValues, null_as_default: bool
) -> tuple[Setting, ...]:
    """All settings of an insert.

    Args:
        spec: What each node has.
        known: Names that every node knows; others are left out.
        own: The user's settings, which win over tuned ones.
        null_as_default: Whether NULL in a column that cannot hold it becomes its default.

    Raises:
        ConfigurationError: If a setting of the user's would make loads inexact, or is not known to every node.
    """
    nulls = Setting("insert_null_as_default", int(null_as_default), "what null_as_default says")
    exact = {each.name: each for each in (*_EXACT, nulls)}
    refused = sorted(own.keys() & EXACT_NAMES)
    if refused:
        raise ConfigurationError(f"settings: {', '.join(refused)} cannot be changed, or loads would not be exact.")
    unknown = sorted(own.keys() - known)
    if unknown:
        raise ConfigurationError(f"settings: {', '.join(unknown)} not known to every node of the cluster.")
    users = {name: Setting(name, value, "yours") for name, value in own.items()}
    chosen = exact | {each.name: each for each in tuned_settings(spec)} | users
    return tuple(each for each in chosen.values() if each.name in known)


def names_to_look_up(own: SettingValues) -> tuple[str, ...]:
    """The names that nodes are asked about."""
    tuned = tuned_settings(NodeSpec(1, 2**30))
    return tuple(sorted({*EXACT_NAMES, *(each.name for each in tuned), *DDL_SETTINGS, *own}))


def tunable(settings: SettingValues) -> dict[str, SettingValue]:
    """Those of a connection's settings that a load takes over.

    The connection's are for all statements; a load has needs of its own.
    """
    return {name: value for name, value in settings.items() if name not in EXACT_NAMES}
