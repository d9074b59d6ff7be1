"""What files hold, as independent readers tell it, and what may become of it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

#: More combinations of acceptable elements are not looked at.
_MOST_COMBINATIONS = 64


@dataclass(frozen=True)
class Whole:
    """An integer."""

    number: int


@dataclass(frozen=True)
class Real:
    """A float of 16, 32 or 64 bits."""

    number: float


@dataclass(frozen=True)
class Exact:
    """A decimal."""

    number: Decimal


@dataclass(frozen=True)
class Flag:
    """A boolean."""

    is_true: bool


@dataclass(frozen=True)
class Text:
    """Text or bytes.

    Args:
        raw: Its bytes.
        is_quoted: For CSV: whether it stands in quotes.
        written: For TSV: the field with its escapes.
    """

    raw: bytes
    is_quoted: bool = False
    written: bytes = b""


@dataclass(frozen=True)
class Number:
    """A number of JSON, as it is written."""

    text: str


@dataclass(frozen=True)
class Day:
    """A date.

    Args:
        days: Since 1970.
        is_date64: Whether it is one of Arrow's `date64`, which ClickHouse reads as seconds of 32 bits.
    """

    days: int
    is_date64: bool = False


@dataclass(frozen=True)
class Moment:
    """A time stamp.

    Args:
        seconds: Since 1970, in UTC if `is_instant`, else on the clock of a zone that nobody names.
        is_instant: Whether it says which instant it means. None for INT96 of Parquet, of which nobody says whether it
            means UTC.
    """

    seconds: Fraction
    is_instant: bool | None


@dataclass(frozen=True)
class Clock:
    """A time of day, in seconds."""

    seconds: Fraction


@dataclass(frozen=True)
class Many:
    """A list."""

    elements: tuple[Any, ...]


@dataclass(frozen=True)
class Pairs:
    """A map, in its order."""

    pairs: tuple[tuple[Any, Any], ...]


@dataclass(frozen=True)
class Struct:
    """A struct, or an object of JSON: names in their order; an object may have one twice."""

    fields: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Same:
    """A value that ClickHouse itself wrote out of a column of the same type.

    Args:
        value: The value.
        is_foreign: The format lacks the type, so that the file may hold something else.
    """

    value: Any
    is_foreign: bool = False


class Missing:
    """A key that a line of JSON lacks."""

    def __repr__(self) -> str:
        return "missing"

    def __deepcopy__(self, memo: object) -> Missing:
        return self


MISSING = Missing()


@dataclass(frozen=True)
class Verdict:
    """What may become of a value.

    Args:
        values: Any of these may be published; none: the load must be refused.
        must_load: It must be published, a refusal is without need.
        why: Why it must not be published, or may be refused.
    """

    values: tuple[Any, ...]
    must_load: bool
    why: str = ""


def fits(*values: Any) -> Verdict:
    """It must load, and to one of these values."""
    return Verdict(values, True)


def may(why: str, *values: Any) -> Verdict:
    """It may be refused; if it loads, then to one of these values."""
    return Verdict(values, False, why)


def refused(why: str) -> Verdict:
    """It must be refused."""
    return Verdict((), False, why)


def together(verdicts: list[Verdict], make: Any = tuple) -> Verdict:
    """The verdict on a container by those on its elements."""
    for each in verdicts:
        if not each.values:
            return each
    combined = itertools.islice(itertools.product(*(each.values for each in verdicts)), _MOST_COMBINATIONS)
    why = next((each.why for each in verdicts if not each.must_load), "")
    return Verdict(tuple(map(make, combined)), all(each.must_load for each in verdicts), why)


@dataclass(frozen=True)
class Reading:
    """How a file is read.

    Args:
        family: `arrow`, `json`, `csv` or `tsv`.
        naive_timestamps: As the operator's argument.
        hides_nulls: Whether ClickHouse's reader takes a struct that is NULL for one of NULLs, as that of Parquet does.
    """

    family: str
    naive_timestamps: str = ""
    hides_nulls: bool = False

    @property
    def is_text(self) -> bool:
        """Whether values have no other notation than text."""
        return self.family in ("csv", "tsv")
