"""Formats: what a key's ending says, and how each is read."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_chs3.exceptions import ConfigurationError

_COMPRESSIONS = {"gz": "gzip", "gzip": "gzip", "zst": "zstd", "zstd": "zstd", "lz4": "lz4", "xz": "xz", "bz2": "bz2"}


@dataclass(frozen=True, slots=True)
class Format:
    """How a format behaves when it is read.

    Args:
        name: ClickHouse's name.
        is_typed: Files carry the types of their columns, so that they are asked for them; else values are text.
        names_columns: Files carry the names of their columns.
    """

    name: str
    is_typed: bool = False
    names_columns: bool = True


def compression_of_key(key: str) -> str:
    """ClickHouse's name of the compression that a key's ending stands for; `none` where it says none."""
    return _COMPRESSIONS.get(key.lower().rpartition(".")[2], "none")


_FORMATS = {
    each.name: each
    for each in (
        Format("Parquet", is_typed=True),
        Format("ORC", is_typed=True),
        Format("Arrow", is_typed=True),
        Format("Native", is_typed=True),
        Format("CSV", names_columns=False),
        Format("CSVWithNames"),
        Format("TabSeparated", names_columns=False),
        Format("TabSeparatedWithNames"),
        Format("JSONEachRow"),
    )
}

_BY_ENDING = {
    "parquet": "Parquet",
    "orc": "ORC",
    "arrow": "Arrow",
    "native": "Native",
    "csv": "CSVWithNames",
    "tsv": "TabSeparatedWithNames",
    "jsonl": "JSONEachRow",
    "ndjson": "JSONEachRow",
    "json": "JSONEachRow",
}


def format_named(name: str) -> Format:
    """The format of that name.

    Raises:
        ConfigurationError: If this package does not know how to load it safely.
    """
    if name not in _FORMATS:
        raise ConfigurationError(
            f"file_format={name!r} is not one that can be loaded: use one of {', '.join(_FORMATS)}."
        )
    return _FORMATS[name]


def format_of_key(key: str) -> Format:
    """The format that a key's ending stands for; `.csv` and `.tsv` are taken to have a line of names.

    Raises:
        ConfigurationError: If the ending says nothing.
    """
    words = key.rsplit("/", 1)[-1].lower().split(".")
    if len(words) > 1 and words[-1] in _COMPRESSIONS:
        words.pop()
    if words[-1] not in _BY_ENDING:
        raise ConfigurationError(f"The ending of {key!r} names no format: give it, such as file_format='Parquet'.")
    return _FORMATS[_BY_ENDING[words[-1]]]
