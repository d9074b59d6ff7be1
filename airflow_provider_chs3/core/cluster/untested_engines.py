"""Engines that the tests of this package have never seen: loads want a rehearsal first, which the ledger remembers."""

from __future__ import annotations

from airflow_provider_chs3.core.sql.quoting import Sql, literal, table
from airflow_provider_chs3.core.values.models import TableName

#: How the tables of rehearsals, and their folders in the bucket, begin.
NAME_PREFIX = "rehearsal_chs3_"

#: The event of its record, which is about no month.
_REHEARSED = "rehearsed"

#: How the names of such engines begin.
_UNTESTED = ("Shared",)


def family(engine: str) -> str:
    """Give the prefix that marks an engine as untested; empty for tested engines.

    Args:
        engine: Such as `SharedReplacingMergeTree`.
    """
    return next((beginning for beginning in _UNTESTED if engine.startswith(beginning)), "")


def is_rehearsal(target: TableName) -> bool:
    """Whether the table is one that a rehearsal has made.

    Args:
        target: The table.
    """
    return target.table.startswith(NAME_PREFIX)


def remember(ledger: TableName, like: TableName) -> Sql:
    """Record on a node that a rehearsal has passed there.

    Args:
        ledger: That of the loads of `like`.
        like: The table whose engine and storage the rehearsal's table had.
    """
    return Sql(
        f"INSERT INTO {table(ledger)} (event, target_database, target_table, details) SELECT {literal(_REHEARSED)}, "
        f"{literal(like.database)}, {literal(like.table)}, {_circumstances(like)}"
    )


def has_passed(ledger: TableName, target: TableName) -> Sql:
    """Ask a node that has a ledger whether a rehearsal has passed there, in the circumstances of today.

    Args:
        ledger: That of the loads of the table.
        target: The table.
    """
    return Sql(
        f"SELECT count() > 0 FROM {table(ledger)} "
        f"WHERE event = {literal(_REHEARSED)} AND details = {_circumstances(target)}"
    )


def _circumstances(name: TableName) -> str:
    """Describe what a rehearsal is valid for: it must be repeated when version, engine or storage policy change."""
    families = literal(f"^({'|'.join(_UNTESTED)})")
    return (
        "(SELECT any(toJSONString(map('version', version(), 'engine', "
        f"extract(engine, {families}), 'storage_policy', storage_policy))) FROM system.tables "
        f"WHERE database = {literal(name.database)} AND name = {literal(name.table)})"
    )
