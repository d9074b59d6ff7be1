"""The names of formats and compressions, as `files` takes them."""

from __future__ import annotations

FORMAT_NAMES = (
    *("Parquet", "ORC", "Arrow", "Native", "CSV", "CSVWithNames", "TabSeparated", "TabSeparatedWithNames"),
    "JSONEachRow",
)
COMPRESSION_NAMES = ("auto", "none", "gzip", "zstd", "lz4", "xz", "br", "deflate", "snappy", "bz2")
BY_ENDING = "detected from the keys' endings"
