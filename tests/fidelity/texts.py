"""Values as text: the usual notation of each type, others that mean the same, and text that means nothing."""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from tests.fidelity import notation
from tests.fidelity.column_types import Type

#: Text that some column cannot hold, by the kind of column.
_HOSTILE = {
    "Int": ("70000", "5.0", "5.7", "1e3", "NA", "", " 5", "+5", "0x1F", "1,000", "NULL", "999999999999999999999", "-"),
    "UInt": ("-1", "70000", "5.0", "NA", "", "-0", "18446744073709551616", "true", "1_000", "5 "),
    "Float": ("1e400", "NA", "", "1,5", "nan", "inf", "-Infinity", "1e-400", ".5", "5.", "0x1p3", "123456789012345678"),
    "BFloat16": ("1e40", "x", "", "1.00390625"),
    "Decimal": ("0.005", "1e2", "NA", "", "123456789012345678901234567890", ".5", "1.10", "1,5", "nan", "1e-50"),
    "Bool": ("2", "yes", "T", "", "maybe", "TRUE", "-1", "1.0", "on"),
    "Date": ("2026-02-31", "2024-13-01", "1969-12-31", "2150-01-01", "", "0000-00-00", "20240501", "2024-5-1"),
    "Date32": ("2026-02-31", "1899-12-31", "2300-01-01", "2024-05-01 10:00:00", "", "01/05/2024"),
    "DateTime": (
        "2024-02-30 00:00:00",
        "2024-05-01 25:00:00",
        "2024-05-01T10:00:00",
        "2024-05-01 10:00:00.5",
        "2024-05-01T10:00:00Z",
        "2024-05-01",
        "1714521600",
        "2024-05-01 10:61:00",
        "1960-01-01 00:00:00",
        "2110-01-01 00:00:00",
        "2024-03-31 02:30:00",
        "2024-10-27 02:30:00",
        "2024-05-01 10:00:00+02:00",
        "",
        "2024-05-01 10:00",
    ),
    "UUID": ("", "not-a-uuid", "00000000000000000000000000000001", "00000000-0000-0000-0000-00000000000G"),
    "IPv4": ("", "1.2.3", "256.1.1.1", "1.2.3.4.5", "1.2.3.04", "::1"),
    "IPv6": ("", "1.2.3.4", "::g", "1:2:3", "::FFFF:1.2.3.4", "0:0:0:0:0:0:0:1"),
    "Enum": ("nowhere", "1", "2", "99", "A", "a "),
    "Time": ("25:00:00", "10:61:00", "10:00", "-01:00:00", "999:59:59", ""),
    "FixedString": ("", "x" * 40, "ü"),
    "Array": ("", "[", "[1,]", "1,2", "[NULL]", "['a']", "[300]"),
    "Map": ("", "{}x", "{'a':1}", "{1:2,1:3}"),
    "Tuple": ("", "()", "(1)", "(1,2,3,4)"),
    "JSON": ("", "[1]", "{", "1"),
    "Variant": ("", "12", "1.5"),
}
_HOSTILE |= {
    "DateTime64": _HOSTILE["DateTime"],
    "Time64": _HOSTILE["Time"],
    "Dynamic": (" 1", "+5", "01", "0.12345678901234567890", "[1"),
}


def text_of(value: Any, of: Type) -> bytes:
    """A value in the usual notation of its type."""
    kind = of.kind
    if kind in ("Array", "Map", "Tuple"):
        return notation.written(value, of, text_of)
    if kind == "Bool":
        return b"true" if value else b"false"
    if kind in ("String", "FixedString"):
        return bytes(value)
    if kind in ("Float", "BFloat16"):
        return repr(value).encode()
    if kind == "Decimal":
        return format(value, "f").encode()
    if kind in ("DateTime", "DateTime64"):
        return _moment(value, of).encode()
    if kind in ("Time", "Time64"):
        return _time(value, of).encode()
    if kind in ("JSON", "Dynamic", "Variant"):
        return (
            json_text(value) if kind == "JSON" else value if isinstance(value, bytes) else str(value).lower().encode()
        )
    return str(value).encode()


def json_text(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _moment(ticks: int, of: Type) -> str:
    seconds, fraction = divmod(ticks, 10**of.precision)
    shown = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).astimezone(ZoneInfo(of.zone_name))
    text = f"{shown.year:04}-{shown:%m-%d %H:%M:%S}"
    return f"{text}.{fraction:0{of.precision}}" if of.precision else text


def _time(ticks: int, of: Type) -> str:
    seconds, fraction = divmod(ticks, 10**of.precision)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:0{of.precision}}" if of.precision else text


def another_notation(choose: random.Random, value: Any, of: Type) -> bytes:
    """The same value, written in another way where there is one."""
    text = text_of(value, of).decode(errors="surrogateescape")
    if isinstance(value, bool):
        text = choose.choice(("1", "0")) if choose.random() < 0.1 else str(int(value))
    elif isinstance(value, float):
        text = choose.choice((f"{value:.17g}", f"{value:.3e}", text.upper()))
    elif isinstance(value, Decimal):
        text = choose.choice((text + ("0" if "." in text else ".0"), text.removesuffix("0") or "0", f"{value:e}"))
    elif of.kind in ("DateTime", "DateTime64"):
        text = choose.choice((text.rstrip("0").rstrip("."), text.replace(" ", "T"), text + "Z"))
    elif isinstance(value, date):
        text = choose.choice((text + " 00:00:00", text.replace("-", "/")))
    elif isinstance(value, int):
        text = choose.choice((f"+{text}", f"{text}.0", f" {text}", f"0{text}"))
    elif of.kind in ("UUID", "IPv6"):
        text = choose.choice((text.upper(), text.replace("-", "")))
    return text.encode(errors="surrogateescape")


def hostile_text(choose: random.Random, of: Type) -> bytes:
    """Text that a column of this type may not hold."""
    return choose.choice(_HOSTILE.get(of.kind, ("\\N", "", "x"))).encode()
