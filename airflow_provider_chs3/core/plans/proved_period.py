"""The result of the proof of a period."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_chs3.core.ledger.records import PeriodOnNode
from airflow_provider_chs3.core.plans.digests import ObjectFinding
from airflow_provider_chs3.core.values.json_values import AsJson
from airflow_provider_chs3.core.values.models import Node, TableName
from airflow_provider_chs3.core.values.period import Period

EQUAL, DIFFERS, REFUSED = "equal", "differs", "refused"


@dataclass(frozen=True, kw_only=True)
class AsOf(AsJson):
    """The state of a table during a proof. If it is the same later, nobody has written to the period since.

    Args:
        database: The local table's database.
        table: Its name.
        nodes: The highest block of the period on each node, its data version and its rows, as in `PartitionState`.
    """

    database: str
    table: str
    nodes: Mapping[Node, tuple[int, int, int]]

    @classmethod
    def of(cls, target: TableName, periods: Mapping[Node, PeriodOnNode]) -> AsOf:
        """Return it of a period as the nodes have it.

        Args:
            target: The local table.
            periods: The period on each node.
        """
        states = {node: period.state for node, period in periods.items()}
        nodes = {node: (each.max_block, each.data_version, each.rows) for node, each in states.items()}
        return cls(**target._asdict(), nodes=nodes)


@dataclass(frozen=True, kw_only=True)
class ProvedPeriod(AsJson):
    """A period of a table, compared with its objects.

    Args:
        period: The period.
        status: `equal`, `differs`, or `refused` if they could not be compared.
        reason: What differs, or why they could not be compared, as a text.
        rows: Rows of the period in the table; 0 if they were not read.
        source_rows: Rows of the objects; 0 if they were not read.
        columns: Columns whose values differ, if the numbers of rows do not.
        objects: The objects that the table does not hold as they are, as far as they can be told.
        left_out: Columns of the table that were not compared, each with the reason.
        other_rows: Rows of the objects that the table puts into other periods, which were not compared.
        compared_objects: Number of objects that were read.
        as_of: The state of the table when it was compared; None if it was not.
        definition: The definition of the load by which it was compared; None if nobody gave or recorded one: then the
            objects were read as by a load without arguments.
    """

    period: Period
    status: str
    reason: str
    rows: int = 0
    source_rows: int = 0
    columns: tuple[str, ...] = ()
    objects: tuple[ObjectFinding, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    other_rows: int = 0
    compared_objects: int = 0
    as_of: AsOf | None = None
    definition: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return f"{self.period} {self.status}: {self.reason}"

    def as_json(self) -> dict[str, Any]:
        """Return JSON-safe values."""
        return {
            **super().as_json(),
            "objects": [each.as_json() for each in self.objects],
            "as_of": self.as_of and self.as_of.as_json(),
        }
