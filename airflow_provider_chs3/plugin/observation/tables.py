"""The state of all tables: their periods, and whether those that are due are there."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow_provider_chs3.core.arguments.merge_arguments import Thresholds
from airflow_provider_chs3.core.model.freshness import Freshness
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.plugin.observation.due_times import Due
from airflow_provider_chs3.plugin.observation.period_state import HOLDS_ITS_ROWS, PeriodState
from airflow_provider_chs3.plugin.observation.periods import PeriodOverview, TableOverview, overview
from airflow_provider_chs3.plugin.observation.periods_facts import with_contents
from airflow_provider_chs3.plugin.observation.running_inserts import TasksOfLoads
from airflow_provider_chs3.plugin.observation.snapshots import ClusterSnapshot
from airflow_provider_chs3.plugin.observation.unchanged_periods import parsed

#: States of a period that is overdue instead, if it is: all others say more.
_OVERDUE_INSTEAD = (PeriodState.NEVER_LOADED, PeriodState.UNFINISHED, *HOLDS_ITS_ROWS)


def judge_tables(
    seen: ClusterSnapshot, *, tasks: TasksOfLoads, thresholds: Thresholds, at: datetime
) -> Steps[dict[TableName, TableOverview]]:
    """Return the state of all tables. Those that seem changed are compared by the contents of their parts, too."""
    tables = overview(seen, tasks=tasks, thresholds=thresholds)
    others = [
        name for name, table in tables.items() if PeriodState.CHANGED in {period.state for period in table.periods}
    ]
    if others:
        compared = yield from with_contents(seen, others)
        tables |= overview(compared, tasks=tasks, thresholds=thresholds, only=others)
    return {
        name: _with_freshness(of_table, seen.due[name], at) if name in seen.due else of_table
        for name, of_table in tables.items()
    }


def _with_freshness(of_table: TableOverview, due: Due, at: datetime) -> TableOverview:
    shown = {period.period: period for period in of_table.periods}
    published = {name: _looked_at(period, due) for name, period in shown.items() if period.state in HOLDS_ITS_ROWS}
    # A period may get rows of any arrival.
    looks = {parsed(name): looked_at for name, looked_at in (due.arrivals or published).items() if looked_at}
    freshness = Freshness.of(due.fresh_by, looks, at)
    of_table = of_table._replace(freshness=freshness)
    if freshness.is_fresh or not freshness.next_period:
        return of_table
    # A table without periods is one.
    name = "all" if "all" in shown else str(freshness.next_period)
    known = shown.get(name)
    if known and known.state not in _OVERDUE_INSTEAD:
        return of_table
    # That of the newest period.
    owner = next((period.owner for period in reversed(of_table.periods) if period.owner), "")
    periods = {**shown, name: _overdue(name, known, owner, freshness)}
    return of_table._replace(periods=tuple(periods[key] for key in sorted(periods, key=parsed)))


def _looked_at(period: PeriodOverview, due: Due) -> datetime | None:
    published = [datetime.fromisoformat(period.published_at).replace(tzinfo=UTC)] if period.published_at else []
    return max([*published, *([due.looks[period.period]] if period.period in due.looks else [])], default=None)


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


def freshness_as_json(freshness: Freshness | None) -> dict[str, object] | None:
    """Return the values that `api.schemas.TableFreshness` is made of."""
    if freshness is None or freshness.due_at is None:
        return None
    return {
        "fresh_by": str(freshness.fresh_by),
        "due_at": freshness.due_at.timestamp(),
        "next_period": str(freshness.next_period),
    }
