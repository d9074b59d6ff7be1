"""Refuse byte order marks: servers remove one only before a line of column names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_chs3.core.files.loaded_columns import LoadedColumn
from airflow_provider_chs3.core.files.text_fields import TEXT_TYPE
from airflow_provider_chs3.core.model.formats import Format
from airflow_provider_chs3.core.sql.quoting import identifier

#: In hexadecimal digits, before a quote of CSV.
MARK_AND_QUOTE = ("EFBBBF22", "EFBBBF27")


def refuse_mark(read: Sequence[LoadedColumn], file_format: Format) -> tuple[LoadedColumn, ...]:
    """Refuse a byte order mark, which ClickHouse removes only from a file with a header; a container never has one."""
    first, *others = read
    if not file_format.names_columns and first.source_type in ("String", TEXT_TYPE):
        unmarked = without_mark(first.column.name)
        first = replace(first, kept=f"{first.kept} AND {unmarked}" if first.kept else unmarked)
    return (first, *others)


def without_mark(field: str) -> str:
    """Return the condition that a field does not begin with a byte order mark, as the first one of a file may."""
    return f"NOT startsWith({identifier(field)}, '\\xef\\xbb\\xbf')"


def has_mark(value: str | bytes | None) -> bool:
    """Return whether a value begins with a mark."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    return bool(text and text.startswith("\ufeff"))


def mark_message(where: str) -> str:
    """Return the message about a byte order mark, which servers remove only before a header."""
    return (
        f"{where} begins with a byte order mark, which ClickHouse removes only before a line of column names: write "
        "the file without it (in Python as 'utf-8', not 'utf-8-sig'), or with such a line."
    )
