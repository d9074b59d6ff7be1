"""Columns of any type: JSON, Dynamic and Variant."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

from tests.fidelity.column_types import Type
from tests.fidelity.sources import (
    Flag,
    Many,
    Number,
    Pairs,
    Reading,
    Real,
    Struct,
    Text,
    Verdict,
    Whole,
    fits,
    may,
    refused,
)
from tests.fidelity.values import Alike


def judge_json(source: Any, of: Type, reading: Reading) -> Verdict:
    """As `oracle.judge`. Values of JSON are nested dicts and lists; of the others what they hold."""
    if of.kind == "JSON":
        return _object(source, reading)
    if of.kind == "Variant":
        return _variant(source, of)
    if isinstance(source, Text):
        return fits(_as_python(source))
    return may("of any type", _as_python(source), *_inferred(source))


def _object(source: Any, reading: Reading) -> Verdict:
    is_native = isinstance(source, Struct) and reading.family == "json"
    if isinstance(source, Text):
        try:
            source = from_json(json.loads(source.raw, parse_int=Number, parse_float=Number, object_pairs_hook=_pairs))
        except ValueError:
            return refused("no JSON")
    if isinstance(source, Pairs):
        source = Struct(tuple((key.raw.decode(), value) for key, value in source.pairs))
    if not isinstance(source, Struct):
        return refused("no object")
    value = leaves(_as_python(source))
    return fits(value) if is_native else may("text, or a struct, as JSON", value)


class _PairsOfObject(list[Any]):
    """An object's names and values, in their order."""


def _pairs(pairs: list[Any]) -> Any:
    return _PairsOfObject(pairs)


def parse_line(line: bytes) -> Any:
    """A line of JSON as a source value."""
    # ClickHouse writes the bytes of a string as they are.
    text = line.decode(errors="surrogateescape")
    return from_json(json.loads(text, parse_int=Number, parse_float=Number, object_pairs_hook=_pairs))


class JsonText(Alike):
    """Any bytes that are JSON of a source value, with its numbers as they are written."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __repr__(self) -> str:
        return f"the JSON of {self._source!r}"

    def __eq__(self, other: object) -> bool:
        try:
            return isinstance(other, bytes) and bool(parse_line(other.rstrip(b"\0")) == self._source)
        except ValueError:
            return False

    __hash__ = None  # type: ignore[assignment]


def from_json(node: Any) -> Any:
    """Return the value that json reads, as a source value."""
    if isinstance(node, _PairsOfObject):
        return Struct(tuple((name, from_json(value)) for name, value in node))
    if isinstance(node, list):
        return Many(tuple(map(from_json, node)))
    if isinstance(node, bool):
        return Flag(node)
    return Text(node.encode(errors="surrogateescape")) if isinstance(node, str) else node


def _as_python(source: Any) -> Any:
    if isinstance(source, Struct):
        return {name: _as_python(value) for name, value in source.fields}
    if isinstance(source, Many):
        return [_as_python(element) for element in source.elements]
    if isinstance(source, Flag):
        return source.is_true
    if isinstance(source, Text):
        return source.raw.decode(errors="replace")
    if isinstance(source, Number):
        return _number(source.text)
    if isinstance(source, Whole):
        return source.number
    if isinstance(source, Real):
        return source.number if math.isfinite(source.number) else repr(source.number)
    return source


def _number(text: str) -> Any:
    """An integer where it is written as one."""
    is_whole = text.lstrip("-").isdigit()
    return int(text) if is_whole else float(Fraction(text))


def _inferred(source: Any) -> tuple[Any, ...]:
    """Give what else may be in a Dynamic column: the text of a number, or the integer that a float is."""
    texts = (source.text,) if isinstance(source, Number) else ()
    number = _as_python(source)
    return (*texts, int(number)) if isinstance(number, float) and number.is_integer() else texts


def leaves(node: Any) -> Any:
    """A JSON column's value: its paths. It keeps neither NULLs nor empty objects, and a whole float is a number."""
    if isinstance(node, dict):
        inner = {name: leaves(value) for name, value in node.items() if value is not None}
        return {name: value for name, value in inner.items() if value != {}}
    if isinstance(node, list):
        return [leaves(each) for each in node]
    if isinstance(node, float) and node.is_integer() and abs(node) < 2**63:
        return int(node)
    return node


def _variant(source: Any, of: Type) -> Verdict:
    """Variant(Int64, String): numbers as numbers, text as text; text that is a number may be either."""
    if isinstance(source, Whole | Number):
        number = Fraction(getattr(source, "text", None) or source.number)
        is_held = number.denominator == 1 and -(2**63) <= number < 2**63
        text = str(getattr(source, "text", None) or source.number).encode()
        return may("of several types", *([int(number)] if is_held else []), text)
    if isinstance(source, Flag):
        return may("true is 1 to ClickHouse", int(source.is_true), b"true" if source.is_true else b"false")
    if isinstance(source, Many | Struct):
        return may("a list or an object of JSON is its text in a Variant with String", JsonText(source))
    if not isinstance(source, Text):
        return refused("none of its types")
    text = source.raw.decode(errors="replace")
    is_number = text.lstrip("-").isascii() and text.lstrip("-").isdigit() and str(int(text)) == text
    return may("of several types", source.raw, *([int(text)] if is_number else []))
