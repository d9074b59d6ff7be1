"""Find the time that a DAG's runs cover, by its schedule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pendulum

from airflow_provider_chs3.exceptions import ConfigurationError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator

#: More than any clocks skip.
_BEFORE_SWITCH = timedelta(hours=4)
#: Their runs are points in time. By name, as Airflow has each of them twice: for DAG files, and for its scheduler.
_POINTS = frozenset({"CronTriggerTimetable", "DeltaTriggerTimetable", "MultipleCronTriggerTimetable", "OnceTimetable"})
#: Attributes of mappers that hold the mapper that writes the key.
_INNER = ("downstream_mapper", "upstream_mapper")


def check_schedule(task: BaseOperator, *, instead: str) -> None:
    """Check that the scheduled runs of a task's DAG have a data interval.

    Runs of a DAG without a schedule may get a period from their conf, so that they are checked when they run.
    """
    timetable, schedule = task.dag.timetable, task.dag.schedule
    if type(timetable).__name__ not in _POINTS or _interval(timetable):
        return
    is_cron = isinstance(schedule, str) and schedule != "@once"
    given = repr(schedule) if isinstance(schedule, str) else type(timetable).__name__
    cron, zone = (repr(schedule), repr(task.dag.timezone.name)) if is_cron else ("'0 3 * * *'", "'UTC'")
    raise ConfigurationError(
        f"DAG {task.dag_id!r} has schedule={given}, whose runs have no data interval (since Airflow 3), and task "
        f"{task.task_id!r} takes its period from there: set schedule=CronDataIntervalTimetable({cron}, "
        f"timezone={zone}), from airflow.timetables.interval, for the DAG, or {instead} for the task."
    )


def _interval(timetable: Any) -> Any:
    several = getattr(timetable, "timetables", None) or getattr(timetable, "_timetables", None)
    first = several[0] if several else timetable
    return getattr(first, "interval", None) or getattr(first, "_interval", None)


def data_interval(dag_run: Any, timetable: Any) -> tuple[datetime | None, datetime | None]:
    """Return start and end of a run's data interval."""
    start, end = dag_run.data_interval_start, dag_run.data_interval_end
    if start is None or start != end or type(timetable).__name__ != "CronDataIntervalTimetable":
        return start, end
    from airflow.timetables.interval import CronDataIntervalTimetable

    if not isinstance(timetable, CronDataIntervalTimetable):
        timetable = CronDataIntervalTimetable(timetable.expression, timezone=timetable.timezone)
    # Where the clocks skip the time of its cron, Airflow (3.3) gives manual runs an interval that ends as it begins.
    return timetable.infer_manual_data_interval(run_after=start - _BEFORE_SWITCH).end, end


def next_partition(timetable: Any, date: datetime) -> datetime | None:
    """Return when the partition after one begins, if it is the timetable that makes them."""
    if type(timetable).__name__ != "CronPartitionTimetable":
        return None
    from airflow.timetables.base import DataInterval, TimeRestriction
    from airflow.timetables.interval import CronDataIntervalTimetable

    cron = getattr(timetable, "expression", None) or timetable._expression  # as the scheduler has it
    at = pendulum.instance(date)
    info = CronDataIntervalTimetable(cron, timezone=_timezone(timetable)).next_dagrun_info(
        last_automated_data_interval=DataInterval(at.subtract(seconds=1), at),
        restriction=TimeRestriction(None, None, catchup=True),
    )
    return info.data_interval.end if info and info.data_interval else None


def timezone_of_keys(timetable: Any) -> tzinfo | None:
    """Return the time zone that partition keys are in: the timetable's, or its mapper's; None if it has neither."""
    if zone := _timezone(timetable):
        return ZoneInfo(zone) if isinstance(zone, str) else zone
    config = getattr(timetable, "partition_mapper_config", None) or {}
    mapper = next(iter(config.values()), getattr(timetable, "default_partition_mapper", None))
    return (_timezone_of_mapper(mapper) or UTC) if mapper else None


def _timezone(of: Any) -> Any:
    return getattr(of, "timezone", None) or getattr(of, "_timezone", None)


def _timezone_of_mapper(mapper: Any) -> tzinfo | None:
    """Return the time zone of a mapper, or else of those of its mappers that write the key."""
    inner = [*reversed(getattr(mapper, "mappers", ())), *(getattr(mapper, name, None) for name in _INNER)]
    zones = (_timezone_of_mapper(part) for part in inner if part)
    return _timezone(mapper) or next(filter(None, zones), None)
