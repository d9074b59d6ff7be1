"""What the schedule of a DAG says of the time that its runs cover."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from airflow_provider_chs3.exceptions import ConfigurationError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator

#: More than any clocks skip.
_BEFORE_SWITCH = timedelta(hours=4)
#: Their runs are points in time. By name, as Airflow has each of them twice: for DAG files, and for its scheduler.
_POINTS = frozenset({"CronTriggerTimetable", "DeltaTriggerTimetable", "MultipleCronTriggerTimetable", "OnceTimetable"})


def check_schedule(task: BaseOperator, *, instead: str) -> None:
    """Check that the scheduled runs of a task's DAG have a data interval.

    Runs of a DAG without a schedule may get a period from their conf, so that they are checked when they run.

    Args:
        task: The task, in its DAG.
        instead: What the task could be given instead.

    Raises:
        ConfigurationError: If there are none, such as those of `@daily` since Airflow 3.
    """
    timetable, schedule = task.dag.timetable, task.dag.schedule
    if type(timetable).__name__ not in _POINTS or _interval(timetable):
        return
    is_cron = isinstance(schedule, str) and schedule != "@once"
    given = repr(schedule) if isinstance(schedule, str) else type(timetable).__name__
    cron, zone = (repr(schedule), repr(task.dag.timezone.name)) if is_cron else ("'0 3 * * *'", "'UTC'")
    raise ConfigurationError(
        f"DAG {task.dag_id!r} has schedule={given}, whose runs have no data interval (since Airflow 3), and task "
        f"{task.task_id!r} takes its period from there: give the DAG schedule=CronDataIntervalTimetable({cron}, "
        f"timezone={zone}), from airflow.timetables.interval, or the task {instead}."
    )


def _interval(timetable: Any) -> Any:
    several = getattr(timetable, "timetables", None) or getattr(timetable, "_timetables", None)
    first = several[0] if several else timetable
    return getattr(first, "interval", None) or getattr(first, "_interval", None)


def data_interval(dag_run: Any, timetable: Any) -> tuple[datetime | None, datetime | None]:
    """Return start and end of a run's data interval.

    Args:
        dag_run: The run.
        timetable: That of its DAG.
    """
    start, end = dag_run.data_interval_start, dag_run.data_interval_end
    if start is None or start != end or type(timetable).__name__ != "CronDataIntervalTimetable":
        return start, end
    from airflow.timetables.interval import CronDataIntervalTimetable

    if not isinstance(timetable, CronDataIntervalTimetable):
        timetable = CronDataIntervalTimetable(timetable.expression, timezone=timetable.timezone)
    # Where the clocks skip the time of its cron, Airflow (3.3) gives manual runs an interval that ends as it begins.
    return timetable.infer_manual_data_interval(run_after=start - _BEFORE_SWITCH).end, end


def timezone_of(timetable: Any) -> tzinfo | None:
    """Return the time zone of a timetable; None if there is none."""
    found = getattr(timetable, "timezone", None) or getattr(timetable, "_timezone", None)
    return ZoneInfo(found) if isinstance(found, str) else found
