"""How one number, text, date or time becomes one of another type, and what shows that nothing of it was lost.

ClickHouse's own conversions drop what does not fit. So each one here comes with a condition that holds where the value
is still the one that was written: mostly it casts back and compares. A lossy one lets go of digits beyond the scale of
a Decimal, parts of a second and the time of day; all else is compared all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_chs3.core.column_types import ColumnType
from airflow_provider_chs3.core.sql import literal
from airflow_provider_chs3.core.text_casts import digits_fit, holds_of_text

_FLOATS = ("Float32", "Float64", "BFloat16")
DATES = ("Date", "Date32")
TIMES = ("DateTime", "DateTime64")
TIMES_OF_DAY = ("Time", "Time64")
TEXTS = ("String", "FixedString")
_INT64_DIGITS = 18
_INT128_DIGITS = 38
#: First and last years of servers' calendars: 1900 to 2299, and 0 to 9999 of newer ones.
_EDGES_OF_CALENDARS = (0, 1900, 2299, 9999)
#: Of the finest DateTime64.
_NANOSECONDS = 9
_MOST_TICKS = 2**63

#: Tells by a NULL what does not fit.
OR_NULL = "accurateCastOrNull"


@dataclass(frozen=True)
class Cast:
    """A value as another type.

    Args:
        value: The expression.
        holds: True where it is the value that was written, or both are NULL; None where it always is, or the expression
            fails by itself.
    """

    value: str
    holds: str | None = None


@dataclass(frozen=True)
class ScalarCasting:
    """How single values are cast.

    Args:
        function: `accurateCast`, which fails, or `accurateCastOrNull`, which tells by a NULL what does not fit.
        is_lossy: Whether these may be lost: digits beyond the scale of a Decimal, parts of a second, the time of day.
    """

    function: str = "accurateCast"
    is_lossy: bool = False

    def to(self, value: str, target: ColumnType) -> str:
        """The server's own conversion."""
        # A wrapped type cannot be NULL where it does not fit.
        text = target.bare.text if self.function == OR_NULL else target.text
        return f"{self.function}({value}, {literal(text)})"

    def scalar(self, value: str, one: ColumnType, target: ColumnType) -> Cast:
        """The value as the target's type.

        Args:
            value: The expression.
            one: Its type, without wrappers.
            target: The type that it is to have.
        """
        other = target.bare
        made = self.to(value, target)
        if one.text == other.text:
            return Cast(made, _in_range(made, one, other) if other.name == "DateTime64" else None)
        if one.name == "FixedString" and other.name in TEXTS:
            # The server's own conversion drops zero bytes at the end, and fails over a file without a row.
            return Cast(self.to(f"concat({value}, '')", target))
        if one.name in TEXTS:
            return Cast(made, holds_of_text(value, made, other, is_lossy=self.is_lossy))
        for applies, cast in _SCALARS:
            if applies(one, other):
                return cast(self, value, one, target)
        return Cast(made)


def is_integer(of: ColumnType) -> bool:
    """Whether a type is one of integers.

    Args:
        of: The type, without wrappers.
    """
    return of.name.startswith(("Int", "UInt")) and of.name.lstrip("U")[3:].isdecimal()


def _to_decimal(casting: ScalarCasting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    made = casting.to(value, target)
    loses = one.name == "Decimal" and one.scale > target.bare.scale
    same = f"{made} = {value} AND " if loses and not casting.is_lossy else ""
    # 12 becomes 0.42 in a Decimal(76, 76): the server notices no overflow of 256 bits.
    is_too_large = target.bare.precision > _INT128_DIGITS and _digits_before_point(one) > _digits_before_point(target)
    fits = f"{digits_fit(value, target.bare)} AND " if is_too_large else ""
    return Cast(made, fits + same + digits_fit(made, target.bare))


def _digits_before_point(of: ColumnType) -> int:
    """How many a Decimal or an integer has at most."""
    if of.bare.name == "Decimal":
        return of.bare.precision - of.bare.scale
    return len(str(2 ** int(of.bare.name.lstrip("U")[3:])))


def _to_float(casting: ScalarCasting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    # accurateCast refuses 0.1 for a Float32, as it has no such value; rounding is what a Float32 is for.
    made = f"CAST({value}, {literal(f'Nullable({target.bare})' if casting.function == OR_NULL else target.text)})"
    return Cast(made, None if one.name == target.bare.name else f"isInfinite({made}) = isInfinite({value})")


def _to_bool(casting: ScalarCasting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    return Cast(casting.to(value, target), f"{value} IN (0, 1)")


def _float_to_decimal(casting: ScalarCasting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    """The nearest decimal: the server's own conversion cuts 0.29, which is a little less as a double, to 0.28."""
    scale = target.bare.scale
    is_wide = target.bare.precision > _INT64_DIGITS
    if is_wide:
        # Five times as slow, and there are no decimals of wider integers.
        nearest = f"toString({value})"
    else:
        units = f"CAST(accurateCastOrNull(round({value} * 1e{scale}), 'Int64'), 'Nullable(Decimal(18, 0))')"
        nearest = f"{units} * CAST('1e-{scale}', 'Decimal(18, {scale})')"
    made = casting.to(nearest, target)
    fit = digits_fit(made, target.bare)
    if casting.is_lossy:
        return Cast(made, fit)
    same = f"CAST({made}, 'Nullable({one.name})') = {value}"
    if is_wide:
        # Of tiny numbers, the way back is off by a bit (-4.77e-60, seen on 26.9): their digits tell.
        same = f"({same} OR {holds_of_text(nearest, made, target.bare)})"
    return Cast(made, f"{same} AND {fit}")


def _is_back(casting: ScalarCasting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    """Cast back to what it was."""
    made = casting.to(value, target)
    return Cast(made, _back(made, value, one))


def _back(made: str, value: str, one: ColumnType) -> str:
    return f"CAST({made}, {literal(f'Nullable({one.text})')}) = {value}"


def _decimal_to_integer(casting: ScalarCasting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    # Servers cast integers of more than 64 bits to no Decimal. Beyond its range, a cast of one fails by itself.
    return Cast(casting.to(value, target), f"trunc({value}) = {value}" if one.scale else None)


def _to_time_of_day(casting: ScalarCasting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    """Times of day in files are read as moments of 1970-01-01: one that no day has would come back as another one."""
    is_shorter = (one.name, target.bare.name) == ("Time64", "Time")
    # Servers have no cast for that (70, seen on 26.9).
    source = f"toInt64({value})" if is_shorter else value
    made = f"CAST({source}, {literal(f'Nullable({target.bare})' if casting.function == OR_NULL else target.text)})"
    lost = f"{_seconds(value, one)} - {_seconds(made, target.bare)}"
    return Cast(made, f"abs({lost}) < {_unit(target.bare.scale)}" if casting.is_lossy else f"{lost} = 0")


def _is_equal(casting: ScalarCasting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    """Compare with what it was, where the server compares both types exactly."""
    made = casting.to(value, target)
    same = f"{made} = {value}"
    return Cast(made, f"{same} AND {_in_range(made, one, target.bare)}" if target.bare.name == "DateTime64" else same)


def _in_range(made: str, one: ColumnType, target: ColumnType) -> str:
    """ClickHouse stores ticks beyond its calendar, but shows and partitions them as its first or last year."""
    # A cast to a type without a zone keeps that of what was cast.
    zone = target.time_zone or one.time_zone
    shown_as = f"DateTime64({target.scale}{f', {literal(zone)}' if zone else ''})"
    edges = f"toYear({made}) NOT IN ({', '.join(map(str, _EDGES_OF_CALENDARS))})"
    return f"({edges} OR accurateCastOrNull(toString({made}), {literal(shown_as)}) = {made})"


def _time_to_date(casting: ScalarCasting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    if not casting.is_lossy:
        return _is_back(casting, value, one, target)
    made = casting.to(value, target)
    now, then = (f"[toYear({each}), toMonth({each}), toDayOfMonth({each})]" for each in (made, value))
    same = f"{now} = {then}"
    return Cast(made, f"{same} AND {_in_range(value, one, one)}" if one.name == "DateTime64" else same)


def _time_to_time(casting: ScalarCasting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    other = target.bare
    if casting.function == OR_NULL and one.scale < other.scale:
        # The server's own conversion fails where ticks take more than 64 bits.
        most = _MOST_TICKS // 10**other.scale
        made = f"if(abs({_seconds(value, one)}) < {most}, {casting.to(value, target)}, NULL)"
        return Cast(made, _in_range(made, one, other))
    if not casting.is_lossy or one.scale <= other.scale:
        return _is_equal(casting, value, one, target)
    made = casting.to(value, target)
    lost = f"{_seconds(value, one)} - {_seconds(made, other)}"
    if other.name == "DateTime":
        # Nothing is before 1970 there.
        return Cast(made, f"{lost} >= 0 AND {lost} < 1")
    return Cast(made, f"abs({lost}) < {_unit(other.scale)} AND {_in_range(made, one, other)}")


def _seconds(time: str, of: ColumnType) -> str:
    whole = {"DateTime": f"toUnixTimestamp({time})", "Time": f"toInt64({time})"}
    return f"toDecimal128({whole.get(of.name, time)}, {_NANOSECONDS})"


def _unit(scale: int) -> str:
    return f"toDecimal128('1e-{scale}', {_NANOSECONDS})"


def _time_to_integer(casting: ScalarCasting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    # Straight to a narrower integer, it fails where it should be NULL.
    ticks = casting.to(value, ColumnType("Int64")) if casting.function == OR_NULL else value
    made = casting.to(ticks, target)
    if not casting.is_lossy or not one.scale:
        return Cast(made, _back(made, value, one))
    return Cast(made, f"abs({_seconds(value, one)} - toDecimal128({made}, {_NANOSECONDS})) < 1")


def _number_to_address(casting: ScalarCasting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    return Cast(f"CAST(CAST({value}, 'Nullable(UInt32)'), {literal(target.text)})")


#: Which pairs of types take more than the server's own conversion. The first that applies counts.
_SCALARS: tuple[
    tuple[Callable[[ColumnType, ColumnType], bool], Callable[[ScalarCasting, str, ColumnType, ColumnType], Cast]], ...
] = (
    (lambda one, other: one.name in _FLOATS and other.name in _FLOATS, _to_float),
    (lambda one, other: other.name == "Bool" and (is_integer(one) or one.name in _FLOATS), _to_bool),
    (lambda one, other: one.name in _FLOATS and other.name == "Decimal", _float_to_decimal),
    (lambda one, other: other.name == "Decimal" and (one.name == "Decimal" or is_integer(one)), _to_decimal),
    (lambda one, other: one.name == "Decimal" and is_integer(other), _decimal_to_integer),
    (lambda one, other: one.name in (*TIMES, *TIMES_OF_DAY) and other.name in TIMES_OF_DAY, _to_time_of_day),
    (lambda one, other: one.name in TIMES and other.name in DATES, _time_to_date),
    (lambda one, other: one.name in TIMES and other.name in TIMES, _time_to_time),
    (lambda one, other: one.name in DATES and other.name in DATES, _is_equal),
    (lambda one, other: is_integer(one) and other.name in (*DATES, *TIMES), _is_back),
    (lambda one, other: one.name in TIMES and is_integer(other), _time_to_integer),
    (lambda one, other: one.name in DATES and is_integer(other), _is_back),
    (lambda one, other: is_integer(one) and other.name == "IPv4", _number_to_address),
)
