"""Files of messages, one for each period of their timestamps."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from airflow_provider_chs3.core.values.period import FIRST_YEAR, LAST_YEAR, Period
from airflow_provider_chs3.exceptions import SourceError

#: What is held in memory before a row group is written: of keys and values, and of messages, each with a kilobyte more.
_ROW_GROUP_BYTES = 64 * 2**20
_ROW_GROUP_MESSAGES = 100_000
#: A day from the ends, so that they are in these years in every time zone.
_FIRST = int(datetime(FIRST_YEAR, 1, 2, tzinfo=UTC).timestamp() * 1000)
_END = int(datetime(LAST_YEAR, 12, 31, tzinfo=UTC).timestamp() * 1000)


class MessageFiles:
    """Parquet files in a temporary folder; use it in a `with` block.

    Args:
        timezone: Name of the time zone in which periods begin.
    """

    def __init__(self, timezone: str) -> None:
        self._timezone = timezone
        self._folder = tempfile.TemporaryDirectory(prefix="chs3-landing-")
        self._writers: dict[Period, Any] = {}
        self._rows: dict[Period, int] = {}
        self._waiting: list[Any] = []
        self._waiting_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    def add(self, message: Any) -> None:
        """Add a message of confluent-kafka.

        Raises:
            SourceError: If its timestamp is in no period.
        """
        self._waiting.append(message)
        self._waiting_bytes += len(message)
        # Both limits depend on the messages alone: a retry writes the same bytes.
        if self._waiting_bytes >= _ROW_GROUP_BYTES or len(self._waiting) >= _ROW_GROUP_MESSAGES:
            self._write()

    def finished(self) -> Iterator[tuple[Period, Path, int]]:
        """Finish the files, and return them in the order of periods, with their messages. Raises as `add`."""
        self._write()
        for period, writer in sorted(self._writers.items()):
            writer.close()
            yield period, self._path(period), self._rows[period]

    def _path(self, period: Period) -> Path:
        return Path(self._folder.name) / f"{period}.parquet"

    def _write(self) -> None:
        if not self._waiting:
            return
        import pyarrow as pa
        import pyarrow.compute as pc

        table = _table(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        local = table["timestamp"].cast(pa.timestamp("ms", tz=self._timezone))
        numbers = pc.add(pc.multiply(pc.year(local), 12), pc.subtract(pc.month(local), 1))
        for number in sorted(pc.unique(numbers).to_pylist()):
            rows = table if pc.all(pc.equal(numbers, number)).as_py() else table.filter(pc.equal(numbers, number))
            period = Period.of_month(number // 12, number % 12 + 1)
            self._writer(period, rows.schema).write_table(rows)
            self._rows[period] = self._rows.get(period, 0) + rows.num_rows

    def _writer(self, period: Period, schema: Any) -> Any:
        import pyarrow.parquet as pq

        if period not in self._writers:
            self._writers[period] = pq.ParquetWriter(self._path(period), schema, compression="zstd")
        return self._writers[period]


def _table(messages: list[Any]) -> Any:
    import pyarrow as pa

    header = pa.struct([pa.field("name", pa.string(), nullable=False), pa.field("value", pa.binary())])
    columns = {
        "key": pa.array([each.key() for each in messages], pa.binary()),
        "value": pa.array([each.value() for each in messages], pa.binary()),
        "partition": pa.array([each.partition() for each in messages], pa.int32()),
        "offset": pa.array([each.offset() for each in messages], pa.int64()),
        "timestamp": pa.array([_milliseconds(each) for each in messages], pa.timestamp("ms", tz="UTC")),
        "headers": pa.array([_headers(each) for each in messages], pa.list_(header)),
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
            f"has the timestamp {milliseconds}, which is in no period from {FIRST_YEAR} to {LAST_YEAR}. Producers give "
            "milliseconds since 1970; a topic with message.timestamp.type=LogAppendTime takes the broker's clock."
        )
    at: int = milliseconds
    return at
