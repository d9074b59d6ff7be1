"""Values that the reader of a server may have altered: nothing shows what is in the file, so each is refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Alteration:
    """How values of one type may differ from those of their file.

    Args:
        type: Name of the type as which they are read.
        kept: Condition that a value is that of the file, with `{value}` in its place.
        shown: What messages have in the place of the value.
    """

    type: str
    kept: str
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
        f"{_IN_RANGE}",
        "a time beyond the years 1678 to 2261, which nanoseconds do not hold",
    ),
    "fine": Alteration("DateTime64", f"(toUnixTimestamp64Nano({{value}}) % 100 = 0 OR NOT {_IN_RANGE})", ""),
}


def kept_of(value: str, of_type: str, alterations: Iterable[str]) -> Iterator[str]:
    """Return the conditions that a value is that of the file."""
    for alteration in alterations:
        if ALTERATIONS[alteration].type == of_type:
            yield ALTERATIONS[alteration].kept.format(value=value)
