"""The values of files by independent readers, and their allowed outcomes."""

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
    """Text or bytes."""

    raw: bytes
    is_quoted: bool = False
    written: bytes = b""


@dataclass(frozen=True)
class Number:
    """A number of JSON, as it is written."""

    text: str


@dataclass(frozen=True)
class Day:
    """A date."""

    days: int
    is_date64: bool = False


@dataclass(frozen=True)
class Moment:
    """A time stamp."""

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
    """A value that ClickHouse itself wrote out of a column of the same type."""

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
    """Return the allowed outcomes of a value."""

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
    for verdict in verdicts:
        if not verdict.values:
            return verdict
    combined = itertools.islice(itertools.product(*(verdict.values for verdict in verdicts)), _MOST_COMBINATIONS)
    why = next((verdict.why for verdict in verdicts if not verdict.must_load), "")
    return Verdict(tuple(map(make, combined)), all(verdict.must_load for verdict in verdicts), why)


@dataclass(frozen=True)
class Reading:
    """How a file is read."""

    family: str
    naive_timestamps: str = ""
    hides_nulls: bool = False

    @property
    def is_text(self) -> bool:
        """Whether values have no other notation than text."""
        return self.family in ("csv", "tsv")
