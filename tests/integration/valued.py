"""Small tables and files, and what is in a table after a load of them."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from tests.support.lake import PERIOD, Lake

PREFIX = f"trips/{PERIOD}/"
AT = "2026-10-05 12:00:00"
#: It may end the process of the 25.8 server of tests: see `programs/server.py`.
no_orc = pytest.mark.newer("ORC that tests can read: its reader ends the process")


def create(lake: Lake, columns: str, *, key: str = "toYYYYMM(ts)") -> None:
    sql = (
        f"CREATE TABLE {lake.database}.trips (ts DateTime('UTC'), {columns}) "
        f"ENGINE = MergeTree PARTITION BY {key} ORDER BY tuple() SETTINGS allow_nullable_key = 1"
    )
    for node in lake.cluster.nodes:
        # 25.8 has these types only for those who ask.
        with node.client(settings={"enable_time_time64_type": 1}) as client:
            client.execute(sql)


def create_each(lake: Lake, types: Iterable[str]) -> list[str]:
    """Create the table with a column of each of these types, `v0`, `v1`, …, and give their names."""
    columns = {f"v{number}": column_type for number, column_type in enumerate(types)}
    create(lake, ", ".join(f"{name} {column_type}" for name, column_type in columns.items()))
    return list(columns)


def parquet(*, metadata: dict[str, str] | None = None, **columns: Any) -> bytes:
    """A file of these columns beside `ts`; `metadata` is that of its schema."""
    file = io.BytesIO()
    pq.write_table(_table(**columns).replace_schema_metadata(metadata), file)
    return file.getvalue()


def int96(**columns: Any) -> bytes:
    """Parquet with all times as INT96."""
    file = io.BytesIO()
    pq.write_table(_table(**columns), file, use_deprecated_int96_timestamps=True)
    return file.getvalue()


def orc(**columns: Any) -> bytes:
    file = io.BytesIO()
    pyarrow.orc.write_table(_table(**columns), file)
    return file.getvalue()


def arrow(**columns: Any) -> bytes:
    file, table = io.BytesIO(), _table(**columns)
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return file.getvalue()


def _table(**columns: Any) -> pa.Table:
    rows = len(next(iter(columns.values())))
    ts = pa.array([dt.datetime(2026, 10, 5, 12, tzinfo=dt.UTC)] * rows, pa.timestamp("us", "UTC"))
    return pa.table({"ts": ts, **columns})


def values(lake: Lake, expression: str) -> list[Any]:
    rows = lake.on_node(
        0, f"SELECT {expression} FROM cluster('{lake.cluster.name}', {lake.database}, trips) ORDER BY ALL"
    )
    return [row[0] for row in rows]


def loaded(lake: Lake, key: str, body: bytes, expression: str, **options: Any) -> list[Any]:
    """Return the table's rows after a load of one file."""
    lake.put(PREFIX + key, body)
    lake.load(**options)
    return values(lake, expression)
