"""Engines that this package's tests do not cover: loads require a rehearsal first, recorded in the ledger."""

from __future__ import annotations

from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.sql.quoting import Sql, is_table, literal, table

#: Prefix of the tables of rehearsals and of their folders in the bucket.
NAME_PREFIX = "rehearsal_chs3_"

#: The event of its record, which belongs to no period.
_REHEARSED = "rehearsed"

#: Prefixes of such engines.
_UNTESTED = ("Shared",)


def family(engine: str) -> str:
    """Return the prefix that marks an engine as untested; empty for tested engines."""
    return next((beginning for beginning in _UNTESTED if engine.startswith(beginning)), "")


def is_rehearsal(target: TableName) -> bool:
    """Check whether a rehearsal created the table."""
    return target.table.startswith(NAME_PREFIX)


def remember(ledger: TableName, like: TableName) -> Sql:
    """Return the statement that records on a node that a rehearsal has passed there."""
    return Sql(
        f"INSERT INTO {table(ledger)} (event, target_database, target_table, structure) SELECT {literal(_REHEARSED)}, "
        f"{literal(like.database)}, {literal(like.table)}, {_circumstances(like)}"
    )


def has_passed(ledger: TableName, target: TableName) -> Sql:
    """Return the query whether a rehearsal has passed on a node with a ledger, under its present conditions."""
    return Sql(
        f"SELECT count() > 0 FROM {table(ledger)} "
        f"WHERE event = {literal(_REHEARSED)} AND structure = {_circumstances(target)}"
    )


def _circumstances(name: TableName) -> str:
    """Return the conditions that a rehearsal is valid for: a new version, engine or storage policy requires another."""
    families = literal(f"^({'|'.join(_UNTESTED)})")
    return (
        "(SELECT any(toJSONString(map('version', version(), 'engine', "
        f"extract(engine, {families}), 'storage_policy', storage_policy))) FROM system.tables WHERE {is_table(name)})"
    )
