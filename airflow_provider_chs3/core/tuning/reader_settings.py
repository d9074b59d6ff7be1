"""Compute the settings for reading files, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_chs3.core.files.data_volume import DataVolume
from airflow_provider_chs3.core.model.models import Setting
from airflow_provider_chs3.core.tuning.resource_share import ResourceShare

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


def read_threads(share: ResourceShare, data: DataVolume) -> Setting:
    """Compute `max_threads`: each thread opens one file after another, and reads it in several requests."""
    threads, more = min(share.node_cores, 2 * share.cores), _threads_of_small_files(share, data)
    if more > threads:
        return Setting("max_threads", more, f"{data.files_per_node} small files per node: threads mostly wait for S3")
    if share.parallel_loads > 1:
        reason = f"twice this load's {share.cores} cores, at most all: reading waits for S3 much of the time"
        return Setting("max_threads", threads, reason)
    return Setting("max_threads", threads, f"all {threads} cores read")


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


def reader_bytes(share: ResourceShare, data: DataVolume) -> int:
    """Return the memory of the Parquet reader in bytes; 0 for other formats."""
    return min(_PARQUET_READER_BYTES, _reader_share(share)) if data.is_parquet else 0


def reader_memory(share: ResourceShare, data: DataVolume) -> Iterator[Setting]:
    """Limit the reader's memory, which the guide's formula ignores: it would take up to 4 GiB in addition."""
    size_bytes = reader_bytes(share, data)
    if size_bytes:
        reason = "the Parquet reader's share of the memory: an eighth, at most the default of 4 GiB"
        yield Setting("input_format_parquet_memory_high_watermark", size_bytes, reason)


def downloads(data: DataVolume, threads: int) -> Iterator[Setting]:
    """Compute the settings for downloads."""
    if 0 < data.largest_file_bytes <= 2 * _DOWNLOAD_BUFFER_BYTES:
        reason = "files are small: one download each"
        yield Setting("max_download_buffer_size", _DOWNLOAD_BUFFER_BYTES, reason)
    elif data.files_per_node * _DEFAULT_DOWNLOADS < threads:
        ranges = threads // data.files_per_node
        reason = f"{data.files_per_node} large files per node for {threads} threads"
        yield Setting("max_download_threads", ranges, reason)
    if threads == 1:
        reason = "a single thread needs no thread pool for reading"
        yield Setting("remote_filesystem_read_method", "read", reason)
