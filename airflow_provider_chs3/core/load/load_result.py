"""The result of a load, for XCom, logs and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_chs3.core.arguments.check_arguments import CheckResult
from airflow_provider_chs3.core.model.json_values import AsJson
from airflow_provider_chs3.core.model.models import SettingValues, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.quantities import quantity

#: Advice about a held version.
TO_DECIDE = "chs3 approve publishes it, chs3 discard drops the held rows, and a load of other objects replaces them"


#: The fields of a load's result that the event of its period carries.
OF_EVENT = ("period", "status", "reason", "target", "rows", "source_bytes", "objects", "parts", "fingerprint")


@dataclass(frozen=True)
class LoadResult(AsJson):
    """The result of a load; that of an arrival has those of the periods that it changed in `of_periods`."""

    status: str
    period: Period
    target: TableName
    reason: str
    fingerprint: str = ""
    objects: int = 0
    source_bytes: int = 0
    rows: int = 0
    rows_by_node: Mapping[str, int] = field(default_factory=dict)
    loaded_objects: int = 0
    loaded_bytes: int = 0
    loaded_rows: int = 0
    object_changes: Mapping[str, int] = field(default_factory=dict)
    other_period_rows: int = 0
    of_periods: tuple[LoadResult, ...] | None = None
    parts: int = 0
    table_bytes: int = 0
    insert_seconds: float = 0.0
    peak_memory_bytes: int | None = None
    attempt: str = ""
    query_ids: tuple[str, ...] = ()
    settings: SettingValues = field(default_factory=dict)
    seconds_by_step: Mapping[str, float] = field(default_factory=dict)
    counted_by: str = ""
    checks: tuple[CheckResult, ...] = ()
    has_no_objects: bool = False

    def summary(self) -> str:
        """Summarize the result in one line for people."""
        of = f"{self.target} {self.period}"
        if self.status == "skipped":
            return f"{of} skipped: {self.reason}."
        if self.status == "held":
            todo = "" if "chs3 approve" in self.reason else ". " + TO_DECIDE
            return f"{of} held, the table is unchanged: {self.reason}{todo}."
        rows = quantity(self.rows, "row")
        if self.objects:
            rows += f" from {quantity(self.objects, 'object')}"
        if self.status == "unchanged":
            return f"{of} unchanged ({self.reason}): {rows}, nothing to load."
        speed = f"{self.loaded_rows / self.insert_seconds:,.0f} rows/s" if self.insert_seconds else "nothing to insert"
        parts = f"{quantity(self.parts, 'part')} on {quantity(len(self.rows_by_node), 'node')}"
        new = f", {self.loaded_rows:,} of them new," if self.loaded_objects < self.objects else ""
        touched = f", in {quantity(len(self.of_periods), 'period')}" if self.of_periods else ""
        left_out = f"; {self.other_period_rows:,} rows of other periods left out" if self.other_period_rows else ""
        return (
            f"{of} {self.status} ({self.reason}): {rows}{new} in "
            f"{self.insert_seconds:.1f} s ({speed}), {parts}{touched}{left_out}."
        )

    def as_json(self) -> dict[str, Any]:
        """Return JSON-safe values for XCom."""
        of_periods = None if self.of_periods is None else [of.as_json() for of in self.of_periods]
        return {
            **super().as_json(),
            "of_periods": of_periods and [{name: of[name] for name in OF_EVENT} for of in of_periods],
            "target": str(self.target),
            "checks": [check.as_json() for check in self.checks],
            "insert_seconds": round(self.insert_seconds, 3),
            "seconds_by_step": {name: round(seconds, 3) for name, seconds in self.seconds_by_step.items()},
        }


def published_periods(results: Iterable[LoadResult]) -> list[LoadResult]:
    """Return the results of the table's periods: an arrival changes other periods than its own."""
    return [of for result in results for of in ((result,) if result.of_periods is None else result.of_periods)]


def changed_periods(result: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the results of the table's periods: an arrival changes other periods than its own.

    Args:
        result: A load's result.
    """
    of_periods: Sequence[Mapping[str, Any]] | None = result.get("of_periods")
    return [result] if of_periods is None else of_periods
