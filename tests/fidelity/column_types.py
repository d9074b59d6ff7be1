"""Types of ClickHouse's columns, as random tables have them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/St_Johns")
#: The zone of columns that name none, in the case at hand.
_READ_IN = ContextVar("read_in", default="UTC")


@contextmanager
def read_in(zone: str) -> Iterator[None]:
    """Times without a zone are of this one, in the `with` block."""
    token = _READ_IN.set(zone)
    try:
        yield
    finally:
        _READ_IN.reset(token)


def zone_in_use() -> str:
    """The zone of columns that name none."""
    return _READ_IN.get()


@dataclass(frozen=True)
class Type:
    """A column's type."""

    kind: str
    bits: int = 0
    precision: int = 0
    scale: int = 0
    length: int = 0
    zone: str = ""
    values: tuple[tuple[str, int], ...] = ()
    inner: tuple[Type, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def sql(self) -> str:
        """As CREATE TABLE has it."""
        inner = ", ".join(each.sql for each in self.inner)
        zone = f"'{self.zone}'" if self.zone else ""
        if self.kind in ("Int", "UInt", "Float"):
            return f"{self.kind}{self.bits}"
        if self.kind == "Enum":
            return f"Enum{self.bits}({', '.join(f'{quoted(name)} = {value}' for name, value in self.values)})"
        if self.kind == "Tuple" and self.names:
            named = zip(self.names, self.inner, strict=True)
            return f"Tuple({', '.join(f'{backticked(name)} {each.sql}' for name, each in named)})"
        given = {
            "Decimal": f"{self.precision}, {self.scale}",
            "FixedString": str(self.length),
            "DateTime": zone,
            "DateTime64": ", ".join(filter(None, (str(self.precision), zone))),
            "Time64": str(self.precision),
        }.get(self.kind, inner)
        return f"{self.kind}({given})" if given else self.kind

    @property
    def bare(self) -> Type:
        """Without Nullable and LowCardinality."""
        return self.inner[0].bare if self.kind in ("Nullable", "LowCardinality") else self

    @property
    def holds_null(self) -> bool:
        """Whether NULL is one of its values."""
        if self.kind == "LowCardinality":
            return self.inner[0].holds_null
        return self.kind in ("Nullable", "Variant", "Dynamic")

    @property
    def zone_name(self) -> str:
        """The zone in which its text is read."""
        return self.zone or zone_in_use()

    @property
    def limits(self) -> tuple[int, int]:
        """Lowest and highest number of an integer type."""
        if self.kind == "Int":
            return -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1
        return 0, 2**self.bits - 1

    def all(self) -> list[Type]:
        """It, and all types within."""
        return [self, *(one for each in self.inner for one in each.all())]

    def mentions(self, *kinds: str) -> bool:
        """Whether it, or a type within, is of one of these kinds."""
        return any(each.kind in kinds for each in self.all())


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def backticked(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


#: The most common types are here twice.
_SCALARS = (
    *("Int", "UInt", "String", "Float", "Decimal", "DateTime", "DateTime64", "Date", "Bool", "Date32", "FixedString"),
    *("UUID", "Enum", "IPv4", "IPv6", "BFloat16", "Time", "Time64"),
    *("Int", "UInt", "String", "Decimal", "DateTime64"),
)
_BITS = (8, 16, 32, 64, 128, 256)
_ENUM_NAMES = ("a", "b", "", "1", "2", "it's", "ü€", "a b", "x,y", 'q"q', "NULL", "\\N", "back\\slash")


def random_type(choose: random.Random, depth: int = 0) -> Type:
    """Any type that a column of a MergeTree table can have."""
    if depth < 2 and choose.random() > 0.7:
        return _random_nested(choose, depth)
    scalar = random_scalar(choose)
    wrapper = choose.choice(("", "", "Nullable", "Nullable", "LowCardinality", "LowCardinality Nullable"))
    return _wrapped(scalar, wrapper)


def _wrapped(scalar: Type, wrapper: str) -> Type:
    takes_low_cardinality = scalar.kind in ("String", "FixedString")
    if "Nullable" in wrapper:
        scalar = Type("Nullable", inner=(scalar,))
    if "LowCardinality" in wrapper and takes_low_cardinality:
        scalar = Type("LowCardinality", inner=(scalar,))
    return scalar


def random_scalar(choose: random.Random) -> Type:
    """A type without others in it."""
    return make_scalar(choose, choose.choice(_SCALARS))


def make_scalar(choose: random.Random, kind: str) -> Type:
    """A scalar type of a kind."""
    if kind in ("Int", "UInt"):
        return Type(kind, bits=choose.choice(_BITS))
    if kind == "Float":
        return Type(kind, bits=choose.choice((64, 32)))
    if kind == "Decimal":
        precision = choose.choice((9, 18, 38, 76, choose.randint(1, 76)))
        return Type(kind, precision=precision, scale=choose.choice((2, 0, precision, choose.randint(0, precision))))
    if kind == "FixedString":
        return Type(kind, length=choose.choice((1, 3, 16, 32)))
    if kind in ("DateTime", "DateTime64"):
        zone = choose.choice(("UTC", "UTC", "", *ZONES[1:]))
        return Type(kind, zone=zone, precision=choose.choice((3, 6, 0, 9, 1)) if kind == "DateTime64" else 0)
    if kind == "Time64":
        return Type(kind, precision=choose.choice((3, 6, 0, 9)))
    if kind == "Enum":
        return _random_enum(choose)
    return Type(kind)


def _random_enum(choose: random.Random) -> Type:
    bits = choose.choice((8, 16))
    names = choose.sample(_ENUM_NAMES, choose.randint(1, 5))
    numbers = choose.sample((0, 1, 2, -1, 127, -128) if bits == 8 else (0, 1, 2, 300, 32767, -32768), len(names))
    return Type("Enum", bits=bits, values=tuple(zip(names, numbers, strict=True)))


def _random_nested(choose: random.Random, depth: int) -> Type:
    kind = choose.choice(("Array", "Array", "Map", "Tuple", "Tuple", "JSON", "Variant", "Dynamic"))
    if kind == "Array":
        return Type(kind, inner=(random_type(choose, depth + 1),))
    if kind == "Map":
        key = choose.choice((Type("String"), Type("Int", bits=32), Type("LowCardinality", inner=(Type("String"),))))
        return Type(kind, inner=(key, random_type(choose, depth + 1)))
    if kind == "Tuple":
        inner = tuple(random_type(choose, depth + 1) for _ in range(choose.randint(1, 3)))
        names = choose.sample(("a", "b", "c", "A", "x y", "ü"), len(inner)) if choose.random() < 0.7 else ()
        found = Type(kind, inner=inner, names=tuple(names))
        return Type("Nullable", inner=(found,)) if choose.random() < 0.4 else found
    if kind == "Variant":
        return Type(kind, inner=(Type("Int", bits=64), Type("String")))
    if depth:
        # These are read as text, which is done for whole columns.
        return random_scalar(choose)
    return Type(kind)
