"""The server's own conversions, and the families of types that are converted alike."""

from __future__ import annotations

from collections.abc import Iterable
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
    """The way in which single values are cast.

    Args:
        function: `accurateCast`, which fails, or `accurateCastOrNull`, which gives NULL for what does not fit.
        is_lossy: Whether these may be lost: digits beyond the scale of a Decimal, parts of a second, the time of day.
        altered: What the reader may have altered, as keys of `ALTERATIONS`.
    """

    function: str = "accurateCast"
    is_lossy: bool = False
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
    """Join conditions that must all hold.

    Returns:
        One condition; None if all of them always hold.
    """
    return " AND ".join(filter(None, conditions)) or None
