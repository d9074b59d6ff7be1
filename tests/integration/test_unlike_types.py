"""Values of files whose types are of another kind than the column's: as they are written, or refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from tests.integration.lake import Lake
from tests.integration.one_column import create, put, values

HALF_PAST = 3_600_500


def load(lake: Lake, column: str, array: pa.Array) -> list[str]:
    create(lake, column)
    put(lake, 0, array, ending="arrow")
    lake.load(key="unlike/{YYYY-MM}/", file_format="Arrow", naive_timestamps="utc")
    return values(lake)


def decimals(*values: str) -> pa.Array:
    return pa.array(values).cast(pa.decimal128(18, 4))


@pytest.mark.thorough(but=4)
@pytest.mark.parametrize(
    ("column", "array"),
    [
        ("Int64", pa.array([HALF_PAST], pa.time32("ms"))),
        ("Decimal(9, 2)", pa.array([1], pa.timestamp("ms"))),
        ("Decimal(9, 0)", pa.array([HALF_PAST], pa.time32("ms"))),
        ("Date", pa.array([HALF_PAST], pa.time32("ms"))),
        ("Date", pa.array([True])),
        ("DateTime64(3)", pa.array([1.00005])),
        ("DateTime64(3)", decimals("1.0005")),
        ("Bool", decimals("0.5")),
        ("Enum8('one' = 1)", pa.array([1.5])),
        ("Enum8('one' = 1)", pa.array([257.0])),
        ("Enum8('one' = 1)", pa.array([257], pa.int64())),
    ],
)
def test_what_the_column_cannot_hold_is_refused(lake: Lake, column: str, array: pa.Array) -> None:
    with pytest.raises(AirflowFailException, match=r"(?s)Column 'v' (is|cannot be made of).*0\.arrow"):
        load(lake, column, array)
    assert lake.rows_per_node() == [0]


@pytest.mark.thorough(but=4)
@pytest.mark.parametrize(
    ("column", "array", "found"),
    [
        ("Int64", pa.array([3_600_000], pa.time32("ms")), "3600"),
        ("Decimal(18, 3)", pa.array([1_700_000_000_123], pa.timestamp("ms")), "1700000000.123"),
        ("Nullable(Decimal(9, 1))", pa.array([HALF_PAST], pa.time32("ms")), "3600.5"),
        ("DateTime64(3, 'UTC')", pa.array([1_700_000_000.123]), "2023-11-14 22:13:20.123"),
        ("DateTime64(3, 'UTC')", pa.array([1.001]), "1970-01-01 00:00:01.001"),
        ("Nullable(DateTime64(3, 'UTC'))", decimals("1.5"), "1970-01-01 00:00:01.500"),
        ("Bool", decimals("1"), "true"),
        ("Enum8('one' = 1)", pa.array([1.0]), "one"),
        ("Nullable(Enum16('one' = 1))", pa.array([1], pa.uint8()), "one"),
    ],
)
def test_what_it_holds_is_as_written(lake: Lake, column: str, array: pa.Array, found: str) -> None:
    assert load(lake, column, array) == [found]
