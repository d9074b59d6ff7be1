"""One case: a table, and the files of one of its periods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.fidelity.column_types import Type


@dataclass(frozen=True)
class Column:
    """A column of the table."""

    name: str
    type: Type


@dataclass
class Lane:
    """A column of a file."""

    name: str
    of: Type | None
    written_as: Any
    cells: list[Any]


@dataclass
class SourceFile:
    """A file of the period."""

    name: str
    lanes: list[Lane]
    layout: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows in it."""
        return len(self.lanes[0].cells)


@dataclass
class Case:
    """A table, and the files of one of its periods."""

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

        columns = ", ".join(f"{backticked(column.name)} {column.type.sql}" for column in self.columns)
        return f"({columns}) ENGINE = MergeTree PARTITION BY toYYYYMM(ts) ORDER BY id"
