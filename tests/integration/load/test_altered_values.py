"""Values that readers of older servers alter: loaded as files have them, or refused with what is known of them."""

from __future__ import annotations

import datetime as dt
import uuid

import numpy as np
import pyarrow as pa
import pytest

from tests.integration.valued import PREFIX, arrow, create, int96, loaded, no_orc, orc, parquet
from tests.support.lake import IS_OLDEST, Lake
from tests.support.refusal import refused

#: The largest of 16 bits below 2⁻¹⁴, one that older readers do not alter, and one above.
HALVES = [float(each) for each in np.array([0x03FF, 0x0001, 0x0400], np.uint16).view(np.float16)]
ONE = uuid.UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")
FAR = [dt.datetime(1601, 1, 1), dt.datetime(2500, 1, 1), dt.datetime(9999, 12, 31)]
NEAR = dt.datetime(2026, 10, 5, 1, 2, 3, 456789)
SELECT = {"ts": "ts", "n": "n"}


def halves(values: list[float]) -> dict[str, pa.Array]:
    scalars = pa.array(np.array(values, np.float16))
    return {"n": scalars, "l": pa.array([[scalar] for scalar in scalars], pa.list_(pa.float16()))}


@pytest.mark.thorough
@pytest.mark.parametrize("write", [parquet, arrow])
@pytest.mark.parametrize("select", [None, {"ts": "ts", "n": "n", "l": "l"}])
def test_small_floats_of_16_bits(lake: Lake, write: object, select: dict[str, str] | None) -> None:
    create(lake, "n Float32, l Array(Float64)")
    key = f"a.{write.__name__}"
    if IS_OLDEST:
        lake.put(PREFIX + key, write(**halves(HALVES)))
        for columns in (["ts", "n"], ["ts", "l"]):
            chosen = {"select": {name: name for name in columns}} if select else {"columns": columns}
            told = rf"row 1 of \S*{key} has a float below 0\.000061, of which.*\. Widen [^;]*$"
            refused(lake, told, **chosen)
    fit = HALVES[1:] if IS_OLDEST else HALVES
    found = loaded(lake, key, write(**halves(fit)), "(n, l)", select=select)
    assert sorted(found) == sorted((each, [each]) for each in fit)


@pytest.mark.thorough
@pytest.mark.parametrize("write", [parquet, arrow])
def test_small_floats_of_32_bits_are_none_of_16(lake: Lake, write: object) -> None:
    create(lake, "n Float32")
    values = [1.1e-5, 3.3e-30, 2.0**-20, -1e-9, 0.0, float("nan")]
    found = loaded(lake, f"a.{write.__name__}", write(n=pa.array(values, pa.float32())), "toString(n)")
    assert sorted(found) == sorted(str(np.float32(value)) for value in values) or len(found) == len(values)


@pytest.mark.thorough
@pytest.mark.parametrize("select", [None, {"ts": "ts", "n": "n", "s": "s", "l": "l", "t": "t"}])
def test_declared_uuids_of_parquet(lake: Lake, select: dict[str, str] | None) -> None:
    create(lake, "n Nullable(UUID), s String, l Array(UUID), t Tuple(u String, b String)")
    uuids = pa.array([ONE.bytes, None], pa.binary(16)).cast(pa.uuid())
    texts = pa.array([ONE.bytes, ONE.bytes], pa.binary(16)).cast(pa.uuid())
    lists = pa.array([[ONE.bytes], []], pa.list_(pa.binary(16))).cast(pa.list_(pa.uuid()))
    fields = pa.StructArray.from_arrays([texts, pa.array([b"0123456789abcdef"] * 2, pa.binary(16))], names=["u", "b"])
    found = loaded(
        lake, "a.parquet", parquet(n=uuids, s=texts, l=lists, t=fields), "(toString(n), s, l, t)", select=select
    )
    text, pair = str(ONE), (str(ONE), "0123456789abcdef")
    assert sorted(found, key=str) == sorted([(text, text, [ONE], pair), (None, text, [], pair)], key=str)


@pytest.mark.thorough
def test_bytes_that_are_not_declared_become_uuids_as_the_message_says(lake: Lake) -> None:
    create(lake, "n UUID")
    body = parquet(n=pa.array([ONE.bytes], pa.binary(16)))
    lake.put(PREFIX + "a.parquet", body)
    advice = "toUUID(UUIDNumToString(`n`))"
    refused(lake, rf"not declared as UUIDs.*'n': '{advice}'".replace("(", r"\(").replace(")", r"\)"))
    assert loaded(lake, "a.parquet", body, "n", select={"ts": "ts", "n": advice}) == [ONE]


@pytest.mark.thorough
def test_uuids_of_arrow_become_text(lake: Lake) -> None:
    create(lake, "n String")
    body = arrow(n=pa.array([ONE.bytes], pa.binary(16)).cast(pa.uuid()))
    advice = None
    if IS_OLDEST:
        lake.put(PREFIX + "a.arrow", body)
        refused(lake, "'n' in .*a.arrow has 16 bytes, and servers before 26.9 do not tell")
        advice = {"ts": "ts", "n": "toUUID(UUIDNumToString(`n`))"}
    assert loaded(lake, "a.arrow", body, "n", select=advice) == [str(ONE)]


@pytest.mark.parametrize("column", ["DateTime64(9, 'UTC')", "DateTime('UTC')", "String", "Array(DateTime64(6, 'UTC'))"])
@pytest.mark.thorough(but=1)
def test_times_as_int96_beyond_nanoseconds_are_refused(lake: Lake, column: str) -> None:
    create(lake, f"n {column}")
    for far, select in zip(FAR, (None, SELECT, None), strict=True):
        values = pa.array([NEAR, far], pa.timestamp("us"))
        lists = pa.array([[NEAR], [far]], pa.list_(pa.timestamp("us")))
        lake.put(PREFIX + "a.parquet", int96(n=lists if column.startswith("Array") else values))
        told = "a.parquet cannot be read as Parquet: INT96 timestamp out of range.*as microseconds"
        refused(lake, told, select=select)


@pytest.mark.thorough
def test_times_as_int96_are_loaded(lake: Lake) -> None:
    create(lake, "n DateTime64(9, 'UTC')")
    fine = pa.array([1_790_820_184_123_456_789], pa.timestamp("ns"))
    assert loaded(lake, "a.parquet", int96(n=fine), "toString(n)") == ["2026-10-01 02:03:04.123456789"]


@pytest.mark.thorough
@no_orc
def test_times_of_orc_have_any_year_in_columns_of_microseconds(lake: Lake) -> None:
    create(lake, "n DateTime64(6, 'UTC'), l Array(DateTime64(3, 'UTC')), s DateTime64(0, 'UTC'), d Nullable(Date32)")
    far = dt.datetime(9999, 12, 31)
    day = [dt.datetime(2026, 10, 5), None]
    body = orc(
        n=pa.array([NEAR, far], pa.timestamp("us", "UTC")),
        l=pa.array([[far], []], pa.list_(pa.timestamp("us", "UTC"))),
        s=pa.array([far, day[0]], pa.timestamp("us", "UTC")),
        d=pa.array(day, pa.timestamp("us", "UTC")),
    )
    found = loaded(lake, "a.orc", body, "(toString(n), toString(l), toString(s), toString(d))")
    assert sorted(found, key=str) == [
        ("2026-10-05 01:02:03.456789", "['9999-12-31 00:00:00.000']", "9999-12-31 00:00:00", "2026-10-05"),
        ("9999-12-31 00:00:00.000000", "[]", "2026-10-05 00:00:00", None),
    ]


@pytest.mark.thorough
@no_orc
@pytest.mark.parametrize("column", ["DateTime64(9, 'UTC')", "String", "DateTime('UTC')"])
def test_times_of_orc_that_the_column_cannot_hold_are_not_shown_as_others(lake: Lake, column: str) -> None:
    create(lake, f"n {column}")
    lake.put(PREFIX + "a.orc", orc(n=pa.array([dt.datetime(2500, 1, 1)], pa.timestamp("us", "UTC"))))
    told = r"2500-01-01 00:00:00\.0+'" if column == "DateTime('UTC')" else "a time beyond the years 1678 to 2261"
    refused(lake, rf"row 1 of \S*a.orc has '?{told}[^;]*$")
    refused(lake, r"row 1 of \S*a.orc has a time beyond the years 1678 to 2261[^;]*$", select=SELECT)


@pytest.mark.thorough
@no_orc
def test_times_of_orc_with_nanoseconds_stay_as_they_are(lake: Lake) -> None:
    create(lake, "n DateTime64(6, 'UTC')")
    values = pa.array([1_790_820_184_123_456_089], pa.timestamp("ns", "UTC"))
    lake.put(PREFIX + "a.orc", orc(n=values))
    refused(lake, r"row 1 of \S*a.orc has '2026-10-01 02:03:04.123456089'.*'lossy_columns': \['n'\]")
    found = loaded(lake, "a.orc", orc(n=values), "toString(n)", lossy_columns=["n"])
    assert found == ["2026-10-01 02:03:04.123456"]
