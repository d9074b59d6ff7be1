"""The server's own conversions, the families of types that are converted alike, and what readers alter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from airflow_provider_chs3.core.sql.column_types import ColumnType
from airflow_provider_chs3.core.sql.quoting import literal

FLOATS = ("Float32", "Float64", "BFloat16")
DATES = ("Date", "Date32")
TIMES = ("DateTime", "DateTime64")
TIMES_OF_DAY = ("Time", "Time64")
ENUMS = ("Enum8", "Enum16")
TEXTS = ("String", "FixedString")

#: Gives NULL for what does not fit.
OR_NULL = "accurateCastOrNull"


@dataclass(frozen=True)
class Cast:
    """A value as another type."""

    value: str
    holds: str | None = None


@dataclass(frozen=True)
class ServerCasting:
    """The way in which single values are cast."""

    #: `accurateCast`, which fails, or `accurateCastOrNull`, which gives NULL for what does not fit.
    function: str = "accurateCast"
    #: Whether these may be lost: digits beyond the scale of a Decimal, parts of a second, the time of day.
    is_lossy: bool = False
    #: What the reader may have altered, as keys of `ALTERATIONS`.
    altered: tuple[str, ...] = ()

    def to(self, value: str, target: ColumnType) -> str:
        """Return the server's own conversion."""
        # A wrapped type cannot be NULL where it does not fit.
        text = target.bare.text if self.function == OR_NULL else target.text
        return f"{self.function}({value}, {literal(text)})"


def is_integer(of: ColumnType) -> bool:
    """Check whether a type is an integer."""
    return of.name.startswith(("Int", "UInt")) and of.name.lstrip("U")[3:].isdecimal()


def cast_back(casting: ServerCasting, value: str, source: ColumnType, target: ColumnType) -> Cast:
    """Cast a value back to its original type."""
    made = casting.to(value, target)
    return Cast(made, is_back(made, value, source))


def is_back(made: str, value: str, source: ColumnType) -> str:
    """Return the condition that casting back gives the original value."""
    return f"CAST({made}, {literal(f'Nullable({source.text})')}) = {value}"


def all_hold(conditions: Iterable[str | None]) -> str | None:
    """Join conditions that must all hold; None if all of them always hold."""
    return " AND ".join(filter(None, conditions)) or None


@dataclass(frozen=True)
class Alteration:
    """The way in which values of one type may differ from those of their file."""

    type: str
    #: Condition that a value is that of the file, with `{value}` in its place.
    kept: str
    #: What messages have in the place of the value.
    shown: str


#: Not the first or the last that 64 bits of nanoseconds hold.
_IN_RANGE = "toUnixTimestamp64Nano({value}) NOT IN (9223372036854775807, -9223372036854775808)"

#: `date64`: a day of Arrow's, which becomes seconds of 32 bits: those that wrap around are never midnight.
#: `half`: a float of 16 bits. Before 26.9, all below 2⁻¹⁴ but powers of two become others, which are multiples of 2⁻²⁵.
#: `wrapped`: a time of ORC. Before 26.9, its nanoseconds wrap around at 64 bits, and are no whole microseconds then.
#: `saturated`: a time of ORC. Since 26.9, one that nanoseconds of 64 bits do not hold is an error, or the last of them.
#: `fine`: a time of ORC of less than 100 nanoseconds, which the reader cuts off where it is asked for coarser ones.
ALTERATIONS = {
    "date64": Alteration(
        "DateTime", "toUnixTimestamp({value}) % 86400 = 0", "a day before 1970 or after 2105, which servers do not read"
    ),
    "half": Alteration(
        "Float32",
        "NOT (abs({value}) < 6.103515625e-5 AND toFloat64({value}) * 33554432 = trunc(toFloat64({value}) * 33554432) "
        "AND bitAnd(reinterpretAsUInt32({value}), 8388607) != 0)",
        "a float below 0.000061, which servers before 26.9 change if it has 16 bits",
    ),
    "wrapped": Alteration(
        "DateTime64",
        "toUnixTimestamp64Nano({value}) % 1000 = 0",
        "a time with nanoseconds, or one beyond the years 1678 to 2261, which servers before 26.9 do not tell apart",
    ),
    "saturated": Alteration(
        "DateTime64",
        _IN_RANGE,
        "a time beyond the years 1678 to 2261, which nanoseconds do not hold",
    ),
    "fine": Alteration("DateTime64", f"(toUnixTimestamp64Nano({{value}}) % 100 = 0 OR NOT {_IN_RANGE})", ""),
}


def kept_of(value: str, of_type: str, alterations: Iterable[str]) -> Iterator[str]:
    """Return the conditions that a value is that of the file."""
    for alteration in alterations:
        if ALTERATIONS[alteration].type == of_type:
            yield ALTERATIONS[alteration].kept.format(value=value)
