"""The periods of runs as Airflow makes them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import airflow
import pendulum
import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowSkipException
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_chs3.core.model.period import Grain, Period
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.operators._support.period_task import PeriodTask
from airflow_provider_chs3.sources.s3 import S3Objects
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

#: As DAG files have it since Airflow 3.2; and before.
TIMETABLES: list[Any] = [CronDataIntervalTimetable]
if not airflow.__version__.startswith("3.1."):
    from airflow.sdk import CronDataIntervalTimetable as OfDagFiles

    TIMETABLES.append(OfDagFiles)

NIGHTLY = CronDataIntervalTimetable("0 3 * * *", timezone="UTC")


class TellPeriods(PeriodTask):
    """Return the run's periods."""

    of_table = Grain.MONTH

    @property
    def argument_for_period(self) -> str:
        return "period"

    def execute(self, context: Any) -> list[str]:
        self.reload_of_run(context)
        return [str(period) for period in self.periods_of_run(context, self.of_table)]


def task(schedule: Any, *, start_date: datetime = datetime(2023, 1, 1, tzinfo=UTC), **params: Any) -> TellPeriods:
    with DAG("tells", schedule=schedule, start_date=start_date, params=params):
        return TellPeriods(task_id="tell", table="t", objects=S3Objects(key="{YYYY-MM}/", bucket="b"))


def periods(of: TellPeriods, **run: Any) -> list[str]:
    return of.execute({"dag_run": SimpleNamespace(**{"data_interval_start": None, "data_interval_end": None, **run})})


def test_an_unknown_time_zone_is_an_error_also_where_the_period_is_given() -> None:
    with DAG("tells", schedule=None):
        given = S3ToClickHouseOperator(
            task_id="load", period="2026-10", bucket="b", key="{YYYY-MM}", table="t", timezone="{{ zone }}"
        )
    with pytest.raises(ConfigurationError, match=r"timezone='Europe/Berln' is not known: use a name such as"):
        given.render_template_fields({"zone": "Europe/Berln"})


def test_a_list_without_periods_skips_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", '{"conn_type": "chs3", "host": "127.0.0.1", "port": 1}')
    load = S3ToClickHouseOperator(task_id="load", periods=["2026-10"], bucket="b", key="{YYYY-MM}", table="t")
    load.periods = []
    with pytest.raises(AirflowSkipException, match="periods is empty"):
        load.execute({})


def test_a_period_and_periods_are_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"period='2026-01', periods=\['2026-02'\]: set one of the two\."):
        S3ToClickHouseOperator(
            task_id="load", period="2026-01", periods=["2026-02"], bucket="b", key="{YYYY-MM}", table="t"
        )


@pytest.mark.parametrize("timetable", TIMETABLES)
@pytest.mark.parametrize(
    ("cron", "zone", "at", "is_empty", "expected"),
    [
        # The clocks skip the time of the cron: Airflow gives such a run an empty interval.
        ("30 2 * * *", "Europe/Berlin", "2026-03-29T12:00", True, ["2026-03"]),
        ("0 2 * * *", "America/New_York", "2026-03-08T12:00", True, ["2026-03"]),
        ("0 0 * * *", "America/Sao_Paulo", "2018-11-04T12:00", True, ["2018-11"]),
        ("30 1,2 * * *", "Europe/Berlin", "2026-03-29T12:00", True, ["2026-03"]),
        ("0 2 1 * *", "Australia/Sydney", "2023-10-01T00:00", True, ["2023-08", "2023-09"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T12:00", False, ["2026-10"]),
    ],
)
def test_a_manual_run_on_the_day_of_a_switch_has_its_period(
    timetable: Any, cron: str, zone: str, at: str, is_empty: bool, expected: list[str]
) -> None:
    inferred = CronDataIntervalTimetable(cron, timezone=zone).infer_manual_data_interval(
        run_after=pendulum.parse(at, tz="UTC")
    )
    assert (inferred.start == inferred.end) == is_empty
    run = {"data_interval_start": inferred.start, "data_interval_end": inferred.end}
    assert periods(task(timetable(cron, timezone=zone)), **run) == expected


@pytest.mark.parametrize("at", [None, datetime(2026, 2, 15, tzinfo=UTC)])
def test_a_run_without_a_schedule_has_no_period(at: datetime | None) -> None:
    with pytest.raises(ConfigurationError, match="The DAG has no schedule"):
        periods(task(None), data_interval_start=at, data_interval_end=at)


@pytest.mark.skipif(airflow.__version__.startswith("3.1."), reason="Airflow 3.1 has no partitions")
class TestPartitions:
    @pytest.mark.parametrize("key_format", ["%Y-%m-%dT%H:%M:%S", "%Y-%m", "%Y-%m-%d", "%b %y", "%m/%Y"])
    @pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Pacific/Apia", "America/New_York"])
    def test_each_run_of_a_backfill_has_the_period_that_its_key_names(self, key_format: str, zone: str) -> None:
        from airflow.sdk import CronPartitionTimetable as OfDagFiles
        from airflow.timetables.trigger import CronPartitionTimetable

        infos = CronPartitionTimetable("0 0 1 * *", timezone=zone, key_format=key_format).iter_partition_dagrun_infos(
            earliest=datetime(2026, 1, 1, tzinfo=UTC), latest=datetime(2026, 4, 1, tzinfo=UTC)
        )
        tells = task(OfDagFiles("0 0 1 * *", timezone=zone, key_format=key_format))
        found = [periods(tells, partition_key=info.partition_key, partition_date=info.partition_date) for info in infos]
        assert found == [["2026-01"], ["2026-02"], ["2026-03"], ["2026-04"]]

    def test_the_keys_of_mappers_name_their_periods(self) -> None:
        from airflow.partition_mappers.temporal import StartOfDayMapper, StartOfMonthMapper, StartOfQuarterMapper

        at = "2026-05-17T10:00:00"
        tells = task(None)
        assert [
            periods(tells, partition_key=mapper().to_downstream(at))
            for mapper in (StartOfDayMapper, StartOfMonthMapper, StartOfQuarterMapper)
        ] == [["2026-05"], ["2026-05"], ["2026-04", "2026-05", "2026-06"]]

    @pytest.mark.parametrize("key_format", ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H", "%Y-%m-%d %H:%M", "%d.%m. %H Uhr"])
    def test_each_hour_of_the_day_on_which_clocks_change_has_its_key(self, key_format: str) -> None:
        from airflow.sdk import CronPartitionTimetable as OfDagFiles
        from airflow.timetables.trigger import CronPartitionTimetable

        zone = "America/New_York"
        infos = CronPartitionTimetable("0 * * * *", timezone=zone, key_format=key_format).iter_partition_dagrun_infos(
            earliest=datetime(2026, 11, 1, tzinfo=UTC), latest=datetime(2026, 11, 1, 5, tzinfo=UTC)
        )
        tells = task(OfDagFiles("0 * * * *", timezone=zone, key_format=key_format))
        tells.of_table = Grain.HOUR
        found = [
            (periods(tells, partition_key=info.partition_key, partition_date=info.partition_date), info.partition_date)
            for info in infos
        ]
        assert len(found) > 5
        assert [each for each, _ in found] == [[f"{at.in_timezone('UTC'):%Y-%m-%dT%H}Z"] for _, at in found]

    @pytest.mark.parametrize(
        ("grain", "mapper", "input_format"),
        [
            (Grain.HOUR, "StartOfHourMapper", "%Y-%m-%dT%HZ"),
            (Grain.DAY, "StartOfDayMapper", "%Y-%m-%d"),
            (Grain.MONTH, "StartOfMonthMapper", "%Y-%m"),
            (Grain.YEAR, "StartOfYearMapper", "%Y"),
        ],
    )
    def test_mappers_read_the_key_of_an_event_and_write_one_that_names_its_period(
        self, grain: Grain, mapper: str, input_format: str
    ) -> None:
        from airflow.partition_mappers import temporal

        period = str(Period.of(datetime(2026, 10, 5, 13), grain))
        tells = task(None)
        tells.of_table = grain
        key = getattr(temporal, mapper)(input_format=input_format).to_downstream(period)
        assert periods(tells, partition_key=key) == [period]

    @pytest.mark.parametrize("key_format", ["%Y-%m-%dT%H:%M:%S", "%Y-%m", "%b %y"])
    @pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
    def test_the_runs_of_a_timetable_by_month_have_all_days(self, key_format: str, zone: str) -> None:
        from airflow.sdk import CronPartitionTimetable as OfDagFiles
        from airflow.timetables.trigger import CronPartitionTimetable

        infos = CronPartitionTimetable("0 2 1 * *", timezone=zone, key_format=key_format).iter_partition_dagrun_infos(
            earliest=datetime(2026, 10, 1, tzinfo=UTC), latest=datetime(2026, 11, 2, tzinfo=UTC)
        )
        tells = task(OfDagFiles("0 2 1 * *", timezone=zone, key_format=key_format))
        tells.of_table = Grain.DAY
        found = [periods(tells, partition_key=info.partition_key, partition_date=info.partition_date) for info in infos]
        assert [day for each in found for day in each] == [
            f"{datetime(2026, 10, 1) + timedelta(days=day):%Y-%m-%d}" for day in range(61)
        ]

    @pytest.mark.parametrize(
        ("mapper", "expected"),
        [
            ({"timezone": "America/New_York"}, "2026-10-05T17Z"),
            ({}, "2026-10-05T13Z"),
        ],
    )
    def test_hours_of_a_mapper_are_in_its_time_zone_and_not_in_the_dags(
        self, mapper: dict[str, Any], expected: str
    ) -> None:
        from airflow import sdk
        from airflow.partition_mappers.temporal import StartOfHourMapper

        key = StartOfHourMapper(**mapper).to_downstream("2026-10-05T13:10:00")
        of_hour = sdk.StartOfHourMapper(**mapper)
        mappers = [of_hour]
        if hasattr(sdk, "FanOutMapper"):
            mappers += [
                sdk.FanOutMapper(
                    upstream_mapper=sdk.StartOfDayMapper(), window=sdk.DayWindow(), downstream_mapper=of_hour
                )
            ]
        for each in mappers:
            timetable = sdk.PartitionedAssetTimetable(assets=sdk.Asset("a"), default_partition_mapper=each)
            tells = task(timetable, start_date=datetime(2026, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo")))
            tells.of_table = Grain.HOUR
            assert periods(tells, partition_key=key) == [expected]

    def test_the_keys_of_a_mapper_of_weeks_name_weeks(self) -> None:
        from airflow.partition_mappers.temporal import StartOfWeekMapper

        tells = task(None)
        tells.of_table = Grain.WEEK
        key = StartOfWeekMapper().to_downstream("2027-01-03T10:00:00")
        assert periods(tells, partition_key=key) == ["2026-W53"]


INTERVAL = {
    "data_interval_start": datetime(2026, 2, 14, 3, tzinfo=UTC),
    "data_interval_end": datetime(2026, 2, 15, 3, tzinfo=UTC),
}


class TestConf:
    @pytest.mark.parametrize("conf", [{"period": ["2026-01"]}, {"periods": "2026-01"}, {"chs3_relod": {}}])
    def test_what_nothing_reads_fails_the_run(self, conf: dict[str, Any]) -> None:
        with pytest.raises(ConfigurationError, match="The run's conf has"):
            periods(task(NIGHTLY), conf=conf, **INTERVAL)

    @pytest.mark.parametrize("conf", [None, {}, {"note": "period"}, {"period": None}])
    def test_the_conf_of_others_does_not(self, conf: dict[str, Any] | None) -> None:
        assert periods(task(NIGHTLY), conf=conf, **INTERVAL) == ["2026-02"]

    def test_a_param_of_the_dag_is_read_by_somebody(self) -> None:
        assert periods(task(NIGHTLY, period=None), conf={"period": "2026-01"}, **INTERVAL) == ["2026-02"]

    def test_under_airflow_the_task_fails(self, run_dag: Callable[..., Any]) -> None:
        at = datetime(2026, 2, 15, 3, tzinfo=UTC)
        assert run_dag(task(NIGHTLY).dag, logical_date=at, run_conf={"period": ["2026-01"]}).state == "failed"
