"""Past loads forecast the next ones: in the log of a plan, at the command line, and where a load was slow."""

from __future__ import annotations

import json
import re
import time
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_chs3.__main__ import main
from airflow_provider_chs3.client import runner as blocking
from airflow_provider_chs3.core.ledger import past_loads
from airflow_provider_chs3.core.load import outcome
from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.plans import plan
from tests.support.lake import Lake
from tests.support.strikes import Strikes, strikes

__all__ = ["strikes"]

TRIPS = Trips(rows_per_period=600, files_per_period=2)
PAST = [f"2026-0{number}" for number in range(1, 6)]


@pytest.fixture
def loaded(trips_lake: Lake) -> Lake:
    """A lake with five periods that are loaded, and two that are not."""
    for period in [*PAST, "2026-06", "2026-07"]:
        trips_lake.upload(TRIPS, period)
    for period in PAST:
        trips_lake.load(period=period)
    return trips_lake


@pytest.mark.thorough
def test_a_plan_says_how_long_its_loads_take(loaded: Lake, caplog: pytest.LogCaptureFixture, capsys: Any) -> None:
    assert plan(loaded, all_periods=True) == ["2026-06", "2026-07"]
    told = re.search(
        r"2 periods to load, [\d.]+ KiB: past loads of the table suggest (about \d+ s one after another|under a second)"
        r", and [\d.]+ KiB of disk space for the largest",
        capsys.readouterr().out + caplog.text,
    )
    assert told


def test_without_a_past_a_plan_says_nothing_of_it(
    trips_lake: Lake, caplog: pytest.LogCaptureFixture, capsys: Any
) -> None:
    trips_lake.upload(TRIPS, "2026-06")
    assert plan(trips_lake, all_periods=True) == ["2026-06"]
    assert "one after another" not in capsys.readouterr().out + caplog.text


@pytest.mark.thorough
def test_the_command_line_has_the_forecast_of_each_month(loaded: Lake, capsys: Any) -> None:
    arguments = ["--bucket", loaded.bucket, "--key", "trips/{YYYY-MM}/*.parquet", "--cluster", loaded.cluster.name]
    capsys.readouterr()
    main(["plan", "--table", f"{loaded.database}.{loaded.table}", *arguments, "--all-periods", "--output=json"])
    periods = {load["period"]: load["forecast"] for load in json.loads(capsys.readouterr().out)}
    assert {period for period, forecast in periods.items() if forecast} == {"2026-06", "2026-07"}
    assert periods["2026-06"]["seconds"] > 0
    # Periods alike take as much space.
    (size_bytes,) = loaded.on_node(
        0,
        f"SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = '{loaded.database}' AND "
        f"table = '{loaded.table}' AND partition = '202601'",
    )[0]
    assert periods["2026-06"]["staged_bytes"] > size_bytes / 2


@pytest.mark.thorough
def test_a_load_that_is_slower_than_its_past_says_so_and_names_the_step(
    loaded: Lake,
    strikes: Strikes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: Any,
) -> None:
    for module in (outcome, past_loads):
        monkeypatch.setattr(module, "SLOW_SECONDS", 1.0)
    ahead = [0.0]
    monkeypatch.setattr(
        blocking, "time", SimpleNamespace(time=time.time, monotonic=lambda: time.monotonic() + ahead[0])
    )

    def later() -> None:
        """As if the step took a thousand seconds."""
        ahead[0] = 1000

    strikes.before("Publish 2026-06", later)
    loaded.load(period="2026-06")
    assert re.search(
        r"2026-06 was slow\. It took 1\d min; the last 5 loads suggest .+ for as many bytes\. "
        r"Most of the difference is publish: 1\d min instead of .+\.",
        capsys.readouterr().out + caplog.text,
    )
