"""Values of ClickHouse's types in Python, with a taste for edges.

========================  ===========================================================
Int, UInt                 int
Float, BFloat16           float, exactly the one that the column holds
Decimal                   Decimal with the column's scale
Bool                      bool
String, FixedString       bytes
UUID, IPv4, IPv6          uuid.UUID, ipaddress.IPv4Address, IPv6Address
Date, Date32              datetime.date
DateTime                  seconds since 1970
DateTime64, Time64        ticks of its precision, since 1970 or midnight
Time                      seconds
Enum                      its name
NULL                      None
Array, Tuple              tuple
Map                       tuple of pairs, in their order
========================  ===========================================================

JSON and Dynamic are read as text; what they hold is compared as JSON.
"""

from __future__ import annotations

import ipaddress
import math
import random
import struct
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.fidelity.column_types import Type

EPOCH = date(1970, 1, 1)
_DATES = {"Date": (date(1970, 1, 1), date(2149, 6, 6)), "Date32": (date(1900, 1, 1), date(2299, 12, 31))}
_EDGE_DATES = (date(2024, 2, 29), date(2000, 2, 29), date(2100, 2, 28), date(1999, 12, 31), date(2038, 1, 19))
#: Changes of clocks in the zones of `column_types.ZONES`, and edges of counters.
_EDGE_MOMENTS = (
    datetime(2024, 3, 31, 1, tzinfo=UTC),
    datetime(2024, 3, 31, 0, 59, 59, tzinfo=UTC),
    datetime(2024, 10, 27, 0, 30, tzinfo=UTC),
    datetime(2024, 10, 27, 1, 30, tzinfo=UTC),
    datetime(2024, 11, 3, 5, 30, tzinfo=UTC),
    datetime(2024, 11, 3, 6, 30, tzinfo=UTC),
    datetime(2024, 4, 6, 14, 45, tzinfo=UTC),
    datetime(2024, 4, 6, 15, 15, tzinfo=UTC),
    datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC),
    datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
)
_STRINGS = (
    "",
    "a",
    "plain text",
    "it's",
    'say "hi"',
    "a,b;c",
    "tab\there",
    "line\nbreak",
    "cr\r\nlf",
    "back\\slash",
    "\\N",
    "NULL",
    "null",
    " space ",
    "ünïcödé €",
    "\U0001f600",
    "nul\x00inside",
    "0",
    "007",
    "1e5",
    "nan",
    "true",
    "[1,2]",
    '{"a":1}',
    "'quoted'",
    "\ufeffbom",
    "\u2028",
    "%20",
    "2024-05-01",
)
_FLOATS = (0.0, 1.0, -1.0, 0.29, 0.1, -0.0, 1e15 + 0.3, 1 / 3, 123456789.125, math.inf, -math.inf, math.nan, 2.0**53)


def days_of(day: date) -> int:
    return (day - EPOCH).days


def round32(number: float) -> float:
    """The nearest float32, as a float; infinite where there is none."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def moments(bounds: Type) -> tuple[int, int]:
    """First and last second that a DateTime or DateTime64 holds."""
    if bounds.kind == "DateTime":
        return 0, 2**32 - 1
    first, last = -2208988800, 10413791999
    # Nine digits leave 64 bits less than the calendar of DateTime64.
    return first, min(last, (2**63 - 1) // 10**bounds.precision - 1)


def sample(choose: random.Random, of: Type) -> Any:
    """A value of a type."""
    if of.kind == "Nullable":
        return None if choose.random() < 0.25 else sample(choose, of.inner[0])
    if of.kind == "LowCardinality":
        return sample(choose, of.inner[0])
    if of.kind == "Array":
        return tuple(sample(choose, of.inner[0]) for _ in range(choose.choice((0, 1, 2, 3))))
    if of.kind == "Map":
        pairs = [(sample(choose, of.inner[0]), sample(choose, of.inner[1])) for _ in range(choose.choice((0, 1, 2)))]
        return tuple(dict(pairs).items())
    if of.kind == "Tuple":
        return tuple(sample(choose, each) for each in of.inner)
    return _SCALARS[of.kind](choose, of)


def _integer(choose: random.Random, of: Type) -> int:
    low, high = of.limits
    if choose.random() < 0.5:
        return max(low, min(high, choose.randint(-100, 100)))
    edge = 2 ** choose.choice((7, 8, 15, 16, 31, 32, 53, 63, 64, 127, 128, 255))
    return choose.choice((low, high, *(n for n in (edge - 1, edge, edge + 1, -edge, -edge - 1) if low <= n <= high)))


def _float(choose: random.Random, of: Type) -> float:
    number = choose.choice((*_FLOATS, choose.randint(-(10**6), 10**6) / 100, choose.randint(-9, 9) * 10.0**20))
    extremes = {64: (5e-324, 1.7976931348623157e308, 2.2250738585072014e-308), 32: (1e-45, 3.4028234663852886e38)}
    if choose.random() < 0.2:
        number = choose.choice(extremes.get(of.bits, (1.0, 256.0)))
    if of.kind == "BFloat16":
        return choose.choice((0.0, 1.0, -1.5, 0.5, 256.0, math.inf, math.nan, -0.0, 3.0))
    return round32(number) if of.bits == 32 else number


def _decimal(choose: random.Random, of: Type) -> Decimal:
    largest = 10**of.precision - 1
    unscaled = choose.choice(
        (0, 1, 29, -29, 57, largest, -largest, choose.randint(-largest, largest), choose.randint(-9999, 9999))
    )
    return as_decimal(max(-largest, min(largest, unscaled)), of.scale)


def as_decimal(unscaled: int, scale: int) -> Decimal:
    """An exact decimal, whatever the context's precision."""
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def _string(choose: random.Random, of: Type) -> bytes:
    return choose.choice(_STRINGS).encode()


def _fixed_string(choose: random.Random, of: Type) -> bytes:
    short = choose.choice((_string(choose, of), bytes(choose.choices(range(256), k=of.length)), b"x" * of.length))
    return short[: of.length].ljust(of.length, b"\0")


def _date(choose: random.Random, of: Type) -> date:
    low, high = _DATES[of.kind]
    days = choose.randint(0, (high - low).days)
    return choose.choice((*_EDGE_DATES, low, high, low + timedelta(days=days)))


def _date_time(choose: random.Random, of: Type) -> int:
    low, high = moments(of)
    seconds = choose.choice(
        (int(choose.choice(_EDGE_MOMENTS).timestamp()), choose.randint(1_500_000_000, 1_800_000_000), low, high)
    )
    ticks = 10**of.precision
    return max(low, min(high, seconds)) * ticks + (choose.choice((0, 1, ticks - 1, ticks // 2)) % ticks)


def _time(choose: random.Random, of: Type) -> int:
    # Time holds up to 999 hours, and negative ones.
    seconds = choose.choice((0, 1, 86399, 3600 * choose.randint(0, 23), choose.randint(0, 86399)))
    return seconds * 10**of.precision + choose.choice((0, 10**of.precision - 1))


def _ip(choose: random.Random, of: Type) -> Any:
    bits = 32 if of.kind == "IPv4" else 128
    number = choose.choice((0, 1, 2**bits - 1, choose.randrange(2**bits), 0x3035 if bits == 32 else 0xFFFF << 32))
    return ipaddress.IPv4Address(number) if bits == 32 else ipaddress.IPv6Address(number)


def _json_value(choose: random.Random, of: Type, depth: int = 0) -> Any:
    scalars = (1, -5, 2**62, 0.5, True, False, "text", "", "ü\n\"'", "123", 1e300, "2024-02-31", "2024-1-1")
    if depth < 2 and choose.random() < 0.3:
        names = choose.sample(("a", "b", "c d", "ü"), choose.randint(1, 3))
        return {name: _json_value(choose, of, depth + 1) for name in names}
    if depth < 2 and choose.random() < 0.2:
        return [choose.choice((1, 2, 3)) for _ in range(choose.randint(1, 3))]
    return choose.choice(scalars)


def _json(choose: random.Random, of: Type) -> dict[str, Any]:
    return {name: _json_value(choose, of) for name in choose.sample(("k", "l", "m"), choose.randint(0, 3))}


_SCALARS = {
    "Int": _integer,
    "UInt": _integer,
    "Float": _float,
    "BFloat16": _float,
    "Decimal": _decimal,
    "Bool": lambda choose, of: choose.random() < 0.5,
    "String": _string,
    "FixedString": _fixed_string,
    "UUID": lambda choose, of: uuid.UUID(int=choose.choice((0, 1, 2**128 - 1, choose.getrandbits(128)))),
    "IPv4": _ip,
    "IPv6": _ip,
    "Date": _date,
    "Date32": _date,
    "DateTime": _date_time,
    "DateTime64": _date_time,
    "Time": _time,
    "Time64": _time,
    "Enum": lambda choose, of: choose.choice(of.values)[0],
    "JSON": _json,
    "Variant": lambda choose, of: choose.choice((1, -(2**63), 2**63 - 1, b"text", b"", b"12")),
    "Dynamic": lambda choose, of: choose.choice(
        (1, -5, b"text", b"", b"12", True, b"2024-02-31", b"2024-05-01T25:00:00Z")
    ),
}


class Alike:
    """Stands for all values that are equal to it."""


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal to the last bit; NaN equals NaN."""
    if isinstance(other, Alike):
        return bool(other == one)
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return (math.isnan(one) and math.isnan(other)) or struct.pack("<d", one) == struct.pack("<d", other)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)
