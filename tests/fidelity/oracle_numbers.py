"""Numbers: which may become what in a column of numbers."""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tests.fidelity.column_types import Type
from tests.fidelity.sources import (
    Clock,
    Day,
    Exact,
    Flag,
    Moment,
    Number,
    Reading,
    Real,
    Text,
    Verdict,
    Whole,
    fits,
    may,
    refused,
)
from tests.fidelity.values import as_decimal, round32

_WHOLE = re.compile(r"-?(0|[1-9]\d*)")
_PLAIN = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_LOOSE = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
_SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_LOOSE_SPECIAL = {"+inf": math.inf, "infinity": math.inf, "-infinity": -math.inf, "+nan": math.nan, "-nan": math.nan}
_TRUTHS = {"true": True, "false": False, "1": True, "0": False}
_LOOSE_TRUTHS = {"t": True, "f": False, "yes": True, "no": False, "y": True, "n": False, "on": True, "off": False}
#: Binary digits, by the width in bits; a BFloat16 has 8.
_DIGITS_OF_FLOATS = {32: 24, 64: 53}


def judge(source: Any, of: Type, reading: Reading) -> Verdict:
    """As `oracle.judge`, for integers, floats, decimals and Bool."""
    if isinstance(source, Moment | Clock | Day):
        return _of_time(source, of)
    if of.kind == "Bool":
        return _bool(source, reading)
    if isinstance(source, Flag):
        return may("a boolean as a number", *_values(Fraction(int(source.is_true)), of))
    found = _exact(source, of, reading)
    if isinstance(found, Verdict):
        return found
    number, must_load, why = found
    if isinstance(source, Text | Number) and of.kind == "Float" and of.bits == 64 and 2**53 <= abs(number) < 10**19:
        return may("digits of a text that a double has not", float(number))
    verdict = _of_real(number, source, of) if isinstance(number, float) else _of_exact(number, of)
    return verdict if must_load or not verdict.values else may(why, *verdict.values)


def _of_time(source: Moment | Clock | Day, of: Type) -> Verdict:
    """Its seconds, or its days."""
    numbers = [Fraction(source.days)] if isinstance(source, Day) else [source.seconds]
    if isinstance(source, Day) and source.is_date64:
        numbers.append(Fraction(source.days * 86_400))
    if of.kind == "Bool":
        values: list[Any] = [bool(number) for number in numbers if number in (0, 1)]
    else:
        values = [value for number in numbers for value in _values(number, of)]
    return may("a time as a number", *values) if values else refused("the column holds no such number")


def _exact(source: Any, of: Type, reading: Reading) -> Verdict | tuple[Fraction | float, bool, str]:
    """The number, whether a load must take it, and why not."""
    if isinstance(source, Whole):
        is_rounded = of.kind in ("Float", "BFloat16") and abs(source.number) > 2 ** _DIGITS_OF_FLOATS.get(of.bits, 8)
        return Fraction(source.number), not is_rounded, "a whole number that is rounded"
    if isinstance(source, Exact):
        return Fraction(source.number), of.kind != "Float", "a decimal as a float"
    if isinstance(source, Real) and _is_integer(of) and of.bits > 64 and 2**63 <= abs(source.number) < math.inf:
        return Fraction(source.number), False, "a float that servers cast to no wide integer exactly"
    if isinstance(source, Real):
        return (source.number if not math.isfinite(source.number) else _real(source.number, of)), True, ""
    if isinstance(source, Number):
        if source.text.startswith("-") and not Fraction(source.text) and of.kind in ("Float", "BFloat16"):
            return -0.0, True, ""
        return Fraction(source.text), bool(_WHOLE.fullmatch(source.text)) or not _is_integer(of), "another notation"
    if isinstance(source, Text):
        return _of_text(source.raw.decode(errors="replace"), of, reading)
    return refused("no number")


def _of_text(text: str, of: Type, reading: Reading) -> Verdict | tuple[Fraction | float, bool, str]:
    if text.strip().lower() in _SPECIAL | _LOOSE_SPECIAL:
        number = (_SPECIAL | _LOOSE_SPECIAL)[text.strip().lower()]
        return number, text in _SPECIAL and reading.is_text, "another notation"
    if not _LOOSE.fullmatch(text):
        return refused("no number")
    usual = _WHOLE if _is_integer(of) else _PLAIN
    usual_decimal = of.kind != "Decimal" or "e" not in text.lower()
    is_usual = bool(usual.fullmatch(text)) and usual_decimal and not (text == "-0" and of.kind == "UInt")
    if text.strip().startswith("-") and not Fraction(text) and of.kind in ("Float", "BFloat16"):
        return -0.0, reading.is_text and is_usual, "another notation"
    return Fraction(text), reading.is_text and is_usual, "another notation"


def _is_integer(of: Type) -> bool:
    return of.kind in ("Int", "UInt")


def _real(number: float, of: Type) -> Fraction | float:
    """A finite float: as it is for floats and decimals, which need to know that it is one."""
    return Fraction(number) if _is_integer(of) else number


def _of_real(number: float, source: Any, of: Type) -> Verdict:
    """A float, or what is no finite number."""
    if of.kind == "Decimal":
        return _nearest_decimal(number, of)
    if _is_integer(of):
        return refused("no finite number")
    if not math.isfinite(number) or number == 0:
        return fits(number)
    return _of_exact(Fraction(number), of)


def _nearest_decimal(number: float, of: Type) -> Verdict:
    """The nearest decimal of the column's scale, if it is the same float again."""
    if not math.isfinite(number):
        return refused("no finite number")
    unscaled = round(Fraction(number) * 10**of.scale)
    if abs(unscaled) >= 10**of.precision:
        return refused("more digits than the column has")
    value = as_decimal(unscaled, of.scale)
    if float(Fraction(value)) != number and round32(float(Fraction(value))) != number:
        return refused("digits beyond the scale")
    # Beyond a double's own digits, any will do that make the same double.
    other = round(number * 10.0**of.scale)
    also = [as_decimal(other, of.scale)] if float(Fraction(other, 10**of.scale)) == number else []
    shortest = Fraction(repr(number)) * 10**of.scale
    also += [as_decimal(int(shortest), of.scale)] if shortest.denominator == 1 else []
    if abs(unscaled) >= 2**63:
        return may("more digits than 64 bits have", value, *also)
    return fits(value, *also) if float(Fraction(value)) == number else may("a float32 as a decimal", value)


def _of_exact(number: Fraction, of: Type) -> Verdict:
    values = _values(number, of)
    return fits(*values) if values else refused("the column holds no such number")


def _values(number: Fraction, of: Type) -> tuple[Any, ...]:
    if of.kind in ("Float", "BFloat16"):
        return _floats(number, of)
    if of.kind == "Decimal":
        unscaled = number * 10**of.scale
        is_held = unscaled.denominator == 1 and abs(unscaled) < 10**of.precision
        return (as_decimal(int(unscaled), of.scale),) if is_held else ()
    low, high = of.limits
    return (int(number),) if number.denominator == 1 and low <= number <= high else ()


def _floats(number: Fraction, of: Type) -> tuple[float, ...]:
    """The nearest floats. None where a whole number would lose digits, or anything would become infinite."""
    try:
        double = float(number)
    except OverflowError:
        return ()
    if of.bits == 64:
        is_lost = number.denominator == 1 and abs(number) >= 2**53 and Fraction(double) != number
        return () if is_lost and abs(number) < 10**19 else (double,)
    if of.kind == "BFloat16":
        return _bfloats(double)
    nearest = round32(double)
    if math.isinf(nearest) and not math.isinf(double):
        return ()
    # Through a double it is rounded twice, which may be the other neighbour.
    neighbours = {nearest, *(_next32(nearest, step) for step in (-1, 1))}
    best = min(neighbours, key=lambda each: abs(Fraction(each) - number) if math.isfinite(each) else math.inf)
    return tuple({nearest, best})


def _bfloats(double: float) -> tuple[float, ...]:
    """Those around it: the servers have cut and rounded, by version."""
    (bits,) = struct.unpack("<I", struct.pack("<f", round32(double)))
    cut = bits & 0xFFFF0000
    context = [cut] if bits == cut else [cut, cut + 0x10000]
    values = [float(struct.unpack("<f", struct.pack("<I", each))[0]) for each in context]
    return tuple(value for value in values if math.isfinite(value))


def _next32(number: float, step: int) -> float:
    (bits,) = struct.unpack("<i", struct.pack("<f", number))
    try:
        return float(struct.unpack("<f", struct.pack("<i", bits + step))[0])
    except struct.error:
        return number


def _bool(source: Any, reading: Reading) -> Verdict:
    if isinstance(source, Flag):
        return fits(source.is_true)
    if isinstance(source, Whole | Number | Real | Exact):
        number = Fraction(getattr(source, "text", None) or source.number) if _is_finite(source) else None
        return may("a number as a boolean", bool(number)) if number in (0, 1) else refused("no boolean")
    if isinstance(source, Text):
        text = source.raw.decode(errors="replace")
        if text in _TRUTHS:
            return fits(_TRUTHS[text]) if reading.is_text else may("text as a boolean", _TRUTHS[text])
        loose = (_TRUTHS | _LOOSE_TRUTHS).get(text.strip().lower())
        return refused("no boolean") if loose is None else may("another notation", loose)
    return refused("no boolean")


def _is_finite(source: Any) -> bool:
    number = getattr(source, "number", 0)
    return number.is_finite() if isinstance(number, Decimal) else math.isfinite(number)
