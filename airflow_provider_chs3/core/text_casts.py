"""When a text and the value that ClickHouse parsed of it say the same.

ClickHouse reads `2026-02-31` as 3 March, `25:00:00` as one o'clock of the next day, and `1.239` as a Decimal of two
digits as 1.23. The quick comparison of each condition comes first: the others only run for texts that are written in
another way than ClickHouse itself writes them.
"""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider_chs3.core.column_types import ColumnType
from airflow_provider_chs3.core.sql import literal

_DIGITS_OF_INT64 = 18
#: Of the largest Decimal.
_MOST_DIGITS = 76
#: So many digits fit for sure; ClickHouse takes longer ones modulo the type's width.
_SAFE_DIGITS = {"Int128": 38, "UInt128": 38, "Int256": 76, "UInt256": 77}


def holds_of_text(text: str, made: str, target: ColumnType) -> str | None:
    """A condition that is true where a text was parsed to what it says; None where parsing fails by itself.

    Args:
        text: The expression of the text.
        made: The expression of the value that was parsed of it.
        target: The value's type, without wrappers.
    """
    condition = _CONDITIONS.get(target.name)
    return condition(text, made, target) if condition else None


def _integer(text: str, made: str, target: ColumnType) -> str:
    digits = _SAFE_DIGITS[target.name]
    return f"(toString({made}) = {text} OR match({text}, '^[+-]?0*[0-9]{{1,{digits}}}$'))"


def _float(text: str, made: str, target: ColumnType) -> str:
    return f"(NOT isInfinite({made}) OR match({text}, '(?i)^[+-]?inf'))"


def digits_fit(made: str, target: ColumnType) -> str:
    """ClickHouse stores more digits than a Decimal has, as far as its integer holds them.

    Args:
        made: The expression of the decimal.
        target: Its type, without wrappers.
    """
    digits = target.precision - target.scale
    if digits <= _DIGITS_OF_INT64:
        return f"abs({made}) < 1{'0' * digits}"
    largest = "9" * min(digits, _MOST_DIGITS)
    return f"abs({made}) < CAST('{largest}', 'Decimal(76, 0)') + 1"


def _decimal(text: str, made: str, target: ColumnType) -> str:
    """No digit beyond the scale but zeros; an exponent moves the point."""
    digits = f"[.][0-9]{{0,{target.scale}}}0*"
    plain = f"^[+-]?([0-9]+({digits})?|{digits})$"
    # Zeros at the end say nothing, before the point neither.
    behind = f"length(extract({text}, '[.]([0-9]*?)0*[eE]'))"
    zeros = f"length(extract({text}, '(0*)([.]0*)?[eE]'))"
    zero = f"NOT match({text}, '[1-9].*[eE]')"
    places = f"if({behind} = 0, -{zeros}, {behind}) - toInt32OrZero(extract({text}, '[eE]([+-]?[0-9]+)$'))"
    moved = f"match({text}, '[0-9].*[eE][+-]?0*[0-9]{{1,3}}$') AND ({places} <= {target.scale} OR {zero})"
    return f"(match({text}, {literal(plain)}) OR ({moved})) AND {digits_fit(made, target)}"


def _date(text: str, made: str, target: ColumnType) -> str:
    """As `YYYY-MM-DD`, `YYYYMMDD` or with single digits; a time of day may only be midnight."""
    midnight = "[T ]00:00(:00([.]0+)?)?$"
    day = f"splitByRegexp('[^0-9]', replaceRegexpOne({text}, {literal(midnight)}, ''))"
    return (
        f"(toString({made}) = {text} "
        f"OR arrayMap(toUInt32OrZero, {day}) = [toYear({made}), toMonth({made}), toDayOfMonth({made})] "
        f"OR (match({text}, '^[0-9]{{8}}$') AND toString({made}) = {_dashed(text)}))"
    )


def _dashed(text: str) -> str:
    return f"concat(substring({text}, 1, 4), '-', substring({text}, 5, 2), '-', substring({text}, 7, 2))"


def _time(text: str, made: str, target: ColumnType) -> str:
    """As ClickHouse writes it, by ISO 8601, with an offset, as Unix time, or with single digits."""
    zeros = f"concat({text}, '.{'0' * target.scale}') = toString({made}) OR " if target.scale else ""
    # Zeros at the end of a fraction of a second say nothing.
    fraction = "'([.][0-9]*[1-9])0+$|[.]0+$', '\\\\1'"
    spaced = f"replaceRegexpOne(replaceOne({text}, 'T', ' '), {fraction})"
    shown = f"replaceRegexpOne(toString({made}), {fraction})"
    parts = f"arrayMap(toUInt32OrZero, splitByRegexp('[^0-9]', {spaced}))"
    of = ", ".join(
        f"{part}({made})" for part in ("toYear", "toMonth", "toDayOfMonth", "toHour", "toMinute", "toSecond")
    )
    short = f"{shown} = concat({spaced}, ':00') OR {shown} = concat({spaced}, ' 00:00:00')"
    unix = f"(match({text}, '^[0-9]{{5,10}}$') AND toString(toUnixTimestamp({made})) = {text})"
    return (
        f"(toString({made}) = {text} OR {zeros}{shown} = {spaced} OR {short} OR {unix} "
        f"OR ({parts} = [{of}] AND NOT match({spaced}, '[.]')) OR {_with_offset(spaced, text, made, fraction)})"
    )


def _with_offset(spaced: str, text: str, made: str, fraction: str) -> str:
    """Its local part must be a time that there is, and the instant that which another parser finds."""
    offset = "' *(Z|[+-][0-9]{2}:?[0-9]{2})$'"
    local = f"replaceRegexpOne(replaceRegexpOne({spaced}, {offset}, ''), {fraction})"
    checked = f"replaceRegexpOne(toString(parseDateTime64BestEffortOrNull({local}, 9, 'UTC')), {fraction})"
    instant = f"parseDateTime64BestEffortOrNull({text}, 9, 'UTC')"
    return f"(match({text}, {offset}) AND {checked} = {local} AND {made} = {instant})"


_CONDITIONS: dict[str, Callable[[str, str, ColumnType], str]] = {
    **dict.fromkeys(_SAFE_DIGITS, _integer),
    **dict.fromkeys(("Float32", "Float64", "BFloat16"), _float),
    "Decimal": _decimal,
    **dict.fromkeys(("Date", "Date32"), _date),
    **dict.fromkeys(("DateTime", "DateTime64"), _time),
}
