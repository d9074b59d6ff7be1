"""Values in Arrow's types: which types a column is written as, and values for it."""

from __future__ import annotations

import random
import uuid
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from tests.fidelity.column_types import Type
from tests.fidelity.sources import Clock, Day, Exact, Flag, Many, Moment, Pairs, Real, Struct, Text, Whole
from tests.fidelity.texts import hostile_text, text_of
from tests.fidelity.values import days_of, sample

_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_INTS = [pa.int64(), pa.int32(), pa.int16(), pa.int8(), pa.uint64(), pa.uint32(), pa.uint16(), pa.uint8()]
_TEXTS = [pa.string(), pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())]


def random_arrow_type(choose: random.Random, of: Type) -> pa.DataType:
    """A type of Arrow that a column of this type may be written as."""
    of = of.bare
    if of.kind == "Array":
        inner = random_arrow_type(choose, of.inner[0])
        return choose.choice((pa.list_(inner), pa.list_(inner), pa.large_list(inner)))
    if of.kind == "Map":
        return pa.map_(*(random_arrow_type(choose, each) for each in of.inner))
    if of.kind == "Tuple":
        names = of.names or tuple(f"f{number}" for number in range(len(of.inner)))
        fields = [pa.field(name, random_arrow_type(choose, each)) for name, each in zip(names, of.inner, strict=True)]
        if of.names and choose.random() < 0.3:
            choose.shuffle(fields)
        return pa.struct(fields)
    return choose.choice(_candidates(choose, of))


def near_type(choose: random.Random, found: pa.DataType) -> pa.DataType:
    """A type that a later file may have in its place: wider, finer, with its fields in another order."""
    if pa.types.is_list(found):
        return pa.list_(near_type(choose, found.value_type))
    if pa.types.is_map(found):
        return pa.map_(found.key_type, near_type(choose, found.item_type))
    if pa.types.is_struct(found):
        fields = [pa.field(each.name, near_type(choose, each.type)) for each in found]
        return pa.struct(choose.sample(fields, len(fields)))
    if pa.types.is_decimal(found):
        make = choose.choice((pa.decimal128, pa.decimal256))
        precision = choose.choice((9, 18, 38) if make is pa.decimal128 else (found.precision, 76))
        return make(precision, choose.randint(0, precision))
    if pa.types.is_timestamp(found):
        return pa.timestamp(choose.choice(("s", "ms", "us", "ns")), found.tz)
    if pa.types.is_integer(found):
        return choose.choice(_INTS)
    return choose.choice((pa.float32(), pa.float64())) if pa.types.is_floating(found) else found


def _candidates(choose: random.Random, of: Type) -> list[pa.DataType]:
    stamps = [pa.timestamp(unit, zone) for unit in ("us", "ms", "ns", "s") for zone in ("UTC", None, "Asia/Tokyo")]
    if of.kind in ("Int", "UInt"):
        own = pa.int64() if of.bits > 64 else getattr(pa, of.sql.lower())()
        return [own, own, own, *_INTS, pa.float64(), pa.decimal128(38, 0), pa.float32()]
    if of.kind in ("Float", "BFloat16"):
        return [pa.float64(), pa.float64(), pa.float32(), pa.float16(), pa.int32(), pa.int64()]
    if of.kind == "Decimal":
        make = pa.decimal128 if of.precision <= 38 else pa.decimal256
        own = make(of.precision, of.scale)
        return [own, own, own, pa.float64(), pa.int64(), pa.decimal256(76, choose.randint(0, 76)), pa.string()]
    more = {
        "Bool": [pa.bool_(), pa.bool_(), pa.int8(), pa.int64()],
        "String": [*_TEXTS, pa.int64(), pa.string_view(), pa.binary(3)],
        "FixedString": [pa.binary(of.length or 1), pa.binary(of.length or 1), pa.string(), pa.binary(), pa.binary(4)],
        "UUID": [pa.string(), pa.string(), pa.binary(16), pa.uuid()],
        "IPv4": [pa.string(), pa.string(), pa.uint32()],
        "IPv6": [pa.string(), pa.string(), pa.binary(16)],
        "Date": [pa.date32(), pa.date32(), pa.date64(), *stamps, pa.string()],
        "DateTime": [*stamps, *stamps[:2], pa.string(), pa.date32(), pa.date64(), pa.int64()],
        "Time": [pa.time32("s"), pa.time32("ms"), pa.string()],
        "Enum": [pa.string(), pa.dictionary(pa.int8(), pa.string()), pa.int8(), pa.int16()],
        "JSON": [pa.string(), pa.struct([("k", pa.int64()), ("l", pa.string())])],
        "Variant": [pa.string(), pa.int64()],
        "Dynamic": [pa.string(), pa.int64(), pa.float64(), pa.bool_()],
    }
    more |= {"Date32": more["Date"], "DateTime64": more["DateTime"], "Time64": [pa.time64("us"), pa.time64("ns")]}
    return more[of.kind]


def draw(choose: random.Random, of: Type, arrow_type: pa.DataType) -> Any:
    """A value for a column, in a type of Arrow, as `pyarrow.array` takes it; the column may not hold it."""
    if of.kind == "Nullable" and choose.random() < 0.25:
        return None
    bare = of.bare
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return [draw(choose, bare.inner[0], arrow_type.value_type) for _ in range(choose.choice((0, 1, 2, 3)))]
    if pa.types.is_map(arrow_type):
        keys = [draw(choose, bare.inner[0], arrow_type.key_type) for _ in range(choose.choice((0, 1, 2)))]
        keys = [key for key in dict.fromkeys(keys) if key is not None]
        return [(key, draw(choose, bare.inner[1], arrow_type.item_type)) for key in keys]
    if pa.types.is_struct(arrow_type) and bare.kind == "Tuple":
        by_name = dict(zip(bare.names or [field.name for field in arrow_type], bare.inner, strict=True))
        return {field.name: draw(choose, by_name[field.name], field.type) for field in arrow_type}
    return _scalar(choose, bare, arrow_type)


def _scalar(choose: random.Random, of: Type, arrow_type: pa.DataType) -> Any:
    if pa.types.is_struct(arrow_type):
        return {"k": choose.choice((1, -5, None)), "l": choose.choice(("x", "", None))}
    value = sample(choose, of)
    if value is None:
        return None
    if choose.random() < 0.15:
        return _wild(choose, of, arrow_type)
    try:
        return as_arrow(value, of, arrow_type)
    except TypeError:
        # A value of another kind.
        return _wild(choose, of, arrow_type)


def as_arrow(value: Any, of: Type, arrow_type: pa.DataType) -> Any:
    """A value of a column in a type of Arrow, as near as it gets."""
    if pa.types.is_dictionary(arrow_type):
        return as_arrow(value, of, arrow_type.value_type)
    if isinstance(arrow_type, pa.UuidType):
        return value.bytes
    if is_text(arrow_type):
        return _as_text(value, of, arrow_type)
    if pa.types.is_timestamp(arrow_type):
        return int(_seconds(value, of) * _UNITS[arrow_type.unit])
    if pa.types.is_time(arrow_type):
        return value * _UNITS[arrow_type.unit] // 10**of.precision
    if pa.types.is_date(arrow_type):
        days = days_of(value) if isinstance(value, date) else int(_seconds(value, of) // 86400)
        return days if pa.types.is_date32(arrow_type) else days * 86_400_000
    number = _number(value, of)
    if pa.types.is_decimal(arrow_type):
        return Decimal(number)
    if pa.types.is_floating(arrow_type):
        return float(number)
    return bool(number) if pa.types.is_boolean(arrow_type) else int(number)


def is_text(arrow_type: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_string(arrow_type)
        or types.is_large_string(arrow_type)
        or types.is_string_view(arrow_type)
        or is_bytes(arrow_type)
    )


def is_bytes(arrow_type: pa.DataType) -> bool:
    types = pa.types
    of_any_length = types.is_binary(arrow_type) or types.is_large_binary(arrow_type) or types.is_binary_view(arrow_type)
    return of_any_length or types.is_fixed_size_binary(arrow_type)


def _as_text(value: Any, of: Type, arrow_type: pa.DataType) -> Any:
    if not is_bytes(arrow_type):
        return text_of(value, of).decode(errors="replace")
    raw = value.bytes if isinstance(value, uuid.UUID) else getattr(value, "packed", None) or text_of(value, of)
    if pa.types.is_fixed_size_binary(arrow_type):
        return raw[: arrow_type.byte_width].ljust(arrow_type.byte_width, b"\0")
    return raw


def _seconds(value: Any, of: Type) -> Fraction:
    if isinstance(value, date):
        return Fraction(days_of(value) * 86_400)
    return Fraction(value, 10**of.precision)


def _number(value: Any, of: Type) -> Any:
    if of.kind == "Enum":
        return dict(of.values)[value]
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, date):
        return days_of(value)
    if of.kind == "DateTime64":
        return value // 10**of.precision
    return value if isinstance(value, float | Decimal) else int(value)


def _wild(choose: random.Random, of: Type, arrow_type: pa.DataType) -> Any:
    """A value of the file's type, whatever the column's."""
    if pa.types.is_dictionary(arrow_type):
        return _wild(choose, of, arrow_type.value_type)
    if pa.types.is_fixed_size_binary(arrow_type):
        return bytes(choose.choices(range(256), k=arrow_type.byte_width))
    if is_text(arrow_type):
        raw = hostile_text(choose, of)
        return raw if is_bytes(arrow_type) else raw.decode()
    if pa.types.is_integer(arrow_type):
        return choose.choice((0, 2, 127, 2 ** (arrow_type.bit_width - 1) - 1))
    if pa.types.is_floating(arrow_type):
        return choose.choice((0.5, 1e4, 300.0, -0.0, float("nan"), 0.1))
    if pa.types.is_decimal(arrow_type):
        return Decimal((0, (choose.randint(1, 9),), -min(arrow_type.scale, choose.randint(0, 5))))
    if pa.types.is_boolean(arrow_type):
        return choose.random() < 0.5
    if pa.types.is_date64(arrow_type):
        return choose.choice((-1, 100_000)) * 86_400_000
    return choose.choice((-1, 0, 1, 86_399, 10**5, 3_600_000, 3_600_500_000, 1_717_171_717_123))


def from_arrow(scalar: Any) -> Any:
    """A value that pyarrow read, as a source value."""
    if not scalar.is_valid:
        return None
    arrow_type = scalar.type
    types = pa.types
    if types.is_dictionary(arrow_type):
        return from_arrow(scalar.value if hasattr(scalar, "value") else scalar.dictionary[scalar.index.as_py()])
    if isinstance(arrow_type, pa.ExtensionType | pa.UuidType):
        return Text(scalar.value.as_py())
    if types.is_map(arrow_type):
        pairs = scalar.values
        return Pairs(tuple((from_arrow(each[0]), from_arrow(each[1])) for each in map(_fields, pairs)))
    if types.is_list(arrow_type) or types.is_large_list(arrow_type) or types.is_fixed_size_list(arrow_type):
        return Many(tuple(map(from_arrow, scalar.values)))
    if types.is_struct(arrow_type):
        return Struct(tuple(zip((f.name for f in arrow_type), map(from_arrow, _fields(scalar)), strict=True)))
    return _scalar_from(scalar, arrow_type)


def _fields(scalar: Any) -> list[Any]:
    return [scalar[number] for number in range(scalar.type.num_fields)]


def _scalar_from(scalar: Any, arrow_type: pa.DataType) -> Any:
    types = pa.types
    if is_text(arrow_type):
        value = scalar.as_py()
        return Text(value if isinstance(value, bytes) else value.encode())
    if types.is_boolean(arrow_type):
        return Flag(scalar.as_py())
    if types.is_integer(arrow_type):
        return Whole(scalar.as_py())
    if types.is_floating(arrow_type):
        return Real(float(scalar.as_py()))
    if types.is_decimal(arrow_type):
        return Exact(scalar.as_py())
    if types.is_timestamp(arrow_type):
        return Moment(Fraction(scalar.value, _UNITS[arrow_type.unit]), arrow_type.tz is not None)
    if types.is_time(arrow_type):
        return Clock(Fraction(scalar.value, _UNITS[arrow_type.unit]))
    if types.is_date32(arrow_type):
        return Day(scalar.value)
    if types.is_date64(arrow_type):
        return Day(scalar.value // 86_400_000, is_date64=True)
    raise NotImplementedError(str(arrow_type))


#: The errors of an attempt to write a value in a type that does not hold it.
NOT_HELD = (OverflowError, ValueError, TypeError, IndexError, OSError, pa.ArrowException)


def arrow_array(values: list[Any], arrow_type: pa.DataType) -> pa.Array:
    """Values as `draw` makes them, as an array."""
    if isinstance(arrow_type, pa.UuidType):
        return pa.ExtensionArray.from_storage(arrow_type, pa.array(values, pa.binary(16)))
    return pa.array(values, arrow_type)
