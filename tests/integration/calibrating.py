"""Calibrations of tests: real tries, whose seconds are as the test says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_provider_chs3.core.workflow.operations import InsertSideBySide, InsertStats, Log, ReadClock, Step
from airflow_provider_chs3.operators.calibrate import CalibrateLoadOperator
from airflow_provider_chs3.runners.blocking import Runner
from airflow_provider_chs3.testbed.trips import Trips
from tests.arguments import grouped
from tests.integration.lake import PERIOD, Lake

TRIPS = Trips(rows_per_period=600, files_per_period=6)
#: What the user gave needs no try: these leave insert threads alone.
GIVEN = {
    "max_threads": 2,
    "max_download_buffer_size": 10485760,
    "max_download_threads": 4,
    "min_insert_block_size_bytes": 268435456,
    "min_insert_block_size_rows": 1048449,
}
#: Room for the fewest tries with which a calibration begins, of two seconds each.
SMALLEST_BUDGET = 32


@dataclass
class Timed:
    """Tries are real, but take as long as is said: with one insert thread a second, else two. No other time passes."""

    seconds: float = 0.0
    said: list[str] = field(default_factory=list)
    sent: list[dict[str, Any]] = field(default_factory=list)

    def put_in(self, monkeypatch: pytest.MonkeyPatch) -> Timed:
        perform = Runner.__dict__["perform"]

        def timed(runner: Runner, step: Step) -> Any:
            if isinstance(step, ReadClock):
                return self.seconds
            outcome = perform.__get__(runner, Runner)(step)
            if isinstance(step, Log):
                self.said.append(step.name)
            if isinstance(step, InsertSideBySide):
                settings = dict(step.inserts[0].settings)
                took = 1.0 if settings["max_insert_threads"] == 1 else 2.0
                self.sent.append(settings)
                self.seconds += took
                return tuple(InsertStats(took, each.read_rows, each.peak_memory_bytes) for each in outcome)
            return outcome

        monkeypatch.setattr(Runner, "perform", timed)
        return self


def calibrate_operator(lake: Lake, **options: Any) -> CalibrateLoadOperator:
    arguments = {
        "task_id": "calibrate",
        "bucket": lake.bucket,
        "key": "trips/{YYYY-MM}/",
        "database": lake.database,
        "table": lake.table,
        "period": PERIOD,
        "cluster": lake.cluster.name,
        "settings": GIVEN,
    }
    return CalibrateLoadOperator(**grouped(**(arguments | options)))


def calibrate(lake: Lake, **options: Any) -> dict[str, Any]:
    return calibrate_operator(lake, **options).execute({})
