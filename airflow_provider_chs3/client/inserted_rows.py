"""Find the row and the column that keep rows from being inserted. The driver names neither."""

from __future__ import annotations

import reprlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import clickhouse_driver.errors as driver_errors  # noqa: TID253
from clickhouse_driver.bufferedwriter import BufferedSocketWriter  # noqa: TID253
from clickhouse_driver.columns.service import write_column  # noqa: TID253

from airflow_provider_chs3.exceptions import RowError

Columns = Sequence[tuple[str, str]]

#: These say nothing of the rows.
OF_OTHERS = (
    driver_errors.ServerException,
    driver_errors.NetworkError,
    driver_errors.UnknownTypeError,
    OSError,
    EOFError,
)


class _Nowhere:
    """A socket whose bytes go nowhere."""

    def sendall(self, _: bytes) -> None:
        """Send nothing."""


@contextmanager
def misfits_named(columns: Columns, rows: Any, context: Any) -> Iterator[None]:
    """Name the row and the column that the driver cannot send."""
    if not isinstance(rows, list) or not all(isinstance(row, tuple | list) for row in rows):
        yield
        return
    _check_lengths(columns, rows)
    try:
        yield
    except OF_OTHERS:
        raise
    except Exception as error:
        if misfit := first_misfit(columns, rows, context):
            raise misfit from error
        raise


def _check_lengths(columns: Columns, rows: Sequence[Sequence[Any]]) -> None:
    # The driver leaves out what is too much in any row but the first.
    for number, row in enumerate(rows, 1):
        if len(row) != len(columns):
            names = ", ".join(name for name, _ in columns)
            raise RowError(number, f"it has {len(row)} values for {len(columns)} columns: {names}")


def first_misfit(columns: Columns, rows: Sequence[Sequence[Any]], context: Any) -> RowError | None:
    """Return the error of the first row with a value that does not fit its column; None if all fit."""
    misfits = []
    for at, (name, column_type) in enumerate(columns):
        values = [row[at] for row in rows]
        # Anything but a row fits, so that the first that does not ends the longest beginning that fits.
        first = bisect_left(
            range(1, len(rows) + 1), True, key=lambda count: _fails(values[:count], column_type, context)
        )
        if first < len(rows):
            value = values[first]
            shown = "NULL" if value is None else f"{reprlib.repr(value)}, a Python {type(value).__name__},"
            misfits.append((first, f"{shown} is no value for column {name!r} of type {column_type}"))
    if not misfits:
        return None
    row, problem = min(misfits, key=lambda misfit: misfit[0])
    return RowError(row + 1, problem)


def _fails(values: Sequence[Any], column_type: str, context: Any) -> bool:
    buffer = BufferedSocketWriter(_Nowhere(), 1 << 16)
    try:
        write_column(context, "", column_type, values, buffer)
    except Exception:
        return True
    return False
