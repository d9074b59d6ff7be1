"""ClickHouse's notation of arrays, maps and tuples in a field of text."""

from __future__ import annotations

import re
from typing import Any

from tests.fidelity.column_types import Type
from tests.fidelity.sources import Many, Pairs, Text

INVALID = object()
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"0": b"\0", b"r": b"\r", b"\\": b"\\", b"'": b"'", b"b": b"\b", b"f": b"\f"}
_BARE = re.compile(rb"[^\[\](){},:'\s]+")


class _Parser:
    def __init__(self, text: bytes) -> None:
        self._text = text
        self.at = 0

    def skip(self, char: bytes) -> bool:
        while self._text[self.at : self.at + 1] == b" ":
            self.at += 1
        if self._text[self.at : self.at + 1] == char:
            self.at += 1
            return True
        return False

    def value(self) -> Any:
        if self.skip(b"["):
            return Many(tuple(self._until(b"]")))
        if self.skip(b"("):
            return Many(tuple(self._until(b")")))
        if self.skip(b"{"):
            return Pairs(tuple(self._until(b"}", pairs=True)))
        if self.skip(b"'"):
            return Text(self._quoted(), is_quoted=True)
        found = _BARE.match(self._text, self.at)
        if not found:
            raise ValueError(self._text)
        self.at = found.end()
        return None if found[0] == b"NULL" else Text(found[0])

    def _until(self, end: bytes, *, pairs: bool = False) -> list[Any]:
        found: list[Any] = []
        if self.skip(end):
            return found
        while True:
            each = self.value()
            if pairs:
                if not self.skip(b":"):
                    raise ValueError(self._text)
                each = (each, self.value())
            found.append(each)
            if self.skip(end):
                return found
            if not self.skip(b","):
                raise ValueError(self._text)

    def _quoted(self) -> bytes:
        found = b""
        while True:
            char = self._text[self.at : self.at + 1]
            self.at += 1
            if char == b"'":
                return found
            if char == b"\\":
                char = _ESCAPES[self._text[self.at : self.at + 1]]
                self.at += 1
            if not char:
                raise ValueError(self._text)
            found += char

    @property
    def is_at_end(self) -> bool:
        return self.at == len(self._text)


def parse(text: bytes) -> Any:
    """Return the source values of a field; INVALID where it is no such notation."""
    parser = _Parser(text)
    try:
        value = parser.value()
    except (ValueError, KeyError):
        return INVALID
    return value if parser.is_at_end else INVALID


def written(value: Any, of: Type, plain: Any) -> bytes:
    """A value in this notation."""
    if value is None:
        return b"NULL"
    bare = of.bare
    if bare.kind == "Array":
        return b"[" + b",".join(written(each, bare.inner[0], plain) for each in value) + b"]"
    if bare.kind == "Tuple":
        inner = b",".join(written(each, kind, plain) for each, kind in zip(value, bare.inner, strict=True))
        return b"(" + inner + b")"
    if bare.kind == "Map":
        key, each_type = bare.inner
        pairs = (written(name, key, plain) + b":" + written(each, each_type, plain) for name, each in value)
        return b"{" + b",".join(pairs) + b"}"
    text = plain(value, bare)
    return text if bare.kind in ("Int", "UInt", "Float", "BFloat16", "Decimal", "Bool") else _in_quotes(text)


def _in_quotes(text: bytes) -> bytes:
    for char in (b"\\", b"'", b"\n", b"\t", b"\r", b"\0"):
        escape = next(name for name, meant in _ESCAPES.items() if meant == char)
        text = text.replace(char, b"\\" + escape)
    return b"'" + text + b"'"
