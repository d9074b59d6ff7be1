"""Reading ClickHouse's type `Variant`, which the driver (0.2.11) does not know.

common-sql's `SQLColumnCheckOperator` puts results of several types into one column with UNION ALL. Where they have no
common type, say a count and a maximum of floats, ClickHouse makes a `Variant` of them.
"""

from __future__ import annotations

import logging
from types import MethodType
from typing import Any

from clickhouse_driver.columns import service  # noqa: TID253
from clickhouse_driver.columns.base import Column  # noqa: TID253
from clickhouse_driver.columns.util import get_inner_columns, get_inner_spec  # noqa: TID253
from clickhouse_driver.reader import read_binary_uint64  # noqa: TID253
from clickhouse_driver.streams.native import BlockInputStream  # noqa: TID253

from airflow_provider_chs3.client.rebound import rebound

_NULL = 255


class VariantColumn(Column):
    """A column whose values are each of one of several types, or NULL.

    The format is ClickHouse's `SerializationVariant`: the mode, the types' own prefixes, one byte a row for the
    type by its place in the name, then each type's values.
    """

    def __init__(self, spec: str, **column_options: Any) -> None:
        super().__init__(**column_options)
        self._nested = [
            _column_of(inner, {"context": self.context}) for inner in get_inner_columns(get_inner_spec("Variant", spec))
        ]

    def read_state_prefix(self, buf: Any) -> None:
        """Read what stands before the first block's values."""
        super().read_state_prefix(buf)
        mode = read_binary_uint64(buf)
        if mode:
            raise NotImplementedError(f"Variant in mode {mode}: only 0, one byte a row, is known here.")
        for column in self._nested:
            column.read_state_prefix(buf)

    def read_data(self, n_items: int, buf: Any) -> tuple[Any, ...]:
        """Read one block's values."""
        types = buf.read(n_items)
        counts = [types.count(place) for place in range(len(self._nested))]
        values = [
            iter(column.read_data(count, buf) if count else ())
            for column, count in zip(self._nested, counts, strict=True)
        ]
        return tuple(None if place == _NULL else next(values[place]) for place in types)


class _ColumnTypes(dict[str, Any]):
    """The driver's types by name, and every `Variant(…)`."""

    def __missing__(self, spec: str) -> Any:
        if not spec.startswith("Variant("):
            raise KeyError(spec)
        return lambda **column_options: VariantColumn(spec, **column_options)


# The two functions call each other by name, also for the types inside arrays and tuples.
_column_of = rebound(service.get_column_by_spec, column_by_type=_ColumnTypes(service.column_by_type))
_column_of.__globals__["get_column_by_spec"] = _column_of
_read_column = rebound(service.read_column, get_column_by_spec=_column_of)
# At DEBUG the driver logs the names of columns, which may be literals of the statement.
_log = logging.getLogger(__name__)
_log.setLevel(logging.INFO)
_read_block = rebound(BlockInputStream.read, read_column=_read_column, logger=_log)


def reads_variants(stream: BlockInputStream) -> BlockInputStream:
    """Let one of the driver's streams read columns of the type `Variant`, and return it."""
    stream.read = MethodType(_read_block, stream)
    return stream
