"""How a month can stand, and which of several things that hold of it is told."""

from __future__ import annotations

from enum import Enum, StrEnum

from airflow_provider_chs3.core.ledger.comparison import ComparisonStatus
from airflow_provider_chs3.core.merges.health import Health


class MonthState(StrEnum):
    """How a month stands."""

    PUBLISHED = "published"
    LOADING = "loading"
    FAILED = "failed"
    UNFINISHED = "unfinished"
    CHANGED = "changed"
    NEVER_LOADED = "never_loaded"
    MERGING = "merging"
    TOO_MANY_PARTS = "too_many_parts"
    STUCK = "stuck"


class LastLoad(Enum):
    """What became of the load that was recorded last."""

    NONE = "there is none, or it has published the month"
    RUNNING = "it runs, or its task is about to go on"
    FAILED = "it ended with an error"
    GONE = "it published nothing, and is gone"


def state_of(found: ComparisonStatus, load: LastLoad, health: Health) -> MonthState:
    """Decide how a month stands: the first that applies, what a person must act on before what passes by itself.

    Args:
        found: How its partition compares with the ledger.
        load: What became of its newest load.
        health: How its merges stand.
    """
    if load is LastLoad.RUNNING:
        return MonthState.LOADING
    if health is Health.STUCK:
        return MonthState.STUCK
    if found in (ComparisonStatus.ROWS_UNKNOWN, ComparisonStatus.TARGET_CHANGED, ComparisonStatus.FEWER_NODES):
        return MonthState.CHANGED
    if load is LastLoad.FAILED:
        return MonthState.FAILED
    if load is LastLoad.GONE or found not in (ComparisonStatus.UNCHANGED, ComparisonStatus.NEW):
        return MonthState.UNFINISHED
    if found is ComparisonStatus.NEW:
        return MonthState.NEVER_LOADED
    return {
        Health.SETTLING: MonthState.MERGING,
        Health.SETTLED_WITH_TOO_MANY_PARTS: MonthState.TOO_MANY_PARTS,
    }.get(health, MonthState.PUBLISHED)
