"""Files of messages, one for each period of their timestamps."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from airflow_provider_chs3.core.model.period import FIRST_YEAR, LAST_YEAR, WHOLE_TABLE, Grain, Period
from airflow_provider_chs3.exceptions import SourceError

#: Limits of a row group in memory: the bytes of keys and values, and the messages, each with a kilobyte more.
_ROW_GROUP_BYTES = 64 * 2**20
_ROW_GROUP_MESSAGES = 100_000
#: A day from the first Monday and from the end, so that in every time zone their weeks begin in these years.
_FIRST = int(datetime(FIRST_YEAR, 1, 5, tzinfo=UTC).timestamp() * 1000)
_END = int(datetime(LAST_YEAR, 12, 31, tzinfo=UTC).timestamp() * 1000)


class MessageFiles:
    """Parquet files in a temporary folder; use it in a `with` block.

    Messages may be of more periods than a process may have files open: until all have come, those of a period are
    appended to a file of Arrow.
    """

    def __init__(self, grain: Grain, timezone: str) -> None:
        self._grain = grain
        self._timezone = "UTC" if grain is Grain.HOUR else timezone
        self._folder = tempfile.TemporaryDirectory(prefix="chs3-landing-")
        self._rows: dict[Period, int] = {}
        self._waiting: list[Any] = []
        self._waiting_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def add(self, message: Any) -> None:
        """Add a message of confluent-kafka."""
        self._waiting.append(message)
        self._waiting_bytes += len(message)
        # Both limits depend on the messages alone: a retry writes the same bytes.
        if self._waiting_bytes >= _ROW_GROUP_BYTES or len(self._waiting) >= _ROW_GROUP_MESSAGES:
            self._write()

    def finished(self) -> Iterator[tuple[Period, Path, int]]:
        """Finish the files, and return them in the order of periods, with their messages. Raises as `add`."""
        self._write()
        for period, rows in sorted(self._rows.items()):
            yield period, self._finish(period), rows

    def _path(self, period: Period, suffix: str) -> Path:
        return Path(self._folder.name) / f"{period}.{suffix}"

    def _write(self) -> None:
        if not self._waiting:
            return
        import pyarrow as pa

        table = _table(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        for period, rows in self._by_period(table):
            with pa.OSFile(str(self._path(period, "arrow")), "ab") as file, pa.ipc.new_stream(file, rows.schema) as to:
                to.write_table(rows)
            self._rows[period] = self._rows.get(period, 0) + rows.num_rows

    def _by_period(self, table: Any) -> Iterator[tuple[Period, Any]]:
        if self._grain is Grain.ALL:
            yield WHOLE_TABLE, table
            return
        import pyarrow as pa
        import pyarrow.compute as pc

        # Without their zone: clocks may skip midnight.
        local = pc.local_timestamp(table["timestamp"].cast(pa.timestamp("ms", tz=self._timezone)))
        begins = pc.floor_temporal(local, unit=self._grain.value)
        for begin in sorted(pc.unique(begins).to_pylist()):
            yield Period(begin, self._grain), table.filter(pc.equal(begins, pa.scalar(begin, begins.type)))

    def _finish(self, period: Period) -> Path:
        """Write the file of a period: a row group for what was written at a time."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        written, path = self._path(period, "arrow"), self._path(period, "parquet")
        with pa.memory_map(str(written)) as file:
            schema = pa.ipc.open_stream(file).schema
            file.seek(0)
            with pq.ParquetWriter(path, schema, compression="zstd") as to:
                while file.tell() < file.size():
                    to.write_table(pa.ipc.open_stream(file).read_all())
        written.unlink()
        return path


def _table(messages: list[Any]) -> Any:
    import pyarrow as pa

    header = pa.struct([pa.field("name", pa.string(), nullable=False), pa.field("value", pa.binary())])
    columns = {
        "key": pa.array([message.key() for message in messages], pa.binary()),
        "value": pa.array([message.value() for message in messages], pa.binary()),
        "partition": pa.array([message.partition() for message in messages], pa.int32()),
        "offset": pa.array([message.offset() for message in messages], pa.int64()),
        "timestamp": pa.array([_milliseconds(message) for message in messages], pa.timestamp("ms", tz="UTC")),
        "headers": pa.array([_headers(message) for message in messages], pa.list_(header)),
    }
    nullable = {"key", "value"}
    fields = [pa.field(name, column.type, nullable=name in nullable) for name, column in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def _headers(message: Any) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in message.headers() or ()]


def _milliseconds(message: Any) -> int:
    from confluent_kafka import TIMESTAMP_NOT_AVAILABLE

    kind, milliseconds = message.timestamp()
    if kind == TIMESTAMP_NOT_AVAILABLE or not _FIRST <= milliseconds < _END:
        raise SourceError(
            f"The message at offset {message.offset()} of topic {message.topic()!r}, partition {message.partition()}, "
            f"has the timestamp {milliseconds}, which is in no period from {FIRST_YEAR} to {LAST_YEAR}. Producers send "
            "milliseconds since 1970; a topic with message.timestamp.type=LogAppendTime takes the broker's clock."
        )
    at: int = milliseconds
    return at
