"""Decide what happens to a period, for loads, plans, the page, the doctor and adoption alike; the result of a load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from airflow_provider_chs3.core.arguments.check_arguments import CheckResult
from airflow_provider_chs3.core.ledger.period_comparison import Comparison, ComparisonStatus
from airflow_provider_chs3.core.ledger.records import Held
from airflow_provider_chs3.core.load.load_request import Policies
from airflow_provider_chs3.core.load.retry_policy import ASKED_FOR
from airflow_provider_chs3.core.model.models import AsJson, SettingValues, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.quantities import quantity, size_text
from airflow_provider_chs3.exceptions import TargetChangedError

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
    """Return the results of the table's periods of a load's result; see `published_periods`."""
    of_periods: Sequence[Mapping[str, Any]] | None = result.get("of_periods")
    return [result] if of_periods is None else of_periods


class Refusal(Enum):
    """The reason why a load is refused."""

    NO_OBJECTS, ROWS_UNKNOWN, TARGET_CHANGED, FEWER_NODES, REPLICA_DOWN, SHRANK, WHOLE_TABLE, NOT_HELD = range(8)


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about a period."""

    reason: str
    held_because: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True)
class Skip(Decision):
    """Leave the period: it is as published or pinned, or it `has_no_objects` without that being an error."""

    has_no_objects: bool = False


@dataclass(frozen=True, slots=True)
class Refuse(Decision):
    """End the load with an error, for the reason `refusal`."""

    refusal: Refusal


class KeepHeld(Decision):
    """Keep the held version of the current objects: a person decides whether to publish it."""


class Whole(Decision):
    """Load all objects."""


class Add(Decision):
    """Load only the new objects."""


class Finish(Decision):
    """Complete the publication of a dead attempt, if its staging is unchanged."""


#: A load that publishes between two queries looks the same, so both are looked at once more.
OF_OTHERS = (ComparisonStatus.ROWS_UNKNOWN, ComparisonStatus.TARGET_CHANGED)
#: The table is loaded for the first time, or another policy permits the reload.
_NEEDS_NO_PERMISSION = (ComparisonStatus.NEW, ComparisonStatus.FEWER_NODES, *OF_OTHERS)
#: The comparison of a period without rows and records.
NEVER_LOADED = Comparison(ComparisonStatus.NEW, (), ComparisonStatus.NEW.value)


@dataclass(frozen=True, kw_only=True, slots=True)
class PeriodFacts:
    """Facts about a period."""

    comparison: Comparison = NEVER_LOADED
    objects: int | None = None
    contents: str = "objects"
    size_bytes: int = 0
    published_bytes: int = 0
    is_reload: bool = False
    lacks_replica: bool = False
    intended: str = ""
    why_whole: str | None = None
    held: Held | None = None
    why_not_held: str = ""
    is_approval: bool = False
    is_published_table: bool = False


def decide(facts: PeriodFacts, policies: Policies | None = None) -> Decision:
    """Decide what happens to a period; one that matches its objects stays, whatever the policies for changes say."""
    policies = policies or Policies()
    reason = facts.comparison.reason
    if stays := _decide_stay(facts):
        return stays
    if facts.is_approval:
        why_not = facts.why_not_held or "it was held for too long"
        return Finish(reason) if facts.intended else Refuse(why_not, Refusal.NOT_HELD)
    if facts.objects == 0 and policies.on_no_objects != "empty":
        missing = f"no {facts.contents}"
        is_skipped = policies.on_no_objects == "skip"
        return Skip(missing, has_no_objects=True) if is_skipped else Refuse(missing, Refusal.NO_OBJECTS)
    if refusal := _refusal(facts, policies):
        return Refuse(_shrank_text(facts) if refusal is Refusal.SHRANK else reason, refusal)
    return _decide_load(facts, policies)


def _decide_load(facts: PeriodFacts, policies: Policies) -> Decision:
    (status, _, reason), held_because = facts.comparison, _why_to_hold(facts, policies)
    if status is ComparisonStatus.UNCHANGED:
        return Whole(ASKED_FOR)
    if facts.intended and not facts.is_reload:
        return Finish(reason)
    if status is ComparisonStatus.OBJECTS_CHANGED and facts.why_whole == "":
        return Add(reason, held_because=held_because)
    if _reloads_table(facts) and not policies.reload_whole_table:
        return Refuse(facts.why_whole or reason, Refusal.WHOLE_TABLE)
    return Whole(reason, held_because=held_because)


def _decide_stay(facts: PeriodFacts) -> Decision | None:
    if facts.comparison.status is ComparisonStatus.PINNED:
        return Refuse(facts.comparison.reason, Refusal.NOT_HELD) if facts.is_approval else Skip(facts.comparison.reason)
    if facts.is_reload:
        return None
    if facts.held and not facts.held.is_over:
        return KeepHeld(held_text(facts.held))
    return Skip(facts.comparison.reason) if facts.comparison.status is ComparisonStatus.UNCHANGED else None


def held_text(held: Held) -> str:
    """Return since when and why something is held, and what to do."""
    return f"held since {held.since} UTC: {held.reason}. {TO_DECIDE}"


def whole_table_error(target: TableName, sizes: str, reason: str, *, has_object_column: bool) -> TargetChangedError:
    """Return the error of `Refusal.WHOLE_TABLE`; loads raise it, plans report it."""
    way = (
        " With increments={'object_column': …}, loads replace only the rows of overwritten and deleted objects, up to "
        "a quarter of the table's bytes."
    )
    return TargetChangedError(
        f"{target} has no partitions, so this would load it whole again, reading {sizes}: {reason}. The table is "
        "unchanged. To allow this, set policies={'reload_whole_table': True}, for example for one run."
        + ("" if has_object_column else way)
    )


def _reloads_table(facts: PeriodFacts) -> bool:
    """Check whether a whole table would be read again unrequested."""
    if not (facts.is_published_table and facts.objects) or facts.is_reload:
        return False
    may_add = facts.comparison.status is ComparisonStatus.OBJECTS_CHANGED and facts.why_whole is None
    return not may_add and facts.comparison.status not in _NEEDS_NO_PERMISSION


def _refusal(facts: PeriodFacts, policies: Policies) -> Refusal | None:
    status = facts.comparison.status
    may_reload = policies.on_target_changed == "reload"
    # A load by arrival would replace rows of objects that only the other replica knows.
    if status in OF_OTHERS and facts.lacks_replica and (policies.is_by_arrival or not may_reload):
        return Refusal.REPLICA_DOWN
    if status is ComparisonStatus.FEWER_NODES and not may_reload:
        return Refusal.FEWER_NODES
    if _is_of_others(facts, policies) and policies.on_target_changed != "hold":
        return Refusal.ROWS_UNKNOWN if status is ComparisonStatus.ROWS_UNKNOWN else Refusal.TARGET_CHANGED
    return Refusal.SHRANK if _shrank(facts, policies) and policies.on_shrink == "fail" else None


def _why_to_hold(facts: PeriodFacts, policies: Policies) -> str:
    """Return why a person decides about the replacement; empty if nobody does."""
    reasons = [facts.comparison.reason] if _is_of_others(facts, policies) else []
    if _shrank(facts, policies):
        reasons.append(_shrank_text(facts))
    return "; ".join(reasons)


def _is_of_others(facts: PeriodFacts, policies: Policies) -> bool:
    """Check whether a load would replace rows of others without permission."""
    if facts.comparison.status is ComparisonStatus.ROWS_UNKNOWN:
        return not policies.replace_unknown
    return facts.comparison.status is ComparisonStatus.TARGET_CHANGED and policies.on_target_changed != "reload"


def _shrank(facts: PeriodFacts, policies: Policies) -> bool:
    return bool(facts.objects) and facts.size_bytes < facts.published_bytes * (1 - policies.max_shrink_fraction)


def _shrank_text(facts: PeriodFacts) -> str:
    before, after = size_text(facts.published_bytes), size_text(facts.size_bytes)
    return f"its {facts.contents} shrank from {before} to {after} since they were published"
