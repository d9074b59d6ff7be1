"""Files of other writers, of every type that they have: loaded as pyarrow reads them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fidelity.real_loads import is_loaded
from tests.support.lake import IS_OLDEST, Lake

_UTC = dt.UTC
_TIME = dt.datetime(2026, 10, 5, 1, 2, 3, 456789)
_EARLY = dt.datetime(1901, 12, 31, 23, 59, 59)
TABLE = pa.table(
    {
        "i8": pa.array([-128, None, 127], pa.int8()),
        "u16": pa.array([0, None, 65535], pa.uint16()),
        "i64": pa.array([-(2**63), None, 2**63 - 1], pa.int64()),
        "u64": pa.array([0, None, 2**64 - 1], pa.uint64()),
        "f32": pa.array([0.1, None, -1e-40], pa.float32()),
        "f64": pa.array([0.1, None, 5e-324], pa.float64()),
        "bool": pa.array([True, None, False]),
        "text": pa.array(["", None, "ü\0\n"]),
        "bytes": pa.array([b"", None, b"\xff\0"], pa.binary()),
        "decimal": pa.array([Decimal("-1.23"), None, Decimal("9999999.99")], pa.decimal128(9, 2)),
        "wide": pa.array([Decimal("-1.5"), None, Decimal("9" * 35 + ".5")], pa.decimal128(38, 1)),
        "day": pa.array([dt.date(1969, 12, 31), None, dt.date(2100, 1, 1)]),
        "at": pa.array([_EARLY, None, _TIME], pa.timestamp("us", "UTC")),
        "local": pa.array([_EARLY, None, _TIME], pa.timestamp("us")),
        "ns": pa.array([1, None, 1_790_820_184_123_456_789], pa.timestamp("ns", "UTC")),
        "list": pa.array([[1, None], [], [2]], pa.list_(pa.int32())),
        "struct": pa.array([{"a": 1, "b": "x"}, {"a": None, "b": ""}, {"a": 3, "b": None}]),
    }
)
#: No subnormal ones: 25.8 refuses these, see tests/integration/load/test_altered_values.py.
HALVES = pa.table({"f16": pa.array(np.array([0.5, 65504, -(2**-14)], np.float16))})


def _pyarrow(path: Path) -> None:
    pq.write_table(TABLE.append_column("f16", HALVES["f16"]), path)


def _pyarrow_int96(path: Path) -> None:
    pq.write_table(TABLE, path, use_deprecated_int96_timestamps=True)


def _polars(path: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.from_arrow(TABLE)
    if path.suffix == ".parquet":
        frame.write_parquet(path)
    else:
        # 25.8 reads no views of texts.
        frame.write_ipc(path, compat_level=polars.CompatLevel.oldest() if IS_OLDEST else None)


def _duckdb(path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.register("written", TABLE)
        connection.execute(f"COPY written TO '{path}' (FORMAT parquet)")


def _fastparquet(path: Path, times: str = "int64") -> None:
    fastparquet = pytest.importorskip("fastparquet")
    flat = TABLE.drop_columns(["list", "struct", "decimal", "wide", "day", "local", "u64"])
    frame = pd.DataFrame({name: flat[name].to_pandas() for name in ("f32", "f64", "text", "bytes", "at", "ns")})
    fastparquet.write(str(path), frame, times=times)


def _fastparquet_int96(path: Path) -> None:
    _fastparquet(path, "int96")


WRITERS: dict[str, tuple[Callable[[Path], None], str]] = {
    "pyarrow": (_pyarrow, "parquet"),
    "pyarrow, INT96": (_pyarrow_int96, "parquet"),
    "polars": (_polars, "parquet"),
    "polars, Arrow": (_polars, "arrow"),
    "duckdb": (_duckdb, "parquet"),
    "fastparquet": (_fastparquet, "parquet"),
    "fastparquet, INT96": (_fastparquet_int96, "parquet"),
}


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_of_another_writer_is_loaded_as_pyarrow_reads_it(
    fidelity_lake: Lake, tmp_path: Path, writer: str
) -> None:
    write, ending = WRITERS[writer]
    path = tmp_path / f"{''.join(filter(str.isalnum, writer))}.{ending}"
    write(path)
    is_loaded(fidelity_lake, path)
