"""Deterministic taxi-like trips, period by period: files for S3, and the expected content of a table loaded from them.

The same seed gives the same bytes (with the same pyarrow), in whatever order the periods are generated.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

Format = Literal["parquet", "csv.gz", "jsonl", "jsonl.gz"]

COLUMNS: Mapping[str, str] = {
    "trip_id": "UInt64",
    "vendor": "LowCardinality(String)",
    "pickup_at": "DateTime('UTC')",
    "dropoff_at": "DateTime('UTC')",
    "passenger_count": "UInt8",
    "trip_distance": "Float64",
    "fare": "Decimal(10, 2)",
    "payment_type": "LowCardinality(String)",
    "zone": "String",
    "promo_code": "Nullable(String)",
}
"""ClickHouse's type of every column, in the order of the files."""

# Values that careless parsing would break.
_VENDORS = ("Creative Mobile", "VeriFone", "O'Hare & Söhne")
_PAYMENTS = ("card", "cash", "no charge", "dispute")
_ZONES = ("Astoria", "Bay Ridge", "Crown Heights, North", 'The "Hub"', "São Paulo Sq.", "50% Alley", "{x,y}*?", "東京")
_PROMO_CODES = (None, None, None, "SPRING", "NIGHT 10%")

_DAY_SECONDS = 86_400

# The same sum as `_checksum` below: all columns of a row, bound to its id, modulo 2**64.
_CHECKSUM_SQL = """sum(trip_id * (
    toUInt64(toUnixTimestamp(pickup_at)) + 31 * toUInt64(dateDiff('second', pickup_at, dropoff_at))
    + 101 * toUInt64(passenger_count) + 1009 * toUInt64(round(trip_distance * 100)) + 10007 * toUInt64(fare * 100)
    + toUInt64(CRC32(vendor)) + 3 * toUInt64(CRC32(payment_type)) + 5 * toUInt64(CRC32(zone))
    + 7 * toUInt64(CRC32(ifNull(promo_code, '')))))"""


@dataclass(frozen=True)
class PeriodFacts:
    """The sums of the rows of one period; equal facts mean equal content.

    Attributes:
        period: `YYYY-MM`.
        rows: Rows whose pickup lies in the period.
        trip_id_sum: Sum of their ids.
        fare_cents_sum: Sum of their fares in cents.
        distance_hundredths_sum: Sum of their distances in hundredths.
        passenger_sum: Sum of their passengers.
        checksum: Sum modulo 2**64 of a value of each row that depends on all its columns.
        rows_by_other_period: Period → its rows in this period's files. Comparisons ignore it.
    """

    period: str
    rows: int
    trip_id_sum: int
    fare_cents_sum: int
    distance_hundredths_sum: int
    passenger_sum: int
    checksum: int
    rows_by_other_period: Mapping[str, int] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Trips:
    """A generator of trips.

    Attributes:
        seed: Each seed gives different trips; 1 by default.
        rows_per_period: Rows in a period's files, including those of a wrong period; 10,000 by default.
        files_per_period: Files per period, with an equal share of the rows; 4 by default.
        wrong_period_rows: Rows with a pickup in the period before, as in real taxi data; none by default.
    """

    seed: int = 1
    rows_per_period: int = 10_000
    files_per_period: int = 4
    wrong_period_rows: int = 0

    def facts(self, period: str) -> PeriodFacts:
        """Return the expected facts of a table after a load of this period, computed without ClickHouse.

        Args:
            period: `YYYY-MM`.

        Returns:
            The facts of the rows that belong to the period.
        """
        raw = self._raw(period)
        of_period = {name: values[raw["pickup"] >= _start(period)] for name, values in raw.items()}
        return PeriodFacts(
            period=period,
            rows=self.rows_per_period - self.wrong_period_rows,
            trip_id_sum=int(of_period["trip_id"].sum()),
            fare_cents_sum=int(of_period["fare_cents"].sum()),
            distance_hundredths_sum=int(of_period["distance_hundredths"].sum()),
            passenger_sum=int(of_period["passengers"].sum()),
            checksum=_checksum(of_period),
            rows_by_other_period={_shift(period, -1): self.wrong_period_rows} if self.wrong_period_rows else {},
        )

    def table(self, period: str) -> pa.Table:
        """Return a period's rows as an Arrow table.

        Args:
            period: `YYYY-MM`.

        Returns:
            All rows of the period's files, in order.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        raw = self._raw(period)
        cents = pa.array(raw["fare_cents"].astype("int64")).cast(pa.decimal128(19, 0))
        at = pa.timestamp("s", tz="UTC")
        columns = {
            "trip_id": pa.array(raw["trip_id"]),
            "vendor": pa.array(_VENDORS).take(pa.array(raw["vendor"])),
            "pickup_at": pa.array(raw["pickup"].astype("int64")).cast(at),
            "dropoff_at": pa.array((raw["pickup"] + raw["duration"]).astype("int64")).cast(at),
            "passenger_count": pa.array(raw["passengers"].astype("uint8")),
            "trip_distance": pa.array(raw["distance_hundredths"] / 100),
            "fare": pc.multiply(cents, pa.scalar("0.01").cast(pa.decimal128(3, 2))).cast(pa.decimal128(10, 2)),
            "payment_type": pa.array(_PAYMENTS).take(pa.array(raw["payment"])),
            "zone": pa.array(_ZONES).take(pa.array(raw["zone"])),
            "promo_code": pa.array(_PROMO_CODES, pa.string()).take(pa.array(raw["promo"])),
        }
        return pa.table(columns)

    def files(self, period: str, *, file_format: Format = "parquet") -> Iterator[tuple[str, bytes]]:
        """Write a period's files.

        Args:
            period: `YYYY-MM`.
            file_format: `parquet` (the default), `csv.gz` (with a header), `jsonl` or `jsonl.gz` (JSONEachRow).

        Yields:
            Name and content of each file, such as `trips-2026-01-000.parquet`.
        """
        table = self.table(period)
        bounds = [index * len(table) // self.files_per_period for index in range(self.files_per_period + 1)]
        for index in range(self.files_per_period):
            part = table.slice(bounds[index], bounds[index + 1] - bounds[index])
            yield f"trips-{period}-{index:03}.{file_format}", WRITERS[file_format](part)

    def upload(
        self, client: Any, period: str, *, bucket: str, prefix: str = "", file_format: Format = "parquet"
    ) -> list[str]:
        """Put a period's files into S3.

        Args:
            client: boto3 client of S3.
            period: `YYYY-MM`.
            bucket: An existing bucket.
            prefix: Prefix of the keys, such as `trips/2026-01/`; empty by default.
            file_format: As in `files`.

        Returns:
            The keys.
        """
        keys = []
        for name, content in self.files(period, file_format=file_format):
            client.put_object(Bucket=bucket, Key=prefix + name, Body=content)
            keys.append(prefix + name)
        return keys

    def _raw(self, period: str) -> dict[str, np.ndarray[Any, Any]]:
        """Return the period as unsigned integers; strings become indexes into the lists above."""
        import numpy as np

        start, end = _start(period), _start(_shift(period, 1))
        # Raw output of the generator: only this part of numpy's random numbers is the same in all versions.
        generator = np.random.PCG64([self.seed, start])

        def draw(limit: int) -> np.ndarray[Any, Any]:
            return generator.random_raw(self.rows_per_period) % np.uint64(limit)

        pickup = draw(end - start) + np.uint64(start)
        wrong = np.linspace(0, self.rows_per_period - 1, self.wrong_period_rows).astype(int)
        pickup[wrong] = np.uint64(start - 1) - pickup[wrong] % np.uint64(_DAY_SECONDS)
        return {
            "trip_id": np.arange(1, self.rows_per_period + 1, dtype=np.uint64) + np.uint64(start * 1000),
            "pickup": pickup,
            "duration": draw(5_400) + np.uint64(60),
            "passengers": draw(6) + np.uint64(1),
            "distance_hundredths": draw(3_000),
            "fare_cents": draw(20_000) + np.uint64(250),
            "vendor": draw(len(_VENDORS)),
            "payment": draw(len(_PAYMENTS)),
            "zone": draw(len(_ZONES)),
            "promo": draw(len(_PROMO_CODES)),
        }


def create_table_sql(table: str, *, engine: str = "MergeTree", order_by: str = "(zone, pickup_at)") -> str:
    """Return the statement that creates a table for trips, partitioned by period.

    Args:
        table: `database.table`, used as is.
        engine: Its engine; MergeTree by default.
        order_by: Its sorting key; zone and time of pickup by default.

    Returns:
        SQL text.
    """
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    return f"CREATE TABLE {table} ({columns}) ENGINE = {engine} PARTITION BY toYYYYMM(pickup_at) ORDER BY {order_by}"


def read_facts(client: Any, source: str, period: str) -> PeriodFacts:
    """Read the facts of a period from ClickHouse.

    Args:
        client: clickhouse-driver client of a node.
        source: A table, or a table function such as `cluster(chs3, db, trips)`, used as is.
        period: `YYYY-MM`.

    Returns:
        The facts; `rows_by_other_period` is empty.
    """
    row = client.execute(
        f"SELECT count(), sum(trip_id), toUInt64(sum(fare) * 100), toUInt64(sum(round(trip_distance * 100))), "
        f"sum(passenger_count), {_CHECKSUM_SQL} FROM {source} WHERE toYYYYMM(pickup_at) = {period.replace('-', '')}"
    )[0]
    return PeriodFacts(period, *row)


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


#: The same rows give the same bytes.
WRITERS: Mapping[Format, Callable[[pa.Table], bytes]] = {
    "parquet": _parquet,
    "csv.gz": _csv_gz,
    "jsonl": _jsonl,
    "jsonl.gz": lambda table: _gzip(_jsonl(table)),
}


def _checksum(raw: Mapping[str, np.ndarray[Any, Any]]) -> int:
    import numpy as np

    def crc(name: str, values: tuple[str | None, ...]) -> np.ndarray[Any, Any]:
        table = np.array([zlib.crc32((value or "").encode()) for value in values], dtype=np.uint64)
        return table[raw[name]]

    mix = (
        raw["pickup"]
        + np.uint64(31) * raw["duration"]
        + np.uint64(101) * raw["passengers"]
        + np.uint64(1009) * raw["distance_hundredths"]
        + np.uint64(10007) * raw["fare_cents"]
        + crc("vendor", _VENDORS)
        + np.uint64(3) * crc("payment", _PAYMENTS)
        + np.uint64(5) * crc("zone", _ZONES)
        + np.uint64(7) * crc("promo", _PROMO_CODES)
    )
    return int((raw["trip_id"] * mix).sum())


def _start(period: str) -> int:
    return int(datetime.strptime(period, "%Y-%m").replace(tzinfo=UTC).timestamp())


def _shift(period: str, periods: int) -> str:
    year, index = divmod(int(period[:4]) * 12 + int(period[5:]) - 1 + periods, 12)
    return f"{year:04}-{index + 1:02}"
