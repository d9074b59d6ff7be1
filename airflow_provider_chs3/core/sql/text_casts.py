"""Which condition a text must meet to be parsed to what it says.

ClickHouse reads `2026-02-31` as 3 March, `25:00:00` as one o'clock of the next day, and `1.239` as a Decimal of two
digits as 1.23. The quick comparison of each condition comes first: the others only run for texts that ClickHouse itself
would write differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from airflow_provider_chs3.core.sql.column_types import ColumnType
from airflow_provider_chs3.core.sql.quoting import literal
from airflow_provider_chs3.core.sql.server_casts import DATES, FLOATS, TIMES, TIMES_OF_DAY

INT64_DIGITS = 18
#: Digits of the largest Decimal.
_MOST_DIGITS = 76
#: So many digits fit for sure; ClickHouse takes longer ones modulo the type's width.
_SAFE_DIGITS = {"Int128": 38, "UInt128": 38, "Int256": 76, "UInt256": 77}
#: Digits of today's seconds since 1970; ClickHouse recognizes finer ones by their number of digits.
_DIGITS_OF_SECONDS = 10
#: Digits of a second → the function that counts them since 1970.
_PARTS_OF_SECONDS = {3: "toUnixTimestamp64Milli", 6: "toUnixTimestamp64Micro", 9: "toUnixTimestamp64Nano"}
_FIRST_GROUP = "\\1"
#: A date may leave this out: all of it, or from the minutes, the seconds or any digit of a fraction on.
_MIDNIGHT = " 00:00:00.000000000"
_LENGTH_OF_DATE, _LENGTH_OF_SECONDS = len("2024-05-01"), len("2024-05-01 12:34:56")
#: The same at the end of a text that names UTC.
_MIDNIGHT_IN_UTC = "'[T ]00:00(:00([.]0+)?)?( *Z|[+]00(:?00)?)$'"
#: Where a text would end between the two digits of an hour, a minute or a second.
_HALVES = "(12, 15, 18)"
#: With which the calendar of 25.8 begins, and whether a server has parts of seconds before 1970, as later ones do.
_FIRST_YEAR_OF_25 = 1900
_HAS_EARLIER_PARTS = "toString(toDateTime64('1960-01-01 00:00:00.1', 1, 'UTC')) = '1960-01-01 00:00:00.1'"
#: Marks of UTC in the text of a moment.
_UTC = ("Z", "+00")
#: The offset at the end of a text.
_OFFSET = "' *[+-][0-9]{2}(:?[0-9]{2})?$'"
#: Gives its digits, less than 16 hours as PostgreSQL has it; a text without one gives no number, and the minutes of an
#: offset that none has.
_DIGITS_OF_OFFSET, _NO_OFFSET = (
    r"'^[^+]{11}[^A-Za-z+-]*([+-](?:0[0-9]|1[0-5])):?([0-5][0-9])?$', '\\1\\2'",
    9999,
)
#: A date, and maybe a time of day, with whatever there is between the numbers.
_NUMBERS_OF_TIME, _NUMBERS_OF_DATE = "^([0-9]+[^0-9.]){2,5}[0-9]+([.]0*)?$", "^([0-9]+[^0-9]){2,6}[0-9]+$"


def without_midnight(text: str) -> str:
    """Return the date of a text that continues with midnight in UTC, which servers do not parse as a date."""
    # Most texts are dates alone, for which no regular expression runs.
    return f"if(length({text}) <= {_LENGTH_OF_DATE}, {text}, replaceRegexpOne({text}, {_MIDNIGHT_IN_UTC}, ''))"


def holds_of_text(text: str, made: str, target: ColumnType, *, is_lossy: bool = False) -> str | None:
    """Return the condition that a text was parsed to what it says; None if parsing fails otherwise."""
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
    """
    digits = target.precision - target.scale
    if digits <= INT64_DIGITS:
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
    # Trailing zeros carry no information, before or after the point.
    behind, zeros = (
        f"length(extract({text}, {literal(pattern)}))"
        for pattern in ("[.]([0-9]*[1-9])0*[eE]", "^[+-]?[0-9]*?(0*)(?:[.]0*)?[eE]")
    )
    places = f"{behind} - {zeros} - toInt32OrZero(extract({text}, '[eE]([+-]?[0-9]+)$'))"
    zero = f"NOT match({text}, '[1-9].*[eE]')"
    moved = f"match({text}, '[0-9].*[eE][+-]?0*[0-9]{{1,3}}$') AND ({places} <= {most} OR {zero})"
    same = f"toString({made}) = {text} OR match({text}, {literal(plain)}) OR ({moved})"
    return f"({same}) AND {digits_fit(made, target)}"


def _lossy_decimal(text: str, made: str, target: ColumnType) -> str:
    plain = "^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?$"
    return f"match({text}, {literal(plain)}) AND {digits_fit(made, target)}"


def _date(text: str, made: str, target: ColumnType) -> str:
    """Accept `YYYY-MM-DD`, `YYYYMMDD`, or single digits; a time of day may only be midnight."""
    shown = f"toString({made})"
    return (
        f"({shown} = {text} OR {_begins(_spaced(text), shown, _MIDNIGHT)} OR replaceAll({shown}, '-', '') = {text} "
        f"OR {_has_same_numbers(text, shown, _NUMBERS_OF_DATE)})"
    )


def _lossy_date(text: str, made: str, target: ColumnType) -> str:
    """Drop a time of day; the day must be the one in the text."""
    time = "[T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?$"
    return _date(f"replaceRegexpOne({text}, {literal(time)}, '')", made, target)


def _time(text: str, made: str, target: ColumnType) -> str:
    """Accept ClickHouse's own form, ISO 8601, an offset, Unix time, or single digits.

    Common forms are compared without regular expressions: one takes ten times as long. Each function costs every
    statement, too: servers analyze it in some 50 µs (seen on 26.9), however few the rows are.
    """
    # formatDateTime() makes the same text in less time, for any row; toString() only where its result is asked for, and
    # with it what is made of that.
    shown = f"formatDateTime({made}, '%F %T')" if target.name == "DateTime" else f"toString({made})"
    same, text = f"{shown} = {text}", f"toString({text})"
    is_utc = " OR ".join(f"position({text}, '{zone}') > 0" for zone in _UTC)
    shown_there = shown if target.time_zone == "UTC" else f"if({is_utc}, toString({made}, 'UTC'), {shown})"
    local, without_z = _spaced(f"replaceRegexpOne({text}, {_OFFSET}, '')"), f"trimRight({text}, 'Z ')"
    missing = _MIDNIGHT[len(_MIDNIGHT) - 9 + target.scale - (not target.scale) :]
    # 25.8 parses a time before the first second of a calendar, and shows that second with the parts of the text.
    after_1900 = f"(toYear({made}) != {_FIRST_YEAR_OF_25} OR position({text}, '.') = 0 OR {_HAS_EARLIER_PARTS})"
    known = f"{after_1900} AND " if target.scale else ""
    return (
        f"{known}({same} OR {_is_whole(text, shown_there, target)} "
        f"OR {_begins(_spaced(without_z), shown_there, missing)} OR {_unix(text, made, target)} "
        f"OR {_begins(local, _moved(text, made, target), missing)} "
        f"OR {_has_same_numbers(text, shown, _NUMBERS_OF_TIME)})"
    )


def _is_whole(text: str, shown: str, target: ColumnType) -> str:
    """Compare a text with all digits of the type, which zeros or UTC may follow, as nearly all writers have it."""
    point = "" if target.scale else "."
    zeros = ("", f"{point}000", f"{point}000000")
    ends = ", ".join(literal(zero + zone) for zero in zeros for zone in ("", "Z", "+00:00", "+00"))
    end = _LENGTH_OF_SECONDS + 1 + (target.scale and target.scale + 1)
    return f"(startsWith({_spaced(text)}, {shown}) AND substring({text}, {end}) IN ({ends}))"


def _spaced(text: str) -> str:
    return f"replaceOne({text}, 'T', ' ')"


def _begins(text: str, shown: str, missing: str) -> str:
    """Compare a text that may leave out zeros at the end with all digits down to nanoseconds."""
    zeros = f"substring('{_MIDNIGHT}', length({text}) - {_LENGTH_OF_DATE - 1})"
    whole = f"concat({shown}, '{missing}')" if missing else shown
    return f"({whole} = concat({text}, {zeros}) AND length({text}) NOT IN {_HALVES})"


def _moved(text: str, made: str, target: ColumnType) -> str:
    """Show a moment as the clocks of an offset at the text's end do: `+02:00`, `+0200` or `+02`."""
    digits = f"replaceRegexpOne({text}, {_DIGITS_OF_OFFSET})"
    number = f"toInt32OrDefault(rightPad({digits}, {len('+0200')}, '0'), toInt32({_NO_OFFSET}))"
    return f"toString(addMinutes(toDateTime64({made}, {target.scale}, 'UTC'), {number} - 40 * intDiv({number}, 100)))"


def _has_same_numbers(text: str, shown: str, form: str) -> str:
    """Compare all numbers but zeros at the end, which the text may leave out."""
    read, other = (f"trimRight(replaceRegexpAll({value}, '[^0-9]+0*', ' '))" for value in (text, shown))
    return f"(match({text}, {literal(form)}) AND {read} = {other})"


def _unix(text: str, made: str, target: ColumnType) -> str:
    """Accept seconds since 1970, or parts of them as far as the type has these."""
    is_fine = target.name == "DateTime64"
    parts = [scale for scale in _PARTS_OF_SECONDS if is_fine and scale <= target.scale]
    # Seconds alone take 32 bits.
    finest = max(parts, default=min(_PARTS_OF_SECONDS) if is_fine else 0)
    digits = "|".join(
        [f"[0-9]{{5,{_DIGITS_OF_SECONDS}}}", *(f"[0-9]{{{_DIGITS_OF_SECONDS + part}}}" for part in parts)]
    )
    counted = f"toString({_PARTS_OF_SECONDS.get(finest, 'toUnixTimestamp')}({made}))"
    zeros = f"substring('{'0' * finest}', greatest(length({text}), {_DIGITS_OF_SECONDS}) - {_DIGITS_OF_SECONDS - 1})"
    all_digits = f"concat({text}, {zeros})" if finest else text
    whole = f"(match({text}, '^({digits})$') AND {counted} = {all_digits})"
    return f"({whole} OR {_unix_with_point(text, made, target.scale)})" if target.scale else whole


def _unix_with_point(text: str, made: str, scale: int) -> str:
    """Accept seconds since 1970 with a point: zeros alone may follow the digits of the type."""
    form = f"^[0-9]{{{_DIGITS_OF_SECONDS}}}[.][0-9]{{0,{scale}}}0*$"
    kept = f"substring({text}, 1, {_DIGITS_OF_SECONDS + 1 + scale})"
    same = f"toDecimal128OrNull({kept}, {scale}) = toDecimal128({made}, {scale})"
    return f"(match({text}, '{form}') AND {same})"


def _lossy_time(text: str, made: str, target: ColumnType) -> str:
    """Drop digits beyond those of the type before the rest is compared."""
    point = f"([.][0-9]{{{target.scale}}})[0-9]+" if target.scale else "()[.][0-9]+"
    cut = f"replaceRegexpOne({text}, {literal(point)}, {literal(_FIRST_GROUP)})"
    return f"({' OR '.join((_time(cut, made, target), *_lossy_unix(text, made, target)))})"


def _lossy_unix(text: str, made: str, target: ColumnType) -> Iterator[str]:
    kept, function = max((s, f) for s, f in {0: "toUnixTimestamp", **_PARTS_OF_SECONDS}.items() if s <= target.scale)
    for scale in (part for part in _PARTS_OF_SECONDS if part > target.scale):
        shown = f"substring({text}, 1, {_DIGITS_OF_SECONDS + kept})"
        digits = _DIGITS_OF_SECONDS + scale
        yield f"(match({text}, '^[0-9]{{{digits}}}$') AND toString({function}({made})) = {shown})"


def _uuid(text: str, made: str, target: ColumnType) -> str:
    """Compare all digits: 25.8 takes any character for one."""
    read, other = (f"replaceAll({value}, '-', '')" for value in (f"lower({text})", f"toString({made})"))
    return f"(toString({made}) = {text} OR {read} = {other})"


def _time_of_day(text: str, made: str, target: ColumnType) -> str:
    """Accept minutes and seconds below 60, and zeros alone beyond the scale."""
    scale = int(target.arguments[0]) if target.arguments else 0
    digits = f"([.][0-9]{{0,{scale}}}0*)?"
    return f"match({text}, {literal(f'^-?[0-9]{{1,3}}:[0-5][0-9]:[0-5][0-9]{digits}$')})"


_CONDITIONS: dict[str, Callable[[str, str, ColumnType], str]] = {
    **dict.fromkeys(_SAFE_DIGITS, _integer),
    **dict.fromkeys(FLOATS, _float),
    "Decimal": _decimal,
    **dict.fromkeys(DATES, _date),
    **dict.fromkeys(TIMES, _time),
    **dict.fromkeys(TIMES_OF_DAY, _time_of_day),
    "UUID": _uuid,
}

#: Where what may be lost is left out of the comparison.
_LOSSY_CONDITIONS: dict[str, Callable[[str, str, ColumnType], str]] = {
    "Decimal": _lossy_decimal,
    **dict.fromkeys(DATES, _lossy_date),
    **dict.fromkeys(TIMES, _lossy_time),
}
