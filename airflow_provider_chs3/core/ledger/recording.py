"""Add records to the ledgers: those of several periods with one statement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from airflow_provider_chs3.core.ledger.records import (
    Values,
    is_there,
    json_text,
    number_of_creation,
    rendered,
)
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, literals, table
from airflow_provider_chs3.core.values.models import Node, TableName

#: The key, and further columns, of a period's record on each of some nodes.
OnNodes: TypeAlias = Mapping[Node, tuple[LedgerKey, Values]]


def add_records(
    ledger: TableName,
    event: str,
    periods: Sequence[OnNodes],
    *,
    staging: TableName | None = None,
    is_replicated: bool = False,
) -> dict[Node, Sql]:
    """Return the statement for each node that adds records of periods of one table, each numbered as `record` does.

    Replicas may be down while others publish, so their ledgers do not have the same records. If staging is replicated,
    the number is also at least that of the Keeper transaction that created it, so that the newest record of all
    replicas has the highest number, whichever of them were up.

    Args:
        ledger: The ledger.
        event: As in `core.ledger.records.record`.
        periods: The record of each period; at least one.
        staging: Fail unless this table exists: an attempt that was superseded while it slept must not record what its
            successor put into the partition. None by default.
        is_replicated: Whether that table is replicated. False by default.
    """
    by_node = defaultdict[Node, list[tuple[LedgerKey, Values]]](list)
    for period in periods:
        for node, of_node in period.items():
            by_node[node].append(of_node)
    at_least = number_of_creation(staging) if staging and is_replicated else "0"
    unless_gone = f" WHERE {is_there(staging)}" if staging else ""
    return {node: Sql(f"{_insert(ledger, event, some, at_least)}{unless_gone}") for node, some in by_node.items()}


def _insert(ledger: TableName, event: str, of_periods: Sequence[tuple[LedgerKey, Values]], at_least: str) -> str:
    """Return the INSERT. What all records have in common is written once.

    There is no JOIN, which settings of a profile would change.
    """
    key, name = of_periods[0][0], table(ledger)
    periods = [str(each.period) for each, _ in of_periods]
    beginnings, ends = _with_common_ends([values for _, values in of_periods])
    rows = [rendered(event, each, values) for (each, _), values in zip(of_periods, beginnings, strict=True)]
    own = ["period", *(name for name in rows[0] if name != "period" and len({row[name] for row in rows}) > 1)]
    columns = {name: f"each.{own.index(name) + 1}" if name in own else rows[0][name] for name in rows[0]}
    columns |= {name: f"concat({columns[name]}, {literal(end)})" for name, end in ends.items()}
    # Of one value, parentheses would be no tuple.
    tuples = ", ".join(f"tuple({', '.join(row[name] for name in own)})" for row in rows)
    return (
        f"INSERT INTO {name} ({', '.join(map(identifier, ('sequence', *columns)))}) "
        f"WITH (SELECT groupArray((period, last)) FROM (SELECT period, max(sequence) AS last FROM {name} "
        f"WHERE {key.table_condition} AND period IN ({literals(periods)}) GROUP BY period)) AS found "
        "SELECT greatest(arraySum(arrayMap(one -> if(one.1 = each.1, one.2, 0), found)) + 1, "
        f"{at_least}), {', '.join(columns.values())} FROM (SELECT arrayJoin([{tuples}]) AS each)"
    )


def _with_common_ends(several: Sequence[Values]) -> tuple[list[Values], dict[str, str]]:
    """Cut the JSON of each period into a beginning of its own, and an end that is that of all.

    The settings of their one insert are nearly all of it.

    Returns:
        The values with the beginnings alone, and the ends by the names of their columns.
    """
    beginnings, ends = [dict(values) for values in several], dict[str, str]()
    for name, first in several[0].items():
        if not isinstance(first, Mapping):
            continue
        every = [value for values in several if isinstance(value := values[name], Mapping)]
        same = {key: value for key, value in first.items() if all(key in each and each[key] == value for each in every)}
        if same:
            ends[name] = json_text(same).removeprefix("{")
            for values, each in zip(beginnings, every, strict=True):
                values[name] = _beginning({key: value for key, value in each.items() if key not in same})
    return list(beginnings), ends


def _beginning(own: Mapping[str, object]) -> str:
    return json_text(own).removesuffix("}") + ", " * bool(own)
