"""What one case is: a table, and the files of one of its periods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.fidelity.column_types import Type


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Args:
        name: Its name.
        type: Its type.
    """

    name: str
    type: Type


@dataclass
class Lane:
    """A column of a file.

    Args:
        name: Its name in the file.
        of: The type of the table's column; None for one that the table lacks.
        written_as: The type in the file; what it is depends on the format.
        cells: Its values; what they are depends on the format, see the format's module.
    """

    name: str
    of: Type | None
    written_as: Any
    cells: list[Any]


@dataclass
class SourceFile:
    """A file of the period.

    Args:
        name: The end of its key.
        lanes: Its columns, in their order.
        layout: How it is written, by the format's options.
    """

    name: str
    lanes: list[Lane]
    layout: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows in it."""
        return len(self.lanes[0].cells)


@dataclass
class Case:
    """A table, and the files of one of its periods.

    Args:
        period: The period, as `YYYY-MM`.
        format: The files' format, as `tests.fidelity.formats` names it.
        columns: The table's columns; `id` tells rows apart, and `ts` holds the period.
        files: The files.
        arguments: Further arguments of the operator.
        zone: The zone in which times without one are read.
    """

    period: str
    format: str
    columns: list[Column]
    files: list[SourceFile]
    arguments: dict[str, Any] = field(default_factory=dict)
    zone: str = "UTC"

    @property
    def created_by(self) -> str:
        """CREATE TABLE without the table's name."""
        from tests.fidelity.column_types import backticked

        columns = ", ".join(f"{backticked(each.name)} {each.type.sql}" for each in self.columns)
        return f"({columns}) ENGINE = MergeTree PARTITION BY toYYYYMM(ts) ORDER BY id"
