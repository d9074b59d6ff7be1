"""Times as text, as programs write them: each way is read as what it says, or refused."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from tests.integration.valued import AT, PREFIX, create, create_each, loaded, parquet
from tests.support.lake import IS_OLDEST, Lake
from tests.support.refusal import loaded_or_wrongly_refused, refused

WHOLE = dt.datetime(2024, 5, 3, 22, 4, 9, tzinfo=dt.UTC)
FINE = WHOLE + dt.timedelta(milliseconds=120)
MIDNIGHT = dt.datetime(2024, 5, 3, tzinfo=dt.UTC)
TO_SECONDS = {
    "2024-05-03 22:04:09": WHOLE,
    "2024-05-03T22:04:09": WHOLE,
    "2024-05-03T22:04:09Z": WHOLE,
    "2024-05-03 22:04:09 Z": WHOLE,
    "2024-05-03T22:04:09.000Z": WHOLE,
    "2024-05-03 22:04:09.000000": WHOLE,
    "2024-05-03T22:04:09+00:00": WHOLE,
    "2024-05-03 22:04:09+00": WHOLE,
    "2024-05-03T22:04:09.000+00:00": WHOLE,
    "2024-05-04 00:04:09+0200": WHOLE,
    "2024-05-04 00:04:09+02": WHOLE,
    "2024-05-04T00:04:09.000+02:00": WHOLE,
    "2024-05-03T18:34:09-0330": WHOLE,
    "2024-05-03 18:34:09 -03:30": WHOLE,
    "1714773849": WHOLE,
    "2024-05-03": MIDNIGHT,
    "2024-05-03 00:00": MIDNIGHT,
    "2024-5-3 22:4:9": WHOLE,
}
TO_MILLISECONDS = {
    **TO_SECONDS,
    "2024-05-03 22:04:09.12": FINE,
    "2024-05-03T22:04:09.120Z": FINE,
    "2024-05-03T22:04:09.120000000Z": FINE,
    "2024-05-03 22:04:09.120+00": FINE,
    "2024-05-04T00:04:09.12+02:00": FINE,
    "1714773849120": FINE,
}


def test_each_way_to_write_a_time_is_read_as_what_it_says(lake: Lake) -> None:
    create(lake, "v0 DateTime('UTC'), v1 Nullable(DateTime('UTC')), v2 DateTime64(3, 'UTC'), k Int32")
    lines = [f"{AT},{text},{text},{text},{number}" for number, text in enumerate(TO_SECONDS)]
    found = loaded(lake, "a.csv", "\n".join(["ts,v0,v1,v2,k", *lines]).encode(), "(k, v0, v1, v2)")
    told = {text: {each.replace(tzinfo=dt.UTC) for each in found[number][1:]} for number, text in enumerate(TO_SECONDS)}
    assert told == {text: {time} for text, time in TO_SECONDS.items()}


@pytest.mark.thorough
def test_each_way_to_write_a_time_with_a_fraction_is_read_as_what_it_says(lake: Lake) -> None:
    create(lake, "v0 DateTime64(3, 'UTC'), v1 Array(DateTime64(3, 'UTC')), k Int32")
    lines = [f'{AT},{text},"{[text]}",{number}' for number, text in enumerate(TO_MILLISECONDS)]
    found = loaded(lake, "a.csv", "\n".join(["ts,v0,v1,k", *lines]).encode(), "(k, v0, v1[1])")
    told = {
        text: {each.replace(tzinfo=dt.UTC) for each in found[number][1:]} for number, text in enumerate(TO_MILLISECONDS)
    }
    assert told == {text: {time} for text, time in TO_MILLISECONDS.items()}


def test_texts_with_a_zone_are_instants_and_texts_without_are_of_the_columns_zone(lake: Lake) -> None:
    zone = ZoneInfo("America/New_York")
    local = dt.datetime(2024, 11, 3, 0, 30, tzinfo=zone)
    first, second = (dt.datetime(2024, 11, 3, hour, 30, tzinfo=dt.UTC) for hour in (5, 6))
    texts = {
        "2024-11-03 00:30:00": local,
        # Clocks repeat this hour: the first of its two moments.
        "2024-11-03 01:30:00": first,
        "2024-11-03T01:30": first,
        "2024-11-03T05:30:00Z": first,
        "2024-11-03T05:30Z": first,
        "2024-11-03 05:30:00+00": first,
        "2024-11-03T06:30:00.000+00:00": second,
        "2024-11-03 01:30-05": second,
        "2024-11-03T06:30:00.000Z": second,
        "2024-11-03 01:30:00-04": first,
        "2024-11-03T01:30:00-05:00": second,
    }
    create(lake, "n DateTime('America/New_York'), k Int32")
    lines = [f"{AT},{text},{number}" for number, text in enumerate(texts)]
    found = dict(loaded(lake, "a.csv", "\n".join(["ts,n,k", *lines]).encode(), "(k, toUnixTimestamp(n))"))
    assert [found[number] for number in range(len(texts))] == [int(each.timestamp()) for each in texts.values()]


MIDNIGHTS = [
    "2024-05-03",
    "2024-05-03T00:00:00Z",
    "2024-05-03T00:00Z",
    "2024-05-03 00:00:00.000Z",
    "2024-05-03T00:00:00+00:00",
]


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_midnight_in_utc_is_a_date(lake: Lake, ending: str) -> None:
    """As cost reports of AWS have it."""
    create(lake, "v0 Date, v1 Nullable(Date32), v2 Array(Date), k Int32")
    texts, count = pa.array(MIDNIGHTS), len(MIDNIGHTS)
    lines = [f"{AT},{text},{text},\"['{text}']\",{number}" for number, text in enumerate(MIDNIGHTS)]
    body = "\n".join(["ts,v0,v1,v2,k", *lines]).encode()
    if ending == "parquet":
        body = parquet(v0=texts, v1=texts, v2=pa.array([[text] for text in MIDNIGHTS]), k=pa.array(range(count)))
    day = MIDNIGHT.date()
    assert loaded(lake, f"a.{ending}", body, "(k, v0, v1, v2)") == [(k, day, day, [day]) for k in range(count)]


@pytest.mark.thorough
def test_seconds_since_1970_may_have_a_point(lake: Lake) -> None:
    create(lake, "v0 DateTime64(6, 'UTC'), v1 Nullable(DateTime64(3, 'UTC')), v2 DateTime64(9, 'UTC')")
    body = f"ts,v0,v1,v2\n{AT},1790820184.123456,1790820184.120000,1790820184.12\n".encode()
    found = loaded(lake, "a.csv", body, "(toString(v0), toString(v1), toString(v2))")
    ends = (".123456", ".120", ".120000000")
    assert found == [tuple(f"2026-10-01 02:03:04{end}" for end in ends)]


UNFIT = [
    ("DateTime('UTC')", "2024-02-31T10:00:00Z"),
    ("DateTime('UTC')", "2024-05-03T22:04:09.5Z"),
    ("DateTime('UTC')", "2024-05-03T25:00:00Z"),
    ("DateTime('America/New_York')", "2024-03-10 02:30:00"),
    ("Nullable(DateTime('UTC'))", "2120-01-01 00:00:00"),
    ("Nullable(DateTime('UTC'))", "soon"),
    ("DateTime('UTC')", "2024-05-03T10:00:00+25:00"),
    ("DateTime64(3, 'UTC')", "2024-05-03T22:04:09.1230001Z"),
    ("DateTime64(3, 'UTC')", "1714773849120000"),
    ("DateTime64(3, 'UTC')", "1790820184.123456"),
    ("Nullable(UUID)", "00000000-0000-0000-0000-00000000000G"),
    ("Date", "2024-05-03T00:00:01Z"),
    ("Date32", "2024-05-03T00:00:00+02:00"),
    ("Decimal(9, 2)", "."),
    ("Decimal(9, 2)", "1..2"),
    ("Decimal(9, 2)", "12.345"),
    ("DateTime64(3, 'UTC')", "179082018.5"),
    ("UUID", "00000000-0000-0000-0000-00000000000G"),
]
#: Further ones, which read as those do.
ALIKE = [
    ("DateTime('UTC')", "2024-02-31 10:00:00+02"),
    ("DateTime('UTC')", "2024-05-03T25:00:00+00:00"),
    ("DateTime('UTC')", "2024-02-31 10:00:00.000+00"),
    ("DateTime('UTC')", "2024-05-03 10:00:00.001Z"),
    ("DateTime('UTC')", "2024-05-03T10:75:00+02:00"),
    ("Nullable(DateTime('UTC'))", "2024-02-31T10:00:00Z"),
    ("DateTime('UTC')", "2024-05-03T10:00:00+14:60"),
    ("DateTime64(3, 'UTC')", "2024-05-03T22:04:09.1234Z"),
    ("Array(UUID)", "['00000000-0000-0000-0000-00000000000G']"),
    ("Nullable(Date)", "2024-02-31T00:00:00Z"),
    ("Nullable(Date)", "2024-05-03T00:00:00.5Z"),
    ("Decimal(9, 2)", "+"),
    ("Decimal(9, 2)", "1.2."),
    ("Decimal(9, 0)", "1.5"),
]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("unfit", [UNFIT[::3], UNFIT, ALIKE], ids=["some", "each", "alike"])
def test_what_is_no_such_time_or_number_is_refused(lake: Lake, unfit: list[tuple[str, str]]) -> None:
    columns = create_each(lake, [column_type for column_type, _ in unfit])
    lake.put(PREFIX + "a.csv", f"ts,{','.join(columns)}\n{AT},{','.join(text for _, text in unfit)}\n".encode())
    matches = dict.fromkeys(columns, r"row 1 of .*a.csv has ")
    assert loaded_or_wrongly_refused(lake, matches) == {}


#: Column type → a number that fits, in a form that servers do not read as this type.
OTHER_FORMS = {"Int64": "1e3", "Int128": "7.00", "UInt64": "-0", "Decimal(38, 10)": "0e99"}


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_numbers_of_other_forms_are_refused_until_select_converts_them(lake: Lake, ending: str) -> None:
    columns = create_each(lake, OTHER_FORMS)
    fields = dict(zip(columns, OTHER_FORMS.values(), strict=True))
    pairs = ", ".join(f'"{name}": {text}' for name, text in fields.items())
    bodies = {
        "csv": f"ts,{','.join(fields)}\n{AT},{','.join(fields.values())}\n",
        "jsonl": f'{{"ts": "{AT}", {pairs}}}\n',
    }
    body = bodies[ending].encode()
    lake.put(f"{PREFIX}a.{ending}", body)
    matches = dict.fromkeys(columns, rf"row 1 of .*a.{ending} has ")
    assert loaded_or_wrongly_refused(lake, matches) == {}
    select = {"ts": "toDateTime(ts, 'UTC')", **{name: f"toFloat64({name})" for name in columns}}
    assert loaded(lake, f"a.{ending}", body, f"({', '.join(columns)})", select=select) == [(1000, 7, 0, 0)]


@pytest.mark.thorough
def test_parts_of_the_first_second_of_1900_are_no_time_before_it(lake: Lake) -> None:
    """25.8, whose calendar begins there, shows such a time as the text."""
    create(lake, "n DateTime64(3, 'UTC')")
    body = f"ts,n\n{AT},1900-01-01 00:00:00.5\n".encode()
    if IS_OLDEST:
        lake.put(PREFIX + "a.csv", body)
        refused(lake, "row 1 of .*a.csv has '1900-01-01 00:00:00.5'")
    else:
        assert loaded(lake, "a.csv", body, "toString(n)") == ["1900-01-01 00:00:00.500"]


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_uuids_may_have_capitals_and_no_dashes(lake: Lake, ending: str) -> None:
    create(lake, "n UUID, m Nullable(UUID), l Array(UUID)")
    one, text = "00010203-0405-0607-0809-0a0b0c0d0e0f", "000102030405060708090A0B0C0D0E0F"
    bodies = {
        "csv": f"ts,n,m,l\n{AT},{text},{one},\"['{one}','{text}']\"\n",
        "jsonl": f'{{"ts": "{AT}", "n": "{text}", "m": "{one}", "l": ["{one}", "{text}"]}}\n',
    }
    found = loaded(lake, f"a.{ending}", bodies[ending].encode(), "(toString(n), toString(m), toString(l))")
    assert found == [(one, one, f"['{one}','{one}']")]
