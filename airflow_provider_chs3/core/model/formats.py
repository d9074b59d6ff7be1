"""Formats: which extension means which, and how each is read."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_chs3.exceptions import ConfigurationError

#: As ClickHouse takes the endings of keys.
_COMPRESSIONS = {
    **{"gz": "gzip", "gzip": "gzip", "zst": "zstd", "zstd": "zstd", "lz4": "lz4", "xz": "xz", "lzma": "xz"},
    **{"br": "br", "brotli": "br", "deflate": "deflate", "snappy": "snappy", "bz2": "bz2"},
}


@dataclass(frozen=True, slots=True)
class Format:
    """The properties of a format for reading."""

    name: str
    is_typed: bool = False
    names_columns: bool = True
    has_footer: bool = False

    @property
    def is_csv(self) -> bool:
        """Check whether files are CSV, of any dialect."""
        return self.name.startswith("CSV")


def compression_of_key(key: str) -> str:
    """Return ClickHouse's name for the compression of a key's extension; `none` if it has no such extension."""
    return _COMPRESSIONS.get(key.lower().rpartition(".")[2], "none")


#: Name → format, of those that can be loaded.
FORMATS = {
    format_.name: format_
    for format_ in (
        Format("Parquet", is_typed=True, has_footer=True),
        Format("ORC", is_typed=True, has_footer=True),
        Format("Arrow", is_typed=True, has_footer=True),
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
    """Return the format with this name.

    Raises:
        ConfigurationError: If this package does not know how to load it safely.
    """
    if name not in FORMATS:
        raise ConfigurationError(
            f"files['file_format']={name!r} is not one that can be loaded: use one of {', '.join(FORMATS)}."
        )
    return FORMATS[name]


def format_of_key(key: str) -> Format:
    """Return the format that a key's extension means; `.csv` and `.tsv` files are assumed to have a header.

    Raises:
        ConfigurationError: If the extension is unknown.
    """
    words = key.rsplit("/", 1)[-1].lower().split(".")
    if len(words) > 1 and words[-1] in _COMPRESSIONS:
        words.pop()
    if words[-1] not in _BY_ENDING:
        raise ConfigurationError(
            f"The ending of {key!r} names no format: set it, such as files={{'file_format': 'Parquet'}}."
        )
    return FORMATS[_BY_ENDING[words[-1]]]
