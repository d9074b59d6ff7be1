"""The states of a period as its servers know them, and which one to show if several apply.

`plugin.answers` adds those that take the objects, other tables and the schedule.
"""

from __future__ import annotations

from enum import Enum, StrEnum

from airflow_provider_chs3.core.ledger.period_comparison import Comparison, ComparisonStatus
from airflow_provider_chs3.core.ledger.records import Held
from airflow_provider_chs3.core.load.decision import KeepHeld, PeriodFacts, Refuse, Skip, decide
from airflow_provider_chs3.core.load.load_request import Policies
from airflow_provider_chs3.core.watch.health import Health


class PeriodState(StrEnum):
    """The state of a period; some need what Airflow knows of its runs."""

    PUBLISHED = "published"
    LOADING = "loading"
    FAILED = "failed"
    UNFINISHED = "unfinished"
    CHANGED = "changed"
    NEVER_LOADED = "never_loaded"
    MERGING = "merging"
    TOO_MANY_PARTS = "too_many_parts"
    #: A published period whose merges should run, and have not for a while.
    MERGES_WAIT = "merges_wait"
    STUCK = "stuck"
    GONE = "gone"
    #: A published period whose objects have changed since.
    CHANGED_IN_STORAGE = "changed_in_storage"
    #: A published period whose objects have changed since, and which a load does not replace, as a plan found.
    BLOCKED = "blocked"
    #: A published period that does not hold its objects' rows, as a proof found.
    DIFFERS = "differs"
    #: A published period of a derived table whose base has changed since.
    STALE = "stale"
    #: Somebody has restored an earlier version of the period: loads leave it.
    PINNED = "pinned"
    #: A period with rows that failed a check, and that somebody is to approve or discard.
    HELD = "held"
    #: A period of a paused DAG that the next load would change.
    PAUSED = "paused"
    #: A period whose DAG's run was due, and was not created.
    LATE = "late"
    #: A period that is missing though it is due by its load's `fresh_by`.
    OVERDUE = "overdue"
    #: A period that the next load would change, though no run of its DAG comes by itself.
    STRANDED = "stranded"


#: States of a period that is as published, whatever its merges do.
HOLDS_ITS_ROWS = (PeriodState.PUBLISHED, PeriodState.MERGING, PeriodState.MERGES_WAIT, PeriodState.TOO_MANY_PARTS)


class LastLoad(Enum):
    """The outcome of the load that was recorded last."""

    NONE = "there is none, or it published the period"
    RUNNING = "it is running, or its task will continue"
    FAILED = "it ended with an error"
    GONE = "it ended with neither a publication nor an error"


#: Those of a load without any.
_POLICIES = Policies()
_OF_HEALTH = {
    Health.SETTLING: PeriodState.MERGING,
    Health.SETTLED_WITH_TOO_MANY_PARTS: PeriodState.TOO_MANY_PARTS,
}


def state_of(comparison: Comparison, load: LastLoad, health: Health, held: Held | None = None) -> PeriodState:
    """Return the state of a period: the first that applies; states that need a person come before temporary ones."""
    if load is LastLoad.RUNNING:
        return PeriodState.LOADING
    if health is Health.STUCK:
        return PeriodState.STUCK
    if comparison.status is ComparisonStatus.PINNED:
        return PeriodState.PINNED
    decision = decide(PeriodFacts(comparison=comparison, held=held), _POLICIES)
    if isinstance(decision, Refuse):
        return PeriodState.CHANGED
    if load is LastLoad.FAILED:
        return PeriodState.FAILED
    if isinstance(decision, KeepHeld):
        return PeriodState.HELD
    is_new = comparison.status is ComparisonStatus.NEW
    if load is LastLoad.GONE or not (is_new or isinstance(decision, Skip)):
        return PeriodState.UNFINISHED
    if is_new:
        return PeriodState.NEVER_LOADED
    return _OF_HEALTH.get(health, PeriodState.PUBLISHED)
