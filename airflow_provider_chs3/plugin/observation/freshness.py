"""Whether tables have the periods that are due, and which one is overdue."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from airflow_provider_chs3.core.model.freshness import Freshness
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.plugin.observation.due_times import Due
from airflow_provider_chs3.plugin.observation.period_state import HOLDS_ITS_ROWS, PeriodState
from airflow_provider_chs3.plugin.observation.periods import PeriodOverview, TableOverview
from airflow_provider_chs3.plugin.observation.unchanged_periods import parsed

#: States of a period that is overdue instead, if it is: all others say more.
_OVERDUE_INSTEAD = (PeriodState.NEVER_LOADED, PeriodState.UNFINISHED, *HOLDS_ITS_ROWS)


def add_freshness(
    tables: Mapping[TableName, TableOverview], due: Mapping[TableName, Due], at: datetime
) -> dict[TableName, TableOverview]:
    """Add to tables whether they are fresh, and to late ones the period that is overdue."""
    return {
        name: _with_freshness(overview, due[name], at) if name in due else overview for name, overview in tables.items()
    }


def _with_freshness(overview: TableOverview, due: Due, at: datetime) -> TableOverview:
    shown = {period.period: period for period in overview.periods}
    published = {name: _looked_at(period, due) for name, period in shown.items() if period.state in HOLDS_ITS_ROWS}
    looks = {parsed(name): looked_at for name, looked_at in published.items() if looked_at}
    freshness = Freshness.of(due.fresh_by, looks, at)
    overview = overview._replace(freshness=freshness)
    if freshness.is_fresh or not freshness.next_period:
        return overview
    # A table without periods is one.
    name = "all" if "all" in shown else str(freshness.next_period)
    known = shown.get(name)
    if known and known.state not in _OVERDUE_INSTEAD:
        return overview
    periods = {**shown, name: _overdue(name, known, _owner(overview), freshness)}
    return overview._replace(periods=tuple(periods[key] for key in sorted(periods, key=parsed)))


def _looked_at(period: PeriodOverview, due: Due) -> datetime | None:
    published = [datetime.fromisoformat(period.published_at).replace(tzinfo=UTC)] if period.published_at else []
    return max([*published, *([due.looks[period.period]] if period.period in due.looks else [])], default=None)


def _owner(overview: TableOverview) -> str:
    """Return the task that loaded the newest period."""
    return next((period.owner for period in reversed(overview.periods) if period.owner), "")


def _overdue(name: str, known: PeriodOverview | None, owner: str, freshness: Freshness) -> PeriodOverview:
    assert freshness.due_at is not None  # it is late
    due = freshness.fresh_by.local(freshness.due_at)
    is_there = known is not None and known.state in HOLDS_ITS_ROWS
    reason = "no load has looked for further objects since it ended" if is_there else "no load has published it"
    overdue = known or PeriodOverview(period=name, state=PeriodState.OVERDUE, why="", owner=owner)
    overdue.state = PeriodState.OVERDUE
    overdue.why = f"it was due {due}, and {reason}"
    overdue.since = f"{freshness.due_at:%Y-%m-%d %H:%M:%S}"
    return overdue


def as_json(freshness: Freshness | None) -> dict[str, object] | None:
    """Return the values that `api.schemas.TableFreshness` is made of."""
    if freshness is None or freshness.due_at is None:
        return None
    return {
        "fresh_by": str(freshness.fresh_by),
        "due_at": freshness.due_at.timestamp(),
        "next_period": str(freshness.next_period),
    }
