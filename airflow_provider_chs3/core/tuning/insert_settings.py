"""Compute the settings of a load, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from airflow_provider_chs3.core.files.csv_dialect import READING_SETTING_NAMES
from airflow_provider_chs3.core.files.data_volume import DataVolume
from airflow_provider_chs3.core.model.models import ADAPTIVE_BUFFERS, Setting, SettingValue, SettingValues
from airflow_provider_chs3.core.model.store_kind import StoreKind
from airflow_provider_chs3.core.sql.complete_answers import COMPLETE, WHOLE, WITHOUT_ABSENT
from airflow_provider_chs3.core.sql.server_defaults import is_about_reading
from airflow_provider_chs3.core.tuning.exact_settings import DDL_SETTINGS, EMPTY_SOURCE, exact_names, exact_settings
from airflow_provider_chs3.core.tuning.reader_settings import downloads, read_threads, reader_bytes, reader_memory
from airflow_provider_chs3.core.tuning.resource_share import BLOCKS_OF_A_THREAD, ResourceShare, is_small
from airflow_provider_chs3.exceptions import ConfigurationError

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


def tuned_settings(share: ResourceShare, data: DataVolume) -> tuple[Setting, ...]:
    """Compute the settings that make a load fast, each with its reason. `docs/tuning.md` names each rule's source."""
    threads, readers = _threads(share, data), read_threads(share, data)
    return (
        threads,
        Setting(
            "max_insert_threads_min_free_memory_per_thread", 0, "the number of threads already follows from the memory"
        ),
        *_block(share, data, int(threads.value)),
        readers,
        *reader_memory(share, data),
        *downloads(data, int(readers.value)),
        *_writing(share, data, int(threads.value)),
        *_limit(share),
    )


def _threads(share: ResourceShare, data: DataVolume) -> Setting:
    """Use half of the cores, as the guide does; all for a small period, where more threads do not make more parts."""
    threads, reason = share.rule_threads, f"half of {share.node_cores} cores; merges get the rest"
    if share.parallel_loads > 1:
        reason = f"{share.node_cores} cores for {share.parallel_loads} parallel periods"
    if is_small(share, data):
        threads, reason = (
            share.cores,
            f"{share.cores} of {share.node_cores} cores: the period is small, so few merges follow",
        )
    fitting = share.memory_bytes // (3 * _SMALLEST_BLOCK_BYTES)
    if share.memory_bytes and fitting < threads:
        return Setting(
            "max_insert_threads", max(1, fitting), f"as many as fit into {share.memory_bytes} bytes of memory"
        )
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
    memory_bytes = share.memory_bytes - (0 if share.is_isolated else reader_bytes(share, data))
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


def _limit(share: ResourceShare) -> Iterator[Setting]:
    if share.limit_bytes:
        yield Setting(
            "max_memory_usage", share.limit_bytes, "all loads' share: a load that needs more starts over with less"
        )


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
    """Compute all settings of an insert.

    Raises:
        ConfigurationError: If one of the user's settings would make loads inexact, or is not known to every node.
    """
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
    names = {
        *exact_names(store),
        *READING_SETTING_NAMES,
        *TUNED_NAMES,
        *DDL_SETTINGS,
        EMPTY_SOURCE,
        ADAPTIVE_BUFFERS,
        _PARTITIONS,
        *user_settings,
    }
    return tuple(sorted(names | WITHOUT_ABSENT.keys()))


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
