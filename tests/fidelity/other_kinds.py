"""Columns of a file whose kind is another than the table's: times as numbers, numbers as times, either as text."""

from __future__ import annotations

import random

import pyarrow as pa

from tests.fidelity.column_types import Type

_STAMPS = tuple(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in ("UTC", None))
_TIMES = (*_STAMPS, pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.date32(), pa.date64())
_NUMBERS = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64(), pa.float32(), pa.float64()),
    *(pa.decimal128(9, 1), pa.decimal128(18, 3), pa.decimal128(38, 9), pa.decimal256(60, 2), pa.bool_()),
)
_OF = {
    **dict.fromkeys(("Int", "UInt", "Float", "BFloat16", "Decimal", "Bool"), (*_TIMES, pa.bool_())),
    **dict.fromkeys(("Date", "Date32", "DateTime", "DateTime64", "Time", "Time64", "Enum"), (*_NUMBERS, *_TIMES)),
    **dict.fromkeys(("String", "FixedString"), _NUMBERS),
}


def type_of_another_kind(choose: random.Random, of: Type) -> pa.DataType | None:
    """A type of Arrow that is rarely written for a column of this type; None where there is none to try."""
    kinds = _OF.get(of.bare.kind)
    return choose.choice(kinds) if kinds else None
