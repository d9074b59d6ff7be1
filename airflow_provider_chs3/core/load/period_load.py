"""A period in an attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_provider_chs3.core.arguments.check_arguments import CheckResult
from airflow_provider_chs3.core.ledger.parts import NOTHING_BESIDE, Contents
from airflow_provider_chs3.core.ledger.recording import Value
from airflow_provider_chs3.core.ledger.records import PeriodOnNode, Record
from airflow_provider_chs3.core.load.insert_plan import InsertPlan
from airflow_provider_chs3.core.load.load_context import LoadContext
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.steps.batch import Batch


@dataclass(frozen=True, slots=True)
class Staged:
    """The staged rows of one node.

    Args:
        partitions: Contents of the period's non-empty partitions, by id.
        other_rows: Rows of other periods, by partition as ClickHouse shows it: `202404`, `2024-04-01`, `NULL`.
    """

    partitions: Mapping[str, Contents]
    other_rows: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows of the period."""
        return sum(partition.rows for partition in self.partitions.values())

    @property
    def counts(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Rows by partition of the period and of other periods."""
        return {key: contents.rows for key, contents in self.partitions.items()}, self.other_rows

    def has_parts_of(self, other: Staged) -> bool:
        """Check whether both are known to have the same parts."""
        return all(contents.has_parts_of(other.at(key)) for key, contents in self.partitions.items())

    def at(self, partition_id: str) -> Contents:
        """Return the contents of a partition."""
        return self.partitions.get(partition_id, NOTHING_BESIDE)


@dataclass(frozen=True, kw_only=True)
class PeriodLoad:
    """A period to load.

    Args:
        load: The load of its new objects, or of all.
        before: The period by node at the time of the decision.
        reason: The reason to load it, as text.
        plan: The plan of its insert; None until it is planned.
        staged: The staged rows by node; empty until they are verified.
        intended: The records of a dead attempt that is being completed; none by default.
        claims: Further values of its records, as for restored versions; none by default.
        held_because: The reason to hold it; empty, the default, if it is published.
        checks: Results of the user's checks; none by default.
    """

    load: LoadContext
    before: Mapping[Node, PeriodOnNode]
    reason: str
    plan: InsertPlan | None = None
    staged: Mapping[Node, Staged] = field(default_factory=dict)
    intended: Mapping[Node, Record] = field(default_factory=dict)
    claims: Mapping[str, Value] = field(default_factory=dict)
    held_because: str = ""
    checks: tuple[CheckResult, ...] = ()

    @property
    def period(self) -> Period:
        """The period."""
        return self.load.request.period

    @property
    def planned(self) -> InsertPlan:
        """The plan of its insert, once there is one."""
        assert self.plan
        return self.plan

    def of(self, load: LoadContext) -> PeriodLoad:
        """Return the period with another load."""
        return replace(self, load=load)


Periods = Batch[Period, PeriodLoad]


def periods_of(*loads: PeriodLoad) -> Periods:
    """Return loads of periods of a table as a batch."""
    return Batch({load.period: load for load in loads})
