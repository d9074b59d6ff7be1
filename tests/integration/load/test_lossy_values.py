"""What `lossy_columns` truncates, and what not; and when an error advises it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from tests.integration.valued import AT, PREFIX, create, loaded, parquet
from tests.support.lake import Lake
from tests.support.refusal import refused

TIME = "2026-10-05 13:45:59.123987"
NAMES = ["n", "at", "ms", "day"]


def csv(*texts: str) -> bytes:
    return "\n".join(["ts,n", *(f"{AT},{text}" for text in texts)]).encode()


def timestamps(*texts: str) -> pa.Array:
    return pa.array([dt.datetime.fromisoformat(text) for text in texts], pa.timestamp("us", "UTC"))


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("key", "body"),
    [
        ("a.csv", f"ts,{','.join(NAMES)}\n{AT},999.999,{TIME},{TIME},{TIME}".encode()),
        (
            "a.parquet",
            parquet(n=pa.array([Decimal("999.999")]), at=timestamps(TIME), ms=timestamps(TIME), day=timestamps(TIME)),
        ),
    ],
)
def test_digits_of_the_scale_parts_of_a_second_and_the_time_of_day_may_be_lost(
    lake: Lake, key: str, body: bytes
) -> None:
    create(lake, "n Decimal(5, 2), at DateTime('UTC'), ms Nullable(DateTime64(3, 'UTC')), day Nullable(Date)")
    found = loaded(lake, key, body, "(toString(n), toString(at), toString(ms), toString(day))", lossy_columns=NAMES)
    assert found == [("999.99", "2026-10-05 13:45:59", "2026-10-05 13:45:59.123", "2026-10-05")]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("column_type", "key", "body"),
    [
        ("Decimal(5, 2)", "a.csv", csv("1.239", "12345.678")),
        ("Nullable(Decimal(5, 2))", "a.parquet", parquet(n=pa.array([Decimal("1.239"), Decimal("123456.789")]))),
        ("Date", "a.csv", csv("2026-10-01", "9999-12-31")),
        ("Nullable(Date)", "a.csv", csv("2026-10-01 12:00:00", "2026-02-31 12:00:00")),
        ("Nullable(DateTime('UTC'))", "a.csv", csv("2026-10-01 12:00:00.5", "2299-01-01 00:00:00")),
        ("Nullable(DateTime('UTC'))", "a.parquet", parquet(n=timestamps(TIME, "9999-12-31 00:00:00"))),
        ("DateTime64(9, 'UTC')", "a.parquet", parquet(n=timestamps(TIME, "9999-12-31 00:00:00"))),
    ],
)
def test_nothing_else_may_be_lost_and_no_further_loss_is_advised(
    lake: Lake, column_type: str, key: str, body: bytes
) -> None:
    create(lake, f"n {column_type}")
    lake.put(PREFIX + key, body)
    refused(lake, rf"Column 'n' is .*row 2 of .*{key} has .* select=\{{…\}}\.$", lossy_columns=["n"])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("column_type", "text", "advice"),
    [
        pytest.param(
            *("Decimal(5, 2)", "1.239", r"; casts={'lossy_columns': \['n'\]} truncates or rounds such values\.$"),
            marks=pytest.mark.newer("error that leads to this advice"),
        ),
        ("Decimal(5, 2)", '"4,25"', r"select=\{…\}\.$"),
        ("Int32", "NULL", r"select=\{…\}\.$"),
        ("Date", "9999-12-31", r"select=\{…\}\.$"),
    ],
)
def test_a_loss_is_advised_where_it_helps(lake: Lake, column_type: str, text: str, advice: str) -> None:
    create(lake, f"n {column_type}")
    lake.put(PREFIX + "a.csv", csv(text))
    refused(lake, rf"Column 'n' is .*{advice}")


@pytest.mark.thorough
@pytest.mark.newer("parser of parts of seconds since 1970 of 16 digits: they are refused")
def test_times_may_be_parts_of_seconds_since_1970(lake: Lake) -> None:
    create(lake, "ms DateTime64(3, 'UTC'), us DateTime64(6, 'UTC'), ns DateTime64(9, 'UTC')")
    body = f"ts,ms,us,ns\n{AT},1759276800123,1759276800123456,1759276800123456789".encode()
    assert loaded(lake, "a.csv", body, "concat(ms, ' ', us, ' ', ns)") == [
        "2025-10-01 00:00:00.123 2025-10-01 00:00:00.123456 2025-10-01 00:00:00.123456789"
    ]
