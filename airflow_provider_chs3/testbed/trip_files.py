"""File formats of the generated trips. The same rows give the same bytes."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

Format = Literal["parquet", "csv.gz", "jsonl", "jsonl.gz"]


def _parquet(table: pa.Table) -> bytes:
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def _csv_gz(table: pa.Table) -> bytes:
    from pyarrow import csv

    buffer = io.BytesIO()
    csv.write_csv(_without_zone(table), buffer)
    return _gzip(buffer.getvalue())


def _jsonl(table: pa.Table) -> bytes:
    lines = [json.dumps(row, default=str, ensure_ascii=False) for row in _without_zone(table).to_pylist()]
    return "".join(f"{line}\n" for line in lines).encode()


def _without_zone(table: pa.Table) -> pa.Table:
    """Return the table with times as ClickHouse's text formats read them by default: without `Z` or `+00:00`."""
    import pyarrow as pa

    local = pa.timestamp("s")
    schema = pa.schema(
        [(column.name, local if pa.types.is_timestamp(column.type) else column.type) for column in table.schema]
    )
    return table.cast(schema)


def _gzip(content: bytes) -> bytes:
    # Without the time, with which the same rows would give different bytes.
    return gzip.compress(content, mtime=0)


WRITERS: Mapping[Format, Callable[[pa.Table], bytes]] = {
    "parquet": _parquet,
    "csv.gz": _csv_gz,
    "jsonl": _jsonl,
    "jsonl.gz": lambda table: _gzip(_jsonl(table)),
}
