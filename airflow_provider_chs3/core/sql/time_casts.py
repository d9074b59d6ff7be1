"""Cast dates, times and times of day to other types, with the condition that nothing was lost."""

from __future__ import annotations

from airflow_provider_chs3.core.sql.column_types import ColumnType
from airflow_provider_chs3.core.sql.number_casts import float_to_decimal, to_decimal
from airflow_provider_chs3.core.sql.quoting import literal
from airflow_provider_chs3.core.sql.server_casts import (
    FLOATS,
    OR_NULL,
    TIMES_OF_DAY,
    Cast,
    ServerCasting,
    all_hold,
    cast_back,
    is_back,
)

#: First and last years of servers' calendars: 1900 to 2299, and 0 to 9999 of newer ones.
_EDGES_OF_CALENDARS = (0, 1900, 2299, 9999)
#: Scale of the finest DateTime64.
_NANOSECONDS = 9
_MOST_TICKS = 2**63
#: Holds the seconds of any time.
_DECIMAL_OF_SECONDS = ColumnType(f"Decimal(38, {_NANOSECONDS})")


def to_time_of_day(casting: ServerCasting, value: str, source: ColumnType, target: ColumnType) -> Cast:
    """Cast times of day, which files give as moments of 1970-01-01; one beyond that day would become another."""
    is_shorter = (source.name, target.bare.name) == ("Time64", "Time")
    # Servers have no cast for that (70, seen on 26.9).
    read = f"toInt64({value})" if is_shorter else value
    made = f"CAST({read}, {literal(f'Nullable({target.bare})' if casting.function == OR_NULL else target.text)})"
    lost = f"{seconds_of(value, source)} - {seconds_of(made, target.bare)}"
    return Cast(made, f"abs({lost}) < {_unit(target.bare.scale)}" if casting.is_lossy else f"{lost} = 0")


def compared(casting: ServerCasting, value: str, source: ColumnType, target: ColumnType) -> Cast:
    """Compare with the original value, if the server compares both types exactly."""
    made = casting.to(value, target)
    same = f"{made} = {value}"
    return Cast(made, f"{same} AND {in_range(made, source, target.bare)}" if target.bare.name == "DateTime64" else same)


def in_range(made: str, source: ColumnType, target: ColumnType) -> str:
    """Return the condition that a time is within the calendar: ClickHouse shows others as its first or last year."""
    # A cast to a type without a zone keeps that of what was cast.
    zone = target.time_zone or source.time_zone
    shown_as = f"DateTime64({target.scale}{f', {literal(zone)}' if zone else ''})"
    edges = f"toYear({made}) NOT IN ({', '.join(map(str, _EDGES_OF_CALENDARS))})"
    return f"({edges} OR accurateCastOrNull(toString({made}), {literal(shown_as)}) = {made})"


def time_to_date(casting: ServerCasting, value: str, source: ColumnType, target: ColumnType) -> Cast:
    """Cast midnight, or any time of the day if that may be lost."""
    if not casting.is_lossy:
        return cast_back(casting, value, source, target)
    made = casting.to(value, target)
    after, then = (f"[toYear({date}), toMonth({date}), toDayOfMonth({date})]" for date in (made, value))
    same = f"{after} = {then}"
    return Cast(made, f"{same} AND {in_range(value, source, source)}" if source.name == "DateTime64" else same)


def date_to_time(casting: ServerCasting, value: str, source: ColumnType, target: ColumnType) -> Cast:
    """Cast to midnight; if the column's calendar has none on that day, the server takes another moment."""
    made = casting.to(value, target)
    is_midnight = " AND ".join(f"{function}({made}) = 0" for function in ("toHour", "toMinute", "toSecond"))
    return Cast(made, f"toDate32({made}) = toDate32({value}) AND {is_midnight}")


def time_to_time(casting: ServerCasting, value: str, source: ColumnType, target: ColumnType) -> Cast:
    """Cast to another scale or zone."""
    other = target.bare
    if casting.function == OR_NULL and source.scale < other.scale:
        # The server's own conversion fails where ticks take more than 64 bits.
        most = _MOST_TICKS // 10**other.scale
        made = f"if(abs({seconds_of(value, source)}) < {most}, {casting.to(value, target)}, NULL)"
        return Cast(made, in_range(made, source, other))
    if not casting.is_lossy or source.scale <= other.scale:
        return compared(casting, value, source, target)
    made = casting.to(value, target)
    lost = f"{seconds_of(value, source)} - {seconds_of(made, other)}"
    if other.name == "DateTime":
        # Nothing is before 1970 there.
        return Cast(made, f"{lost} >= 0 AND {lost} < 1")
    return Cast(made, f"abs({lost}) < {_unit(other.scale)} AND {in_range(made, source, other)}")


def seconds_of(time: str, of: ColumnType) -> str:
    """Return the seconds of a time, with all digits, as a decimal."""
    whole = {"DateTime": f"toUnixTimestamp({time})", "Time": f"toInt64({time})"}
    return f"toDecimal128({whole.get(of.name, time)}, {_NANOSECONDS})"


def _unit(scale: int) -> str:
    return f"toDecimal128('1e-{scale}', {_NANOSECONDS})"


def time_to_integer(casting: ServerCasting, value: str, source: ColumnType, target: ColumnType) -> Cast:
    """Cast to seconds."""
    # Straight to a narrower integer, it fails where it should be NULL; to wider ones servers have no cast.
    is_wide = target.bare.text.lstrip("U") in ("Int128", "Int256")
    ticks = casting.to(value, ColumnType("Nullable(Int64)")) if is_wide or casting.function == OR_NULL else value
    made = casting.to(ticks, target)
    seconds = ticks if is_wide else made
    if source.name in TIMES_OF_DAY and not casting.is_lossy:
        return Cast(made, f"{seconds_of(value, source)} = {seconds}")
    if not casting.is_lossy or not source.scale:
        return Cast(made, is_back(seconds, value, source))
    return Cast(made, f"abs({seconds_of(value, source)} - toDecimal128({seconds}, {_NANOSECONDS})) < 1")


def time_to_decimal(casting: ServerCasting, value: str, source: ColumnType, target: ColumnType) -> Cast:
    """Cast the seconds, as a decimal with all digits."""
    return to_decimal(casting, seconds_of(value, source), _DECIMAL_OF_SECONDS, target)


def time_to_float(casting: ServerCasting, value: str, source: ColumnType, target: ColumnType) -> Cast:
    """Cast whole seconds: with parts of a second the server's last digit may not be the nearest."""
    made = casting.to(value, target)
    lost = f"{seconds_of(value, source)} - toDecimal128(toInt64({made}), {_NANOSECONDS})"
    return Cast(made, f"abs({lost}) < 1" if casting.is_lossy else f"{lost} = 0")


def number_to_time(casting: ServerCasting, value: str, source: ColumnType, target: ColumnType) -> Cast:
    """Cast seconds with fractions, which the server truncates."""
    other = target.bare
    number = Cast(value)
    if source.name in FLOATS:
        number = float_to_decimal(casting, value, source, ColumnType(f"Decimal(38, {other.scale})"))
    made = casting.to(number.value, target)
    conditions = [number.holds, f"{seconds_of(made, other)} = {number.value}"]
    if other.name == "DateTime64":
        conditions.append(in_range(made, source, other))
    return Cast(made, all_hold(conditions))


def never(casting: ServerCasting, value: str, source: ColumnType, target: ColumnType) -> Cast:
    """Refuse what the server would convert to a moment of 1970, or to true."""
    # No cast of the value: servers lack some of them (70), also for a column of nothing but NULLs.
    may_be_null = target.holds_null or casting.function == OR_NULL
    bare = target.bare.text
    made = f"CAST(NULL, {literal(f'Nullable({bare})')})" if may_be_null else f"defaultValueOfTypeName({literal(bare)})"
    return Cast(made, "0")
