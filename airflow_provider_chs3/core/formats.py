"""Formats: what a key's ending says, and how each is read."""

from __future__ import annotations

import re
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
        empty_is_text: An empty field of a text column is the empty string, not NULL.
    """

    name: str
    is_typed: bool = False
    names_columns: bool = True
    empty_is_text: bool = False


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
        Format("CSV", names_columns=False, empty_is_text=True),
        Format("CSVWithNames", empty_is_text=True),
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
        raise ConfigurationError(f"format={name!r} is not one that can be loaded: use one of {', '.join(_FORMATS)}.")
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
        raise ConfigurationError(f"The ending of {key!r} names no format: give it, such as format='Parquet'.")
    return _FORMATS[_BY_ENDING[words[-1]]]


#: An integer type; or a string, such as the name of an Enum's value, in which nothing is one.
_INTEGER = re.compile(r"'(?:[^'\\]|\\.)*'|\bU?Int(8|16|32|64|128)\b")


def roomy_text_type(column_type: str, *, empty_is_text: bool) -> str:
    """The type to read a text field as, so that a value which does not fit its column fails instead of wrapping.

    ClickHouse's text formats take an integer modulo its width (70000 becomes 4464 in a UInt16) and fill a missing field
    with 0. Read into a wider integer that may be NULL, both come out and can be refused afterwards.

    Args:
        column_type: The column's type.
        empty_is_text: As in `Format`.
    """
    inner = column_type
    if inner.startswith("LowCardinality("):
        inner = inner[len("LowCardinality(") : -1]
    if inner.startswith(("Array(", "Map(", "Tuple(", "JSON", "Nested(", "Variant(", "Dynamic", "AggregateFunction(")):
        return _INTEGER.sub(_wider, inner)
    if inner.startswith("Nullable("):
        inner = inner[len("Nullable(") : -1]
    elif empty_is_text and inner.startswith(("String", "FixedString")):
        return inner
    return f"Nullable({_INTEGER.sub(_wider, inner)})"


def _wider(found: re.Match[str]) -> str:
    if not found[1]:
        return found[0]
    return "Int256" if found[1] == "128" else "Int128"
