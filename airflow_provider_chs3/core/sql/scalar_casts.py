"""Cast one number, text, date or time to another type, with the condition that nothing was lost.

ClickHouse's own conversions drop what does not fit. So each cast here comes with a condition that the value is still
the one of the file: usually it casts back and compares. A lossy cast drops digits beyond the scale of a Decimal, parts
of a second and the time of day; everything else is compared nevertheless.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_chs3.core.sql import number_casts, time_casts
from airflow_provider_chs3.core.sql.altered_values import kept_of
from airflow_provider_chs3.core.sql.column_types import ColumnType
from airflow_provider_chs3.core.sql.quoting import literal
from airflow_provider_chs3.core.sql.server_casts import (
    DATES,
    ENUMS,
    FLOATS,
    OR_NULL,
    TEXTS,
    TIMES,
    TIMES_OF_DAY,
    Cast,
    ServerCasting,
    all_hold,
    cast_back,
    is_integer,
)
from airflow_provider_chs3.core.sql.text_casts import holds_of_text, without_midnight

#: Types with fractions.
_FRACTIONS = (*FLOATS, "Decimal")
_ALL_TIMES = (*DATES, *TIMES, *TIMES_OF_DAY)


@dataclass(frozen=True)
class ScalarCasting(ServerCasting):
    """The way in which single values are cast so that no loss goes unnoticed."""

    def scalar(self, value: str, source: ColumnType, target: ColumnType) -> Cast:
        """Cast a value to the target's type."""
        made = self._scalar(value, source, target)
        return Cast(made.value, all_hold((*kept_of(value, source.name, self.altered), made.holds)))

    def _scalar(self, value: str, source: ColumnType, target: ColumnType) -> Cast:
        other = target.bare
        made = self.to(value, target)
        if source.text == other.text:
            return Cast(made, time_casts.in_range(made, source, other) if other.name == "DateTime64" else None)
        if source.name == "FixedString" and other.name in TEXTS:
            # The server's own conversion drops zero bytes at the end, and fails over a file without a row.
            return Cast(self.to(f"concat({value}, '')", target))
        if source.name == "DateTime64" and other.name in TEXTS:
            # Beyond the calendar the text is that of its first or last moment.
            text = self._scalar(f"toString({value})", ColumnType("String"), target)
            return Cast(text.value, all_hold((time_casts.in_range(value, source, source), text.holds)))
        if other.name == "FixedString" and source.name not in TEXTS:
            # Servers cast nothing but texts to that.
            return self._scalar(f"toString({value})", ColumnType("String"), target)
        if source.name in DATES and other.name in _FRACTIONS:
            # By its days, as with integers: servers cast no Date32 to a Decimal (44).
            return self.scalar(f"toInt32({value})", ColumnType("Int32"), target)
        if source.name == "Decimal" and other.name in ("Time", "DateTime", *DATES, *ENUMS):
            # Servers have no such cast (44, 70).
            number = self._scalar(self.to(value, ColumnType("Nullable(Int64)")), ColumnType("Int64"), target)
            return Cast(number.value, all_hold((f"trunc({value}) = {value}", number.holds)))
        if source.name in TEXTS:
            return self._of_text(value, source, target)
        for applies, cast in _SCALARS:
            if applies(source, other):
                return cast(self, value, source, target)
        return Cast(made)

    def _of_text(self, value: str, source: ColumnType, target: ColumnType) -> Cast:
        other, parsed = target.bare, value
        if (source.name, other.name) == ("FixedString", "UUID"):
            # Bytes that a file declares as a UUID; others were refused before.
            return Cast(self.to(f"UUIDNumToString({value})", target))
        if other.name in DATES:
            parsed = value = without_midnight(value)
        if other.name == "DateTime" and (target.holds_null or self.function == OR_NULL):
            # Where NULL fits, 25.8 casts ClickHouse's own form alone.
            zone = f", {literal(other.time_zone)}" if other.time_zone else ""
            parsed = f"parseDateTimeBestEffortOrNull({value}{zone})"
        made = self.to(parsed, target)
        return Cast(made, holds_of_text(value, made, other, is_lossy=self.is_lossy))


#: Which pairs of types take more than the server's own conversion. The first that applies counts.
_SCALARS: tuple[
    tuple[Callable[[ColumnType, ColumnType], bool], Callable[[ServerCasting, str, ColumnType, ColumnType], Cast]], ...
] = (
    (lambda source, other: source.name in FLOATS and other.name in FLOATS, number_casts.to_float),
    (
        lambda source, other: other.name == "Bool" and (is_integer(source) or source.name in _FRACTIONS),
        number_casts.to_bool,
    ),
    (
        lambda source, other: (is_integer(source) or source.name in FLOATS) and other.name in ENUMS,
        number_casts.number_to_enum,
    ),
    (lambda source, other: source.name in ENUMS and other.name in ENUMS, number_casts.enum_to_enum),
    (lambda source, other: source.name in FLOATS and other.name == "Decimal", number_casts.float_to_decimal),
    (
        lambda source, other: other.name == "Decimal" and (source.name == "Decimal" or is_integer(source)),
        number_casts.to_decimal,
    ),
    (lambda source, other: source.name == "Decimal" and is_integer(other), number_casts.decimal_to_integer),
    (
        lambda source, other: source.name in (*TIMES, *TIMES_OF_DAY) and other.name in TIMES_OF_DAY,
        time_casts.to_time_of_day,
    ),
    (lambda source, other: source.name in TIMES_OF_DAY and other.name in (*DATES, *TIMES), time_casts.never),
    (lambda source, other: source.name == "Bool" and other.name in _ALL_TIMES, time_casts.never),
    (lambda source, other: source.name in _ALL_TIMES and other.name in ("Bool", *ENUMS), time_casts.never),
    (
        lambda source, other: source.name in (*TIMES, *TIMES_OF_DAY) and other.name == "Decimal",
        time_casts.time_to_decimal,
    ),
    (lambda source, other: source.name in (*TIMES, *TIMES_OF_DAY) and other.name in FLOATS, time_casts.time_to_float),
    (
        lambda source, other: source.name in _FRACTIONS and other.name in ("DateTime64", "Time64"),
        time_casts.number_to_time,
    ),
    (lambda source, other: source.name in TIMES and other.name in DATES, time_casts.time_to_date),
    (lambda source, other: source.name in TIMES and other.name in TIMES, time_casts.time_to_time),
    (lambda source, other: source.name in DATES and other.name in DATES, time_casts.compared),
    (lambda source, other: source.name in DATES and other.name in TIMES, time_casts.date_to_time),
    (lambda source, other: is_integer(source) and other.name in _ALL_TIMES, cast_back),
    (lambda source, other: source.name in (*TIMES, *TIMES_OF_DAY) and is_integer(other), time_casts.time_to_integer),
    (lambda source, other: source.name in DATES and is_integer(other), cast_back),
    (lambda source, other: is_integer(source) and other.name == "IPv4", number_casts.number_to_address),
)
