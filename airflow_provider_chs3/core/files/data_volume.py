"""Estimate how much data a load moves, as far as possible before reading it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_chs3.core.files.file_groups import Reading
from airflow_provider_chs3.core.files.file_set import Files

#: How many times larger than its file text is at least; a guess that is too high would leave cores without work.
_RATIOS = {"gzip": 3.0, "zstd": 3.0, "xz": 4.0, "lz4": 2.0}
#: JSON repeats the names of its columns in every line.
_JSON_RATIO = 0.5

_WIDTHS = {"Date": 2, "Date32": 4, "DateTime": 4, "DateTime64": 8, "UUID": 16, "IPv4": 4, "IPv6": 16, "Bool": 1}
_SIZED = re.compile(r"(?:U?Int|Float|BFloat|Enum|Decimal)(\d+)")
_WRAPPERS = re.compile(r"^(?:LowCardinality|Nullable)\(")
#: Bytes of a value of all other types, and of the length of a string.
_LEAST_WIDTH = 8


@dataclass(frozen=True, kw_only=True)
class DataVolume:
    """The data of a load, as each node gets it.

    Args:
        periods: As how many periods of the size of the largest one the load is; 1 if it loads a single one.
        share_bytes: A node's share in memory, uncompressed; None if not known.
        share_rows: A node's share of the rows; None if no footer has them.
        files_per_node: Files of a node, at least 1.
        largest_file_bytes: Stored size of the largest file in bytes.
        is_parquet: Whether files are Parquet, whose reader needs its own memory.
        is_on_remote_disk: Whether a node writes to anything but a local disk, such as S3.
    """

    periods: int = 1
    share_bytes: int | None = None
    share_rows: int | None = None
    files_per_node: int = 1
    largest_file_bytes: int = 0
    is_parquet: bool = False
    is_on_remote_disk: bool = False


def shape_of(
    files: Files, reading: Reading, *, nodes: int, is_on_remote_disk: bool, largest_period_bytes: int | None = None
) -> DataVolume:
    """Estimate the volume of a load's files."""
    objects = files.manifest.objects
    return DataVolume(
        periods=files.manifest.size_bytes // largest_period_bytes if largest_period_bytes else 1,
        share_bytes=_memory_bytes(files, reading) // nodes if objects else None,
        share_rows=reading.rows // nodes if objects and reading.rows is not None else None,
        files_per_node=max(1, len(objects) // nodes),
        largest_file_bytes=max((unit.size_bytes for unit in objects), default=0),
        is_parquet=files.format.name == "Parquet",
        is_on_remote_disk=is_on_remote_disk,
    )


def _memory_bytes(files: Files, reading: Reading) -> int:
    if reading.rows is not None and reading.uncompressed_bytes is not None:
        # Footers count values as they are encoded: a repeated one, a time or a number may take more in memory.
        return max(reading.uncompressed_bytes, reading.rows * row_width_bytes(reading.types))
    ratio = _JSON_RATIO if files.format.name == "JSONEachRow" else 1.0
    return int(sum(unit.size_bytes * ratio * _ratio(files, unit.key) for unit in files.manifest.objects))


def _ratio(files: Files, key: str) -> float:
    if files.format.is_typed:
        return 1.0
    return _RATIOS.get(files.compression_of(key), 1.0)


def row_width_bytes(types: Mapping[str, str]) -> int:
    """Return the least memory of a row in bytes: strings count as their lengths alone."""
    return sum(_width(column_type) for column_type in types.values())


def _width(column_type: str) -> int:
    inner = _WRAPPERS.sub("", _WRAPPERS.sub("", column_type))
    word = re.split(r"[(),\s]", inner, maxsplit=1)[0]
    sized = _SIZED.fullmatch(word)
    return int(sized[1]) // 8 if sized else _WIDTHS.get(word, _LEAST_WIDTH)
