"""Add records to the ledgers: those of several months with one statement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_chs3.core.ledger.records import (
    Values,
    is_there,
    json_text,
    number_of_creation,
    record,
    rendered,
)
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, literals, table
from airflow_provider_chs3.core.values.models import Node, TableName
from airflow_provider_chs3.core.workflow.operations import QueryOneOfSeveral
from airflow_provider_chs3.core.workflow.rendered import Rendered


@dataclass(frozen=True, kw_only=True)
class NewRecord:
    """A record of a month for each of some nodes.

    Args:
        ledger: The ledger.
        event: As in `core.ledger.records.record`.
        values: The key, and further columns, on each node.
        staging: As in `core.ledger.records.record`; None by default.
        is_replicated: As in `core.ledger.records.record`; False by default.
    """

    ledger: TableName
    event: str
    values: Mapping[Node, tuple[LedgerKey, Values]]
    staging: TableName | None = None
    is_replicated: bool = False

    def step(self, name: str, *, query_id: str | None = None) -> QueryOneOfSeveral:
        """Return the step that adds it. In lockstep, those of several months become one statement.

        Args:
            name: Name of the step. Those of one name, but for the month, must have the same ledger, event and staging.
            query_id: Beginning of the query ids; None lets the runner choose.
        """
        return QueryOneOfSeveral(
            name=name,
            sql=Rendered(self.values, lambda node: self._on_node(*self.values[node])),
            query_id=query_id,
            subject=self,
            of_several=_records_of_several,
        )

    def _on_node(self, key: LedgerKey, values: Values) -> Sql:
        return record(self.ledger, key, self.event, values, staging=self.staging, is_replicated=self.is_replicated)


def _records_of_several(several: Sequence[NewRecord]) -> dict[Node, Sql]:
    by_node = defaultdict[Node, list[tuple[LedgerKey, Values]]](list)
    for each in several:
        for node, of_node in each.values.items():
            by_node[node].append(of_node)
    return {node: _insert(several[0], of_months) for node, of_months in by_node.items()}


def _insert(one: NewRecord, of_months: Sequence[tuple[LedgerKey, Values]]) -> Sql:
    """Return the statement that adds records of months of one table, each numbered as `record` does.

    What all of them have in common is written once. There is no JOIN, which settings of a profile would change.
    """
    ledger, key = table(one.ledger), of_months[0][0]
    months = [str(each.month) for each, _ in of_months]
    beginnings, ends = _with_common_ends([values for _, values in of_months])
    rows = [rendered(one.event, each, values) for (each, _), values in zip(of_months, beginnings, strict=True)]
    own = ["month", *(name for name in rows[0] if name != "month" and len({row[name] for row in rows}) > 1)]
    columns = {name: f"each.{own.index(name) + 1}" if name in own else rows[0][name] for name in rows[0]}
    columns |= {name: f"concat({columns[name]}, {literal(end)})" for name, end in ends.items()}
    # Of one value, parentheses would be no tuple.
    tuples = ", ".join(f"tuple({', '.join(row[name] for name in own)})" for row in rows)
    at_least = number_of_creation(one.staging) if one.staging and one.is_replicated else "0"
    unless_gone = f" WHERE {is_there(one.staging)}" if one.staging else ""
    return Sql(
        f"INSERT INTO {ledger} ({', '.join(map(identifier, ('sequence', *columns)))}) "
        f"WITH (SELECT groupArray((month, last)) FROM (SELECT month, max(sequence) AS last FROM {ledger} "
        f"WHERE {key.table_condition} AND month IN ({literals(months)}) GROUP BY month)) AS found "
        "SELECT greatest(arraySum(arrayMap(one -> if(one.1 = each.1, one.2, 0), found)) + 1, "
        f"{at_least}), {', '.join(columns.values())} FROM (SELECT arrayJoin([{tuples}]) AS each){unless_gone}"
    )


def _with_common_ends(several: Sequence[Values]) -> tuple[list[Values], dict[str, str]]:
    """Cut the JSON of each month into a beginning of its own, and an end that is that of all.

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
