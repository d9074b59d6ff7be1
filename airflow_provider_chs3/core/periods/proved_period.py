"""The result of the proof of a period."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_chs3.core.ledger.records import PeriodOnNode
from airflow_provider_chs3.core.model.models import AsJson, Node, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.periods.digests import ObjectFinding

EQUAL, DIFFERS, REFUSED = "equal", "differs", "refused"


@dataclass(frozen=True, kw_only=True)
class AsOf(AsJson):
    """The state of a table during a proof. If it is the same later, nobody has written to the period since."""

    database: str
    table: str
    nodes: Mapping[Node, tuple[int, int, int]]

    @classmethod
    def of(cls, target: TableName, periods: Mapping[Node, PeriodOnNode]) -> AsOf:
        """Return it of a period as the nodes have it."""
        states = {node: period.state for node, period in periods.items()}
        nodes = {node: (state.max_block, state.data_version, state.rows) for node, state in states.items()}
        return cls(**target._asdict(), nodes=nodes)


@dataclass(frozen=True, kw_only=True)
class ProvedPeriod(AsJson):
    """A period of a table, compared with its objects."""

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
