"""Compute the settings of a load, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from airflow_provider_chs3.core.files.describe_files import DataVolume
from airflow_provider_chs3.core.files.text_fields import READING_SETTING_NAMES
from airflow_provider_chs3.core.model.models import ADAPTIVE_BUFFERS, Setting, SettingValue, SettingValues
from airflow_provider_chs3.core.model.store_kind import StoreKind
from airflow_provider_chs3.core.sql.complete_answers import (
    COMPLETE,
    DEDUPLICATING,
    OF_FEW_ROWS,
    REWRITING,
    WHOLE,
    WITHOUT_ABSENT,
    is_about_reading,
)
from airflow_provider_chs3.core.sql.quoting import PARSED
from airflow_provider_chs3.core.tuning.resource_share import BLOCKS_OF_A_THREAD, ResourceShare, is_small
from airflow_provider_chs3.exceptions import ConfigurationError

#: With many small files, each thread mostly waits for the storage. On two cores, 8 threads took 0.36 of the time of 2
#: with S3 100 ms away, and 0.83 with S3 on loopback; 16 gained nothing more.
_THREADS_OF_A_CORE = 4
#: S3 answers 5,500 requests a second for a prefix, and a thread that waits 100 ms sends ten. Other nodes read, too.
_MOST_OF_SMALL_FILES = 64
#: Files per thread below which more threads gained nothing.
_FILES_OF_A_THREAD = 3
#: The server's default of input_format_parquet_memory_high_watermark.
_PARQUET_READER_BYTES = 4 * 1024**3
#: The guide's value for small files. A file larger than twice the buffer is downloaded in ranges.
_DOWNLOAD_BUFFER_BYTES = 50 * 1024**2
#: The server's default of max_download_threads.
_DEFAULT_DOWNLOADS = 4


def _read_threads(share: ResourceShare, data: DataVolume) -> Setting:
    """Compute `max_threads`: each thread opens one file after another, and reads it in several requests."""
    threads, more = min(share.node_cores, 2 * share.cores), _threads_of_small_files(share, data)
    reason = f"all {threads} cores read"
    if more > threads:
        threads, reason = more, f"{data.files_per_node} small files per node: threads mostly wait for S3"
    elif share.parallel_loads > 1:
        reason = f"twice this load's {share.cores} cores, at most all: reading waits for S3 much of the time"
    return Setting("max_threads", threads, reason)


def _threads_of_small_files(share: ResourceShare, data: DataVolume) -> int:
    """Return how many threads have enough files, and fit their open files into the reader's memory."""
    if not share.memory_bytes or not data.share_bytes:
        return 0
    file_bytes = max(1, data.share_bytes // data.files_per_node)
    fitting = _reader_share(share) // file_bytes
    with_work = data.files_per_node // _FILES_OF_A_THREAD
    return min(_THREADS_OF_A_CORE * share.cores, _MOST_OF_SMALL_FILES, with_work, fitting)


def _reader_share(share: ResourceShare) -> int:
    return share.memory_bytes // 8


def _reader_bytes(share: ResourceShare, data: DataVolume) -> int:
    return min(_PARQUET_READER_BYTES, _reader_share(share)) if data.is_parquet else 0


def _downloads(data: DataVolume, threads: int) -> Iterator[Setting]:
    if 0 < data.largest_file_bytes <= 2 * _DOWNLOAD_BUFFER_BYTES:
        yield Setting("max_download_buffer_size", _DOWNLOAD_BUFFER_BYTES, "files are small: one download each")
    elif data.files_per_node * _DEFAULT_DOWNLOADS < threads:
        reason = f"{data.files_per_node} large files per node for {threads} threads"
        yield Setting("max_download_threads", threads // data.files_per_node, reason)
    if threads == 1:
        yield Setting("remote_filesystem_read_method", "read", "a single thread needs no thread pool for reading")


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

#: Aliases of exact settings.
_ALIASES = {"insert_distributed_sync", "allow_experimental_parallel_reading_from_replicas"}

#: Names of the exact settings of every load, which a user cannot set; those of a kind of storage come on top.
EXACT_NAMES = frozenset(setting.name for setting in _EXACT) | {"insert_null_as_default"} | _ALIASES

#: Every node must know these. The others were added later or removed: a server without the setting does not have the
#: problem that it guards against.
REQUIRED_SETTINGS = ("parallel_distributed_insert_select", "insert_deduplicate", "optimize_on_insert")

#: Whether REPLACE PARTITION may empty a partition: 1 only for those of which nothing is staged (`core.load.publish`).
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
    exact = [*_EXACT, *store.exact]
    if by_sharding_key:
        reason = "the node that inserts sends each row to the shard of its sharding key"
        exact.append(Setting("parallel_distributed_insert_select", 0, reason))
    exact.append(Setting("insert_null_as_default", int(null_as_default), "set by null_as_default"))
    return {setting.name: setting for setting in exact}


def needed_settings(*, null_as_default: bool, by_sharding_key: bool, store: StoreKind) -> dict[str, SettingValue]:
    """Return the settings that a user's profile must allow for every load, if the server knows them."""
    exact = exact_settings(null_as_default=null_as_default, by_sharding_key=by_sharding_key, store=store)
    return {**COMPLETE, **OF_FEW_ROWS, **DDL_SETTINGS, **{name: setting.value for name, setting in exact.items()}}


#: The server's default block, in bytes and in rows: smaller blocks only make more parts.
DEFAULT_BLOCK_BYTES = 256 * 1024**2
DEFAULT_BLOCK_ROWS = 1_048_449
#: Periods of a group in one block. Parts are as many as the server's defaults make.
_PERIODS_OF_A_BLOCK = 4
#: With less memory, a load uses fewer threads rather than smaller blocks.
_SMALLEST_BLOCK_BYTES = 64 * 1024**2

#: Settings that may be computed; those that a server does not know are skipped.
TUNED_NAMES = (
    "max_insert_threads",
    "max_insert_threads_min_free_memory_per_thread",
    "min_insert_block_size_bytes",
    "min_insert_block_size_rows",
    "max_threads",
    "input_format_parquet_memory_high_watermark",
    "max_download_buffer_size",
    "max_download_threads",
    "remote_filesystem_read_method",
    "max_insert_delayed_streams_for_parallel_write",
    "max_memory_usage",
)

#: The server refuses a block of more partitions. Its default is for rows that belong to none of the periods: their
#: error then says so.
_PARTITIONS, _PARTITIONS_OF_OTHERS = "max_partitions_per_insert_block", 100

#: Reason of a setting that the user gave, in the operator or the connection.
YOURS = "yours"


def tuned_settings(share: ResourceShare, data: DataVolume) -> Iterator[Setting]:
    """Compute the settings that make a load fast, each with its reason. `docs/tuning.md` names each rule's source."""
    threads, readers = _threads(share, data), _read_threads(share, data)
    yield threads
    reason = "the number of threads already follows from the memory"
    yield Setting("max_insert_threads_min_free_memory_per_thread", 0, reason)
    yield from _block(share, data, int(threads.value))
    yield readers
    # The guide's formula ignores the reader's memory, which would take up to 4 GiB in addition.
    if size_bytes := _reader_bytes(share, data):
        reason = "the Parquet reader's share of the memory: an eighth, at most the default of 4 GiB"
        yield Setting("input_format_parquet_memory_high_watermark", size_bytes, reason)
    yield from _downloads(data, int(readers.value))
    yield from _writing(share, data, int(threads.value))
    if share.limit_bytes:
        reason = "all loads' share: a load that needs more starts over with less"
        yield Setting("max_memory_usage", share.limit_bytes, reason)


def _threads(share: ResourceShare, data: DataVolume) -> Setting:
    """Use half of the cores, as the guide does; all for a small period, where more threads do not make more parts."""
    threads, reason = share.rule_threads, f"half of {share.node_cores} cores; merges get the rest"
    if share.parallel_loads > 1:
        reason = f"{share.node_cores} cores for {share.parallel_loads} parallel periods"
    if is_small(share, data):
        threads = share.cores
        reason = f"{threads} of {share.node_cores} cores: the period is small, so few merges follow"
    fitting = share.memory_bytes // (3 * _SMALLEST_BLOCK_BYTES)
    if share.memory_bytes and fitting < threads:
        threads, reason = max(1, fitting), f"as many as fit into {share.memory_bytes} bytes of memory"
    return Setting("max_insert_threads", threads, reason)


def _block(share: ResourceShare, data: DataVolume, threads: int) -> tuple[Setting, ...]:
    """Use `min_insert_block_size_bytes = memory / (3 × max_insert_threads)`: memory holds three blocks per thread.

    But at most half of a thread's part of the data: larger blocks keep one thread sorting while others wait, which took
    up to twice the time of the server's defaults. And a few periods of a group, which each block is split by: of sixty
    periods of 600,000 rows, blocks of fifteen took 1.2 times as long as those of four.
    """
    if not share.memory_bytes:
        # Without a known memory limit, the server's default blocks are safer than a guess.
        return ()
    memory_bytes = share.memory_bytes - (0 if share.is_isolated else _reader_bytes(share, data))
    block_bytes = memory_bytes // (3 * threads)
    reason = f"{memory_bytes} bytes of memory / (3 × {threads} threads)"
    in_memory = Setting("min_insert_block_size_bytes", block_bytes, reason)
    blocks = max(BLOCKS_OF_A_THREAD * threads, data.periods // _PERIODS_OF_A_BLOCK)
    if (threads > 1 or data.periods > 1) and data.share_bytes is not None and data.share_bytes // blocks < block_bytes:
        return _block_of_little(data, threads, blocks, in_memory)
    return in_memory, Setting("min_insert_block_size_rows", 0, "bytes alone decide, so memory is bounded")


def _block_of_little(data: DataVolume, threads: int, blocks: int, in_memory: Setting) -> tuple[Setting, ...]:
    """Split a node's share into equal blocks; by rows if known, as bytes in memory can only be estimated."""
    part_bytes, part_rows = (data.share_bytes or 0) // blocks, -(-(data.share_rows or 0) // blocks)
    reason = f"a node's share of the period / {blocks}: two blocks for each of {threads} threads, so all have work"
    if data.periods > 1:
        reason = f"a node's share of the periods / {blocks}: each block is split by period"
    smallest_bytes = min(DEFAULT_BLOCK_BYTES, int(in_memory.value))
    if data.periods >= 2 * _PERIODS_OF_A_BLOCK and 0 < part_rows <= DEFAULT_BLOCK_ROWS:
        # Parts are hardly more, as each period has its own anyway. In blocks of the server's size one thread had twice
        # the work of the other, and the disk waited until the first block was full: of sixty periods of 50,000 rows.
        periods_rows = -(-(data.share_rows or 0) * _PERIODS_OF_A_BLOCK // data.periods)
        return in_memory, Setting("min_insert_block_size_rows", min(periods_rows, DEFAULT_BLOCK_ROWS), reason)
    if part_bytes < smallest_bytes and part_rows <= DEFAULT_BLOCK_ROWS:
        # With so little data, the server's own limits make no more parts than that.
        if smallest_bytes == DEFAULT_BLOCK_BYTES:
            return ()
        part_rows, reason = part_rows and DEFAULT_BLOCK_ROWS, "the server's default, as the period is small"
    if part_rows:
        return in_memory, Setting("min_insert_block_size_rows", part_rows, reason)
    block_bytes = max(part_bytes, smallest_bytes)
    return (
        Setting("min_insert_block_size_bytes", block_bytes, reason),
        Setting("min_insert_block_size_rows", 0, "bytes alone decide"),
    )


def _writing(share: ResourceShare, data: DataVolume, threads: int) -> Iterator[Setting]:
    name = "max_insert_delayed_streams_for_parallel_write"
    if 0 < share.memory_bytes < 3 * threads * DEFAULT_BLOCK_BYTES:
        yield Setting(name, 1, "little memory: each part is written before the next one begins")
    elif data.is_on_remote_disk:
        reason = "the target is not on a local disk: by default up to 1000 unfinished parts hold buffers"
        yield Setting(name, threads, reason)


def load_settings(
    *,
    share: ResourceShare,
    data: DataVolume,
    known: Mapping[str, int | None],
    user_settings: SettingValues,
    null_as_default: bool,
    by_sharding_key: bool = False,
    store: StoreKind,
    periods: int | None = 1,
) -> tuple[Setting, ...]:
    """Compute all settings of an insert; some of the user's would make loads inexact, and are refused."""
    exact = exact_settings(null_as_default=null_as_default, by_sharding_key=by_sharding_key, store=store)
    refused = sorted(user_settings.keys() & (exact_names(store) | WHOLE.keys()))
    if refused:
        raise ConfigurationError(f"settings: {', '.join(refused)} cannot be changed, or loads would not be exact.")
    unknown = sorted(user_settings.keys() - known.keys())
    if unknown:
        raise ConfigurationError(f"settings: not known to every node of the cluster: {', '.join(unknown)}.")
    users = {name: Setting(name, value, YOURS) for name, value in user_settings.items()}
    computed = (*tuned_settings(share, data), *_partitions(periods))
    tuned = (_allowed(setting, known.get(setting.name)) for setting in computed)
    chosen = exact | {setting.name: setting for setting in tuned} | users
    return tuple(setting for setting in chosen.values() if setting.name in known)


def _partitions(periods: int | None) -> Iterator[Setting]:
    if periods is None:
        yield Setting(_PARTITIONS, 0, "no limit: a period has any number of partitions")
    elif periods > 1:
        most = periods + _PARTITIONS_OF_OTHERS
        yield Setting(_PARTITIONS, most, f"{periods} periods, and the server's default for rows of others")


def _allowed(setting: Setting, highest: int | None) -> Setting:
    if highest is None or not isinstance(setting.value, int) or setting.value <= highest:
        return setting
    return Setting(setting.name, highest, f"limited by the user's profile; computed: {setting.value}")


def names_to_look_up(user_settings: SettingValues, store: StoreKind) -> tuple[str, ...]:
    """Return the names of the settings to look up on every node."""
    ours = {*exact_names(store), *READING_SETTING_NAMES, *TUNED_NAMES, *DDL_SETTINGS, *WITHOUT_ABSENT}
    return tuple(sorted({*ours, EMPTY_SOURCE, ADAPTIVE_BUFFERS, _PARTITIONS, *user_settings}))


def without_exact(settings: Iterable[Setting], store: StoreKind) -> list[Setting]:
    """Return the settings without those that make every load exact."""
    exact = exact_names(store)
    return [setting for setting in settings if setting.name not in exact]


def settings_table(shown: Sequence[Setting]) -> str:
    """Format settings as lines of name, value and reason."""
    name_width = max((len(setting.name) for setting in shown), default=0)
    value_width = max((len(str(setting.value)) for setting in shown), default=0)
    return "\n".join(
        f"  {setting.name:<{name_width}}  {setting.value!s:>{value_width}}  {setting.reason}" for setting in shown
    )


def tunable(settings: SettingValues, store: StoreKind) -> dict[str, SettingValue]:
    """Return the connection's settings that a load adopts: none that change how it reads files."""
    ours = exact_names(store) | COMPLETE.keys()
    return {name: value for name, value in settings.items() if name not in ours and not is_about_reading(name)}
