"""Give an expression of the user other values for the fields of files than those that servers read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias

from airflow_provider_chs3.core.files.describe_files import without_mark
from airflow_provider_chs3.core.sql.quoting import identifier, literal
from airflow_provider_chs3.core.sql.server_casts import Cast
from airflow_provider_chs3.core.target.table_facts import Column

#: Makes an expression of the user for a column, which uses some names, one over other values than servers read. With it
#: comes the condition that it has the values of the file; none if it always has.
FieldValues: TypeAlias = Callable[[Column, str, Iterable[str]], Cast]


def used_fields(used: Iterable[str], names: Collection[str]) -> list[str]:
    """Return which fields an expression reads."""
    return sorted({name.partition(".")[0] for name in used}.union(used).intersection(names))


def over(expression: str, values: Mapping[str, str]) -> str:
    """Return an expression of the user over other values: a lambda gives them the names of the fields."""
    arrays = ", ".join(f"[{value}]" for value in values.values())
    return f"arrayMap(({', '.join(map(identifier, values))}) -> (\n{expression}\n), {arrays})[1]"


def text_fields(fields: Collection[str], *, null: str, first: str) -> FieldValues:
    """Return what makes expressions over fields of CSV and TSV that are NULL where they hold the marker."""

    def of_expression(column: Column, expression: str, used: Iterable[str]) -> Cast:
        names = used_fields(used, fields)
        holds = without_mark(first) if first in names else None
        if not null or not names:
            return Cast(expression, holds)
        values = {name: f"nullIf({identifier(name)}, {literal(null)})" for name in names}
        return Cast(over(expression, values), holds)

    return of_expression
