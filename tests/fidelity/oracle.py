"""The right outcome of a file's value in a column: exactly this value, one of these, or an error.

The rule: a value that the column cannot hold as it is written is an error. It is applied here with Python alone, by
what pyarrow, csv and json read. `may` says where a refusal would be as good; each says why.
"""

from __future__ import annotations

import ipaddress
import math
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tests.fidelity import notation, oracle_numbers, oracle_times
from tests.fidelity.column_types import Type
from tests.fidelity.oracle_json import JsonText, judge_json
from tests.fidelity.sources import (
    MISSING,
    Exact,
    Flag,
    Many,
    Number,
    Pairs,
    Reading,
    Real,
    Same,
    Struct,
    Text,
    Verdict,
    Whole,
    fits,
    may,
    refused,
    together,
)
from tests.fidelity.values import Alike, round32, same

_NUMBERS = ("Int", "UInt", "Float", "BFloat16", "Decimal", "Bool")
_TIMES = ("Date", "Date32", "DateTime", "DateTime64", "Time", "Time64")


def judge(source: Any, of: Type, reading: Reading) -> Verdict:
    """The allowed outcomes of a value."""
    if isinstance(source, Same):
        return may("a type that the format lacks", source.value) if source.is_foreign else fits(source.value)
    if verdict := _hidden(source, of, reading):
        return verdict
    if source is MISSING or source is None:
        return _null(source, of, reading)
    if reading.is_text:
        source, verdict = _text_field(source, of, reading)
        if verdict:
            return verdict
    bare = of.bare
    if bare.kind in ("JSON", "Dynamic", "Variant"):
        return judge_json(source, bare, reading)
    if bare.kind in ("Array", "Map", "Tuple"):
        return _CONTAINERS[bare.kind](source, bare, reading)
    if bare.kind in _NUMBERS:
        return oracle_numbers.judge(source, bare, reading)
    if bare.kind in _TIMES:
        return oracle_times.judge(source, bare, reading)
    return _OTHERS[bare.kind](source, bare, reading)


def _hidden(source: Any, of: Type, reading: Reading) -> Verdict | None:
    """Lists and structs that are NULL, which ClickHouse does not distinguish; docs/reference/values.md says so."""
    if reading.hides_nulls and of.holds_null and of.bare.kind == "Tuple" and _is_of_nulls(source):
        return refused("a struct of NULLs, or NULL, of Parquet")
    is_null = source is None and reading.family == "arrow"
    return _empty(of.bare) if is_null and of.bare.kind in _CONTAINERS and not of.holds_null else None


def _null(source: Any, of: Type, reading: Reading) -> Verdict:
    if source is None and reading.family == "json" and of.kind == "Dynamic":
        return may("a null of JSON, which ClickHouse reads into no Dynamic column", None)
    return fits(None) if of.holds_null else refused("NULL, or missing, in a column that cannot hold it")


def _text_field(field: Text, of: Type, reading: Reading) -> tuple[Any, Verdict | None]:
    """NULLs and empty fields of CSV and TSV; and containers, whose notation is ClickHouse's."""
    is_string = of.bare.kind in ("String", "FixedString")
    empty = {"Dynamic": [""], "Variant": [b""]}
    if field.raw == b"\\N" and reading.family == "csv":
        return field, _name_of_null(field, of)
    if field.raw == b"" and not is_string and ("", 0) not in [(name, 0) for name, _ in of.bare.values]:
        if field.is_quoted and of.kind in empty:
            return field, may("an empty text", *empty[of.kind])
        if field.is_quoted or not of.holds_null:
            return field, refused("an empty field in a column that has no empty value")
        if reading.family == "tsv":
            return field, may("TSV writes NULL as \\N", None, *empty.get(of.kind, []))
        return field, fits(None)
    if field.raw == b"" and not field.is_quoted and of.holds_null and reading.family == "csv":
        return field, fits(None)
    if of.bare.kind in ("Array", "Map", "Tuple"):
        parsed = notation.parse(field.written or field.raw)
        if parsed is notation.INVALID and field.raw == b"[1,]":
            return field, may("a comma that nothing follows", *judge(Text(b"[1]"), of, reading).values)
        return parsed, refused("no such notation") if parsed is notation.INVALID else None
    return field, None


def _name_of_null(field: Text, of: Type) -> Verdict:
    """The mark of NULL in CSV, quoted or not; for Python's csv it is text."""
    also = [None] if of.holds_null else []
    if field.is_quoted and "\\N" in dict(of.bare.values):
        return may("the quoted name of NULL", "\\N", *also)
    if of.holds_null:
        return may("the quoted name of NULL", None, b"\\N") if field.is_quoted else fits(None)
    return may("the name of NULL", b"\\N") if of.bare.kind == "String" else refused("NULL")


def _empty(of: Type) -> Verdict:
    """Return the outcome of a list or struct that is NULL."""
    if of.kind != "Tuple":
        return may("a list that is NULL is an empty one", ())
    inner = [fits(None) if each.holds_null else _empty(each.bare) for each in of.inner if _has_empty(each)]
    all_have = len(inner) == len(of.inner)
    return may("a struct that is NULL", *together(inner).values) if all_have else refused("a struct that is NULL")


def _is_of_nulls(source: Any) -> bool:
    if isinstance(source, Struct):
        return all(_is_of_nulls(value) for _, value in source.fields)
    # A list that is NULL is read as an empty one.
    return source is None or (isinstance(source, Many) and not source.elements) or source == Pairs(())


def _has_empty(of: Type) -> bool:
    return of.holds_null or of.bare.kind in _CONTAINERS


def _array(source: Any, of: Type, reading: Reading) -> Verdict:
    if not isinstance(source, Many):
        return refused("no list")
    inner = _within(reading)
    return together([judge(element, of.inner[0], inner) for element in source.elements])


def _map(source: Any, of: Type, reading: Reading) -> Verdict:
    if isinstance(source, Struct):
        source = Pairs(tuple((Text(name.encode()), each) for name, each in source.fields))
    if not isinstance(source, Pairs):
        return refused("no map")
    key_type, value_type = of.inner
    inner = _within(reading)
    pairs = []
    for key, each in source.pairs:
        # A key of JSON is text, whatever it stands for.
        judged = judge(key, key_type, Reading("csv") if reading.family == "json" else inner)
        pairs.append(together([judged, judge(each, value_type, inner)]))
    verdict = together(pairs)
    keys = [key for key, _ in source.pairs]
    return may("a key twice", *verdict.values) if len(set(map(repr, keys))) < len(keys) else verdict


def _tuple(source: Any, of: Type, reading: Reading) -> Verdict:
    inner = _within(reading)
    if isinstance(source, Many) and len(source.elements) == len(of.inner):
        return together([judge(each, kind, inner) for each, kind in zip(source.elements, of.inner, strict=True)])
    if not isinstance(source, Struct):
        return refused("no struct")
    names = [name for name, _ in source.fields]
    if not of.names:
        by_place = [judge(each, kind, inner) for (_, each), kind in zip(source.fields, of.inner, strict=False)]
        verdict = together(by_place)
        same_size = len(names) == len(of.inner)
        return may("a tuple without names", *verdict.values) if same_size else refused("another number of elements")
    fields = dict(source.fields)
    if any(name not in fields for name in of.names):
        nulls = [judge(fields.get(name, MISSING), kind, inner) for name, kind in zip(of.names, of.inner, strict=True)]
        return may("a field is missing", *together(nulls).values)
    verdict = together([judge(fields[name], kind, inner) for name, kind in zip(of.names, of.inner, strict=True)])
    if len(names) > len(of.names):
        return may("a field too many", *verdict.values)
    return verdict


def _within(reading: Reading) -> Reading:
    """Elements of CSV's containers are written as ClickHouse writes literals."""
    return Reading("literal", reading.naive_timestamps) if reading.is_text else reading


def _string(source: Any, of: Type, reading: Reading) -> Verdict:
    if isinstance(source, Text):
        return _sized(fits(source.raw), source.raw, of)
    if isinstance(source, Number):
        return _sized(may("a number as text", source.text.encode()), source.text.encode(), of)
    if isinstance(source, Whole):
        written = str(source.number).encode()
        return _sized(may("a number as text", written), written, of)
    if isinstance(source, Real | Exact):
        return _sized_number(source.number, of)
    if isinstance(source, Flag):
        names = (b"true", b"1") if source.is_true else (b"false", b"0")
        return may("a boolean as text", *(name.ljust(of.length, b"\0") for name in names))
    if isinstance(source, Struct | Many) and reading.family == "json":
        return may("an object or a list as its text", JsonText(source))
    return refused("no text")


def _sized(verdict: Verdict, raw: bytes, of: Type) -> Verdict:
    if of.kind == "String":
        return verdict
    if len(raw) > of.length:
        return refused("longer than the column")
    return Verdict((raw.ljust(of.length, b"\0"),), verdict.must_load, verdict.why)


class _NumberText(Alike):
    """The text of a number, however it is written."""

    def __init__(self, number: float | Decimal, length: int) -> None:
        self._number, self._length = number, length

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, bytes) or (self._length and len(other) != self._length):
            return False
        try:
            found = type(self._number)(other.rstrip(b"\0").decode())
        except (ValueError, ArithmeticError):
            return False
        if isinstance(found, float):
            return same(found, self._number) or same(round32(found), self._number)
        return found == self._number

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"the text of {self._number!r}"


def _sized_number(number: float | Decimal, of: Type) -> Verdict:
    return may("a number as text", _NumberText(number, of.length if of.kind == "FixedString" else 0))


def _uuid(source: Any, of: Type, reading: Reading) -> Verdict:
    if not isinstance(source, Text):
        return refused("no UUID")
    text = source.raw.decode(errors="replace")
    if len(source.raw) == 16 and reading.family == "arrow":
        return may("16 bytes may be a UUID", uuid.UUID(bytes=source.raw))
    try:
        value = uuid.UUID(text)
    except ValueError:
        return refused("no UUID")
    return fits(value) if str(value) == text else may("another notation", value)


def _ip(source: Any, of: Type, reading: Reading) -> Verdict:
    make = ipaddress.IPv4Address if of.kind == "IPv4" else ipaddress.IPv6Address
    if isinstance(source, Whole):
        is_address = 0 <= source.number < 2**32 and of.kind == "IPv4"
        return may("a number may be an address", make(source.number)) if is_address else refused("no address")
    if not isinstance(source, Text):
        return refused("no address")
    if len(source.raw) == 16 and reading.family == "arrow" and of.kind == "IPv6":
        return may("16 bytes may be an address", make(source.raw))
    text = source.raw.decode(errors="replace")
    try:
        value = make(text)
    except ValueError:
        return _mapped(text) if of.kind == "IPv6" else refused("no address")
    if getattr(value, "scope_id", None):
        return refused("no address")
    return fits(value) if str(value) == text else may("another notation", value)


def _mapped(text: str) -> Verdict:
    try:
        number = int(ipaddress.IPv4Address(text))
    except ValueError:
        return refused("no address")
    return may("an address of version 4", ipaddress.IPv6Address(0xFFFF << 32 | number))


def _enum(source: Any, of: Type, reading: Reading) -> Verdict:
    by_number = {value: name for name, value in of.values}
    if isinstance(source, Text):
        name = source.raw.decode(errors="replace")
        if name in dict(of.values):
            return fits(name)
        number = int(name) if name.lstrip("-").isascii() and name.lstrip("-").isdigit() else None
    else:
        number = _number_of(source)
    return may("the number of a value", by_number[number]) if number in by_number else refused("no value of the Enum")


def _number_of(source: Any) -> int | None:
    if isinstance(source, Whole):
        return source.number
    if isinstance(source, Number | Exact) or (isinstance(source, Real) and math.isfinite(source.number)):
        number = Fraction(source.text if isinstance(source, Number) else source.number)
        return int(number) if number.denominator == 1 else None
    return None


_CONTAINERS = {"Array": _array, "Map": _map, "Tuple": _tuple}
_OTHERS = {"String": _string, "FixedString": _string, "UUID": _uuid, "IPv4": _ip, "IPv6": _ip, "Enum": _enum}
