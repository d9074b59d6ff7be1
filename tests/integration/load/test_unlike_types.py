"""Values of files whose types are of another kind than the column's: as they are written, or refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.integration.valued import PREFIX, arrow, create_each, values
from tests.support.lake import Lake
from tests.support.refusal import loaded_or_wrongly_refused

HALF_PAST = 3_600_500


def put_each(lake: Lake, types: list[str], arrays: list[pa.Array]) -> list[str]:
    """Create a table with a column of each type, put a file of these values, and give the columns' names."""
    columns = create_each(lake, types)
    lake.put(f"{PREFIX}a.arrow", arrow(**dict(zip(columns, arrays, strict=True))))
    return columns


def decimals(*values: str) -> pa.Array:
    return pa.array(values).cast(pa.decimal128(18, 4))


UNFIT = [
    ("Int64", pa.array([HALF_PAST], pa.time32("ms"))),
    ("Decimal(9, 0)", pa.array([HALF_PAST], pa.time32("ms"))),
    ("Date", pa.array([HALF_PAST], pa.time32("ms"))),
    ("DateTime('Australia/Lord_Howe')", pa.array([0], pa.date32())),
    ("Bool", pa.array([5], pa.timestamp("s", "UTC"))),
    ("Nullable(Time)", pa.array([True])),
    ("Float32", pa.array([1_717_171_717], pa.timestamp("s", "UTC"))),
    ("Array(DateTime64(0, 'UTC'))", pa.array([[-86_400_000]], pa.list_(pa.date64()))),
    ("Decimal(38, 38)", pa.array([4])),
    ("Bool", decimals("0.5")),
    ("Enum8('one' = 1)", pa.array([1.5])),
    ("Enum8('one' = 1)", decimals("1.5")),
    ("Enum8('one' = 1)", pa.array([257], pa.int64())),
    ("Nullable(Enum16('one' = 1, 'minus' = -1))", pa.array([2.0])),
    ("Enum8('one' = 1)", pa.array(["2"])),
    ("Date", pa.array([True])),
    ("Float64", pa.array([1_717_171_717_123_000_001], pa.timestamp("ns", "UTC"))),
    ("FixedString(3)", pa.array([1234])),
    ("Decimal(38, 38)", decimals("3600.5")),
    ("DateTime64(3)", pa.array([1.00005])),
    ("DateTime64(3)", decimals("1.0005")),
    ("Nullable(Time)", decimals("3600.5")),
]
#: Further ones, whose guards are those of the others.
ALIKE = [
    ("Decimal(9, 2)", pa.array([1], pa.timestamp("ms"))),
    ("Bool", pa.array([1], pa.date32())),
    ("Tuple(a DateTime)", pa.array([{"a": -86_400_000}], pa.struct([("a", pa.date64())]))),
    ("Enum8('one' = 1)", pa.array([257.0])),
    ("Enum8('one' = 1)", pa.array([2], pa.int8())),
    ("Array(Enum8('one' = 1))", pa.array([[1, 2]], pa.list_(pa.int8()))),
]
FIT = [
    ("Int64", pa.array([3_600_000], pa.time32("ms")), "3600"),
    ("Decimal(18, 3)", pa.array([1_700_000_000_123], pa.timestamp("ms")), "1700000000.123"),
    ("Nullable(Decimal(9, 1))", pa.array([HALF_PAST], pa.time32("ms")), "3600.5"),
    ("DateTime64(3, 'UTC')", pa.array([1_700_000_000.123]), "2023-11-14 22:13:20.123"),
    ("DateTime64(3, 'UTC')", pa.array([1.001]), "1970-01-01 00:00:01.001"),
    ("Nullable(DateTime64(3, 'UTC'))", decimals("1.5"), "1970-01-01 00:00:01.500"),
    ("Bool", decimals("1"), "true"),
    ("Enum8('one' = 1)", pa.array([1.0]), "one"),
    ("Nullable(Enum16('one' = 1))", pa.array([1], pa.uint8()), "one"),
    ("Nullable(Enum16('one' = 1))", pa.array([None], pa.date32()), None),
    ("Array(Nullable(Enum8('one' = 1)))", pa.array([[None, 1]], pa.list_(pa.int8())), "[NULL,'one']"),
    ("Nullable(DateTime)", pa.array([None], pa.time64("us")), None),
    ("DateTime('Australia/Lord_Howe')", pa.array([1], pa.date32()), "1970-01-02 00:00:00"),
    ("Float64", pa.array([1_717_171_717], pa.timestamp("s", "UTC")), "1717171717"),
    ("Nullable(Decimal(13, 2))", pa.array([19_782], pa.date32()), "19782"),
    ("FixedString(4)", pa.array([1234]), "1234"),
    ("Nullable(Time)", decimals("3600"), "01:00:00"),
    ("Enum8('one' = 1)", decimals("1"), "one"),
    ("Nullable(BFloat16)", pa.array([0.5]), "0.5"),
    ("Enum16('two' = 2, 'minus' = -300)", pa.array([-300], pa.int64()), "minus"),
    ("Nullable(UInt256)", pa.array([7], pa.timestamp("s")), "7"),
    ("Int128", pa.array([HALF_PAST - 500], pa.time32("ms")), "3600"),
    ("UInt256", pa.array([1], pa.date32()), "1"),
    ("Nullable(Int128)", pa.array([None], pa.timestamp("s")), None),
    ("DateTime64(0, 'UTC')", pa.array([1_529_326_336.0], pa.float32()), "2018-06-18 12:52:16"),
    ("Decimal(18, 18)", pa.array([0.06133938365246275]), "0.06133938365246275"),
]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("unfit", [UNFIT[::3], UNFIT, ALIKE], ids=["some", "each", "alike"])
def test_what_a_column_cannot_hold_is_refused(lake: Lake, unfit: list[tuple[str, pa.Array]]) -> None:
    columns = put_each(lake, [column for column, _ in unfit], [array for _, array in unfit])
    matches = {name: rf"(?s)Column '{name}' is .*a\.arrow" for name in columns}
    assert loaded_or_wrongly_refused(lake, matches, naive_timestamps="utc") == {}


@pytest.mark.thorough
def test_what_it_holds_is_as_written(lake: Lake) -> None:
    columns = put_each(lake, [column for column, _, _ in FIT], [array for _, array, _ in FIT])
    lake.load(naive_timestamps="utc")
    assert [values(lake, f"toString({name})")[0] for name in columns] == [text for _, _, text in FIT]
