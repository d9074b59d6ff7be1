"""RowBinary, ClickHouse's plainest format: how tables are read back, and what ClickHouse writes files from.

It is written and read here by the format's documentation, with nothing of the package that is tested.
"""

from __future__ import annotations

import ipaddress
import struct
import uuid
from datetime import timedelta
from typing import Any

from tests.fidelity.column_types import Type
from tests.fidelity.values import EPOCH, as_decimal, days_of

#: Bytes of the integers that types are kept in.
_WIDTHS = {"Date": (2, False), "Date32": (4, True), "DateTime": (4, False), "DateTime64": (8, True)}
_WIDTHS |= {"Time": (4, True), "Time64": (8, True), "IPv4": (4, False)}


def _width(of: Type) -> tuple[int, bool]:
    """Bytes, and whether it has a sign."""
    if of.kind in ("Int", "UInt", "Enum"):
        return of.bits // 8, of.kind != "UInt"
    if of.kind == "Decimal":
        return next(size for size, digits in ((4, 9), (8, 18), (16, 38), (32, 76)) if of.precision <= digits), True
    return _WIDTHS[of.kind]


class Reader:
    """Reads values one after the other."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        """Whether all is read."""
        return self._at >= len(self._body)

    def _take(self, count: int) -> bytes:
        taken = self._body[self._at : self._at + count]
        assert len(taken) == count
        self._at += count
        return taken

    def _length(self) -> int:
        number = shift = 0
        while True:
            (byte,) = self._take(1)
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    def value(self, of: Type) -> Any:
        """The next value, of this type."""
        if of.kind == "Nullable":
            return None if self._take(1) == b"\1" else self.value(of.inner[0])
        if of.kind == "LowCardinality":
            return self.value(of.inner[0])
        if of.kind == "Array":
            return tuple(self.value(of.inner[0]) for _ in range(self._length()))
        if of.kind == "Map":
            return tuple((self.value(of.inner[0]), self.value(of.inner[1])) for _ in range(self._length()))
        if of.kind == "Tuple":
            return tuple(self.value(each) for each in of.inner)
        if of.kind == "Variant":
            return self._variant(of)
        return self._scalar(of)

    def _variant(self, of: Type) -> Any:
        (number,) = self._take(1)
        return None if number == 255 else self.value(sorted(of.inner, key=lambda each: each.sql)[number])

    def _scalar(self, of: Type) -> Any:
        if of.kind in ("String", "JSON", "Dynamic"):
            return self._take(self._length())
        if of.kind == "FixedString":
            return self._take(of.length)
        if of.kind == "Bool":
            return self._take(1) != b"\0"
        if of.kind == "Float":
            return struct.unpack("<d" if of.bits == 64 else "<f", self._take(of.bits // 8))[0]
        if of.kind == "BFloat16":
            return struct.unpack("<f", b"\0\0" + self._take(2))[0]
        if of.kind == "UUID":
            high, low = struct.unpack("<QQ", self._take(16))
            return uuid.UUID(int=high << 64 | low)
        if of.kind == "IPv6":
            return ipaddress.IPv6Address(self._take(16))
        return self._from_integer(of)

    def _from_integer(self, of: Type) -> Any:
        size, is_signed = _width(of)
        number = int.from_bytes(self._take(size), "little", signed=is_signed)
        if of.kind == "Decimal":
            return as_decimal(number, of.scale)
        if of.kind in ("Date", "Date32"):
            return EPOCH + timedelta(days=number)
        if of.kind == "IPv4":
            return ipaddress.IPv4Address(number)
        if of.kind == "Enum":
            return next(name for name, value in of.values if value == number)
        return number


def write(value: Any, of: Type) -> bytes:
    """A value of a type, as RowBinary has it."""
    if of.kind == "Nullable":
        return b"\1" if value is None else b"\0" + write(value, of.inner[0])
    if of.kind == "LowCardinality":
        return write(value, of.inner[0])
    if of.kind == "Array":
        return _length(len(value)) + b"".join(write(each, of.inner[0]) for each in value)
    if of.kind == "Map":
        pairs = (write(key, of.inner[0]) + write(each, of.inner[1]) for key, each in value)
        return _length(len(value)) + b"".join(pairs)
    if of.kind == "Tuple":
        return b"".join(map(write, value, of.inner))
    return _write_scalar(value, of)


def _length(number: int) -> bytes:
    written = b""
    while number > 127:
        written += bytes([number & 127 | 128])
        number >>= 7
    return written + bytes([number])


def _write_scalar(value: Any, of: Type) -> bytes:
    if of.kind == "String":
        return _length(len(value)) + value
    if of.kind == "FixedString":
        return bytes(value)
    if of.kind == "Bool":
        return bytes([value])
    if of.kind == "Float":
        return struct.pack("<d" if of.bits == 64 else "<f", value)
    if of.kind == "BFloat16":
        return struct.pack("<f", value)[2:]
    if of.kind == "UUID":
        return struct.pack("<QQ", value.int >> 64, value.int & (2**64 - 1))
    if of.kind == "IPv6":
        return bytes(value.packed)
    size, is_signed = _width(of)
    return _as_integer(value, of).to_bytes(size, "little", signed=is_signed)


def _as_integer(value: Any, of: Type) -> int:
    if of.kind == "Decimal":
        sign, digits, _ = value.as_tuple()
        return int("".join(map(str, digits))) * (-1 if sign else 1)
    if of.kind in ("Date", "Date32"):
        return days_of(value)
    if of.kind == "Enum":
        return dict(of.values)[value]
    return int(value)
