"""Conditions that a text and the value that ClickHouse parsed from it mean the same.

ClickHouse reads `2026-02-31` as 3 March, `25:00:00` as one o'clock of the next day, and `1.239` as a Decimal of two
digits as 1.23. The quick comparison of each condition comes first: the others only run for texts that ClickHouse itself
would write differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from airflow_provider_chs3.core.conversion.column_types import ColumnType
from airflow_provider_chs3.core.sql.quoting import literal

_DIGITS_OF_INT64 = 18
#: Digits of the largest Decimal.
_MOST_DIGITS = 76
#: So many digits fit for sure; ClickHouse takes longer ones modulo the type's width.
_SAFE_DIGITS = {"Int128": 38, "UInt128": 38, "Int256": 76, "UInt256": 77}
#: Digits of today's seconds since 1970; ClickHouse recognizes finer ones by their number of digits.
_DIGITS_OF_SECONDS = 10
#: Digits of a second → the function that counts them since 1970.
_PARTS_OF_SECONDS = {3: "toUnixTimestamp64Milli", 6: "toUnixTimestamp64Micro", 9: "toUnixTimestamp64Nano"}
_FIRST_GROUP = "\\1"
#: Zeros at the end of a fraction of a second say nothing.
_NO_ZEROS = "'([.][0-9]*[1-9])0+$|[.]0+$', '\\\\1'"
#: Length of a date and a time of day, to the second.
_LENGTH_TO_SECONDS = len("2024-05-01 12:34:56")
#: A point, and as many digits of a second as there are at most.
_LENGTH_OF_FRACTION = len(".123456789")


def holds_of_text(text: str, made: str, target: ColumnType, *, is_lossy: bool = False) -> str | None:
    """Return the condition that a text was parsed to what it says; None if parsing fails otherwise.

    Args:
        text: The expression of the text.
        made: The expression of the value that was parsed from it.
        target: The value's type, without wrappers.
        is_lossy: Whether these may be lost: digits beyond the scale of a Decimal, parts of a second, the time of day.
    """
    condition = (is_lossy and _LOSSY_CONDITIONS.get(target.name)) or _CONDITIONS.get(target.name)
    return condition(text, made, target) if condition else None


def _integer(text: str, made: str, target: ColumnType) -> str:
    digits = _SAFE_DIGITS[target.name]
    return f"(toString({made}) = {text} OR match({text}, '^[+-]?0*[0-9]{{1,{digits}}}$'))"


def _float(text: str, made: str, target: ColumnType) -> str:
    return f"(NOT isInfinite({made}) OR match({text}, '(?i)^[+-]?inf'))"


def digits_fit(made: str, target: ColumnType) -> str:
    """Return the condition that a Decimal has no more digits than its type.

    ClickHouse stores as many as its integer holds.

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
    """Accept zeros alone beyond the scale; an exponent moves the point.

    ClickHouse takes `.`, `+` and `1.2.` for numbers, too.
    """
    most = target.scale
    digits = f"[.][0-9]{{1,{most}}}0*" if most else "[.]0+"
    plain = f"^[+-]?([0-9]+({digits}|[.])?|{digits})$"
    quick = _has_few_digits_behind_the_point(text, most)
    # Zeros at the end say nothing, before the point neither.
    behind = f"length(extract({text}, '[.]([0-9]*?)0*[eE]'))"
    zeros = f"length(extract({text}, '(0*)([.]0*)?[eE]'))"
    zero = f"NOT match({text}, '[1-9].*[eE]')"
    places = f"if({behind} = 0, -{zeros}, toInt64({behind})) - toInt32OrZero(extract({text}, '[eE]([+-]?[0-9]+)$'))"
    moved = f"match({text}, '[0-9].*[eE][+-]?0*[0-9]{{1,3}}$') AND ({places} <= {most} OR {zero})"
    return f"({quick} OR match({text}, {literal(plain)}) OR ({moved})) AND {digits_fit(made, target)}"


def _has_few_digits_behind_the_point(number: str, most: int) -> str:
    """Test for forms such as `12.34` faster than a regular expression, given that ClickHouse has parsed the number."""
    point = f"position({number}, '.')"
    few = f"{point} > 1 AND length({number}) > {point} AND length({number}) - {point} <= {most}"
    exponents = " AND ".join(f"position({number}, '{sign}') = 0" for sign in "eE")
    return f"({few} AND countSubstrings({number}, '.') = 1 AND {exponents})"


def _lossy_decimal(text: str, made: str, target: ColumnType) -> str:
    plain = "^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?$"
    return f"match({text}, {literal(plain)}) AND {digits_fit(made, target)}"


def _date(text: str, made: str, target: ColumnType) -> str:
    """Accept `YYYY-MM-DD`, `YYYYMMDD`, or single digits; a time of day may only be midnight."""
    midnight = "[T ]00:00(:00([.]0+)?)?$"
    # No array of 25.8 may be NULL (43).
    day = f"splitByRegexp('[^0-9]', ifNull(replaceRegexpOne({text}, {literal(midnight)}, ''), ''))"
    return (
        f"(toString({made}) = {text} OR concat(toString({made}), ' 00:00:00') = replaceOne({text}, 'T', ' ') "
        f"OR arrayMap(part -> toUInt32OrZero(part), {day}) = [toYear({made}), toMonth({made}), toDayOfMonth({made})] "
        f"OR (match({text}, '^[0-9]{{8}}$') AND toString({made}) = {_dashed(text)}))"
    )


def _lossy_date(text: str, made: str, target: ColumnType) -> str:
    """Drop a time of day; the day must be the one in the text."""
    time = "[T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?$"
    return _date(f"replaceRegexpOne({text}, {literal(time)}, '')", made, target)


def _dashed(text: str) -> str:
    return f"concat(substring({text}, 1, 4), '-', substring({text}, 5, 2), '-', substring({text}, 7, 2))"


def _time(text: str, made: str, target: ColumnType) -> str:
    """Accept ClickHouse's own form, ISO 8601, an offset, Unix time, or single digits.

    Common forms are compared by pieces of fixed length: a regular expression takes ten times as long.
    """
    shown = f"toString({made})"
    zeros = f".{'0' * target.scale}" if target.scale else ""
    spaced = f"replaceOne({text}, 'T', ' ')"
    short = f"{shown} = concat({spaced}, ':00{zeros}') OR {shown} = concat({text}, ' 00:00:00{zeros}')"
    unix = " OR ".join(_unix(text, made, target))
    return (
        f"({shown} = {text} OR {_with_z(text, made)} OR {_same_to_the_fraction(text, shown)} OR {short} OR {unix} "
        f"OR {_with_offset(text, made, target)} OR {_with_single_digits(spaced, made)})"
    )


def _same_to_the_fraction(text: str, shown: str) -> str:
    """Compare date, time of day and parts of the second, except for zeros at the end."""
    to_seconds = f"replaceOne(substring({text}, 1, {_LENGTH_TO_SECONDS}), 'T', ' ')"
    fraction, of_made = (_padded(f"substring({each}, {_LENGTH_TO_SECONDS + 1})") for each in (text, shown))
    longest = _LENGTH_TO_SECONDS + _LENGTH_OF_FRACTION
    return (
        f"({to_seconds} = substring({shown}, 1, {_LENGTH_TO_SECONDS}) "
        f"AND {fraction} = {of_made} AND length({text}) <= {longest})"
    )


def _padded(fraction: str) -> str:
    return f"rightPad(if(empty({fraction}), '.', {fraction}), {_LENGTH_OF_FRACTION}, '0')"


def _with_z(text: str, made: str) -> str:
    local = f"trimRight(substring({text}, 1, length({text}) - 1))"
    shown = f"toString({made}, 'UTC')"
    return f"(endsWith({text}, 'Z') AND {_same_to_the_fraction(local, shown)})"


def _with_offset(text: str, made: str, target: ColumnType) -> str:
    """Accept `+02:00`, `+0200` or `+02`: the local time is the moment in UTC, moved by it."""
    offset = f"extract({text}, '[+-][0-9]{{2}}(?::?[0-9]{{2}})?$')"
    local = f"trimRight(substring({text}, 1, length({text}) - length({offset})))"
    hours, minutes = (f"toInt32OrZero(substring(replaceOne({offset}, ':', ''), {first}, 2))" for first in (2, 4))
    moved = f"if(startsWith({offset}, '-'), -1, 1) * ({hours} * 3600 + {minutes} * 60)"
    shown = f"toString(addSeconds(toDateTime64({made}, {target.scale}, 'UTC'), {moved}))"
    return f"({_same_to_the_fraction(local, shown)} AND notEmpty({offset}))"


def _with_single_digits(spaced: str, made: str) -> str:
    whole = f"replaceRegexpOne({spaced}, {_NO_ZEROS})"
    parts = f"arrayMap(part -> toUInt32OrZero(part), splitByRegexp('[^0-9]', ifNull({whole}, '')))"
    of = ", ".join(
        f"{part}({made})" for part in ("toYear", "toMonth", "toDayOfMonth", "toHour", "toMinute", "toSecond")
    )
    return f"({parts} = [{of}] AND position({whole}, '.') = 0)"


def _unix(text: str, made: str, target: ColumnType) -> Iterator[str]:
    """Accept seconds since 1970, or parts of them as far as the type has these."""
    yield f"(toString(toUnixTimestamp({made})) = {text} AND match({text}, '^[0-9]{{5,{_DIGITS_OF_SECONDS}}}$'))"
    for scale, function in _PARTS_OF_SECONDS.items():
        if target.name == "DateTime64" and target.scale >= scale:
            digits = _DIGITS_OF_SECONDS + scale
            yield f"(toString({function}({made})) = {text} AND match({text}, '^[0-9]{{{digits}}}$'))"


def _lossy_time(text: str, made: str, target: ColumnType) -> str:
    """Drop digits beyond those of the type before the rest is compared."""
    point = f"([.][0-9]{{{target.scale}}})[0-9]+" if target.scale else "()[.][0-9]+"
    cut = f"replaceRegexpOne({text}, {literal(point)}, {literal(_FIRST_GROUP)})"
    return f"({' OR '.join((_time(cut, made, target), *_lossy_unix(text, made, target)))})"


def _lossy_unix(text: str, made: str, target: ColumnType) -> Iterator[str]:
    kept, function = max((s, f) for s, f in {0: "toUnixTimestamp", **_PARTS_OF_SECONDS}.items() if s <= target.scale)
    for scale in (each for each in _PARTS_OF_SECONDS if each > target.scale):
        shown = f"substring({text}, 1, {_DIGITS_OF_SECONDS + kept})"
        digits = _DIGITS_OF_SECONDS + scale
        yield f"(match({text}, '^[0-9]{{{digits}}}$') AND toString({function}({made})) = {shown})"


def _time_of_day(text: str, made: str, target: ColumnType) -> str:
    """Accept minutes and seconds below 60, and zeros alone beyond the scale."""
    scale = int(target.arguments[0]) if target.arguments else 0
    digits = f"([.][0-9]{{0,{scale}}}0*)?"
    return f"match({text}, {literal(f'^-?[0-9]{{1,3}}:[0-5][0-9]:[0-5][0-9]{digits}$')})"


_CONDITIONS: dict[str, Callable[[str, str, ColumnType], str]] = {
    **dict.fromkeys(_SAFE_DIGITS, _integer),
    **dict.fromkeys(("Float32", "Float64", "BFloat16"), _float),
    "Decimal": _decimal,
    **dict.fromkeys(("Date", "Date32"), _date),
    **dict.fromkeys(("DateTime", "DateTime64"), _time),
    **dict.fromkeys(("Time", "Time64"), _time_of_day),
}

#: Where what may be lost is left out of the comparison.
_LOSSY_CONDITIONS: dict[str, Callable[[str, str, ColumnType], str]] = {
    "Decimal": _lossy_decimal,
    **dict.fromkeys(("Date", "Date32"), _lossy_date),
    **dict.fromkeys(("DateTime", "DateTime64"), _lossy_time),
}
