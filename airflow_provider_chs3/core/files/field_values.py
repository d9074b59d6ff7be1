"""Give an expression of the user other values for the fields of files than those that servers read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from airflow_provider_chs3.core.files.describe_files import without_mark
from airflow_provider_chs3.core.sql.quoting import identifier, literal
from airflow_provider_chs3.core.sql.server_casts import Cast
from airflow_provider_chs3.core.target.table_facts import Column


class FieldValues(Protocol):
    """The values of fields, where servers read others."""

    def of_expression(self, column: Column, expression: str, used: Iterable[str]) -> Cast:
        """Return an expression of the user over these values.

        Returns:
            The expression, and the condition that it has the values of the file; none if it always has.
        """


def used_fields(used: Iterable[str], names: Collection[str]) -> list[str]:
    """Return which fields an expression reads."""
    return sorted({name.partition(".")[0] for name in used}.union(used).intersection(names))


def over(expression: str, values: Mapping[str, str]) -> str:
    """Return an expression of the user over other values: a lambda gives them the names of the fields."""
    arrays = ", ".join(f"[{value}]" for value in values.values())
    return f"arrayMap(({', '.join(map(identifier, values))}) -> (\n{expression}\n), {arrays})[1]"


@dataclass(frozen=True)
class TextFields:
    """The fields of CSV and TSV that expressions read."""

    names: Collection[str]
    null: str = ""
    first: str = ""

    def of_expression(self, column: Column, expression: str, used: Iterable[str]) -> Cast:
        """Return an expression over fields that are NULL where they hold the marker; see `FieldValues`."""
        names = used_fields(used, self.names)
        holds = without_mark(self.first) if self.first in names else None
        if not self.null or not names:
            return Cast(expression, holds)
        values = {name: f"nullIf({identifier(name)}, {literal(self.null)})" for name in names}
        return Cast(over(expression, values), holds)
