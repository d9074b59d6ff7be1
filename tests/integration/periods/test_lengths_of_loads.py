"""Commands about loads whose periods have several lengths."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.core.model.period import Grain, Period
from airflow_provider_chs3.core.target.period_partitions import KEYS
from tests.support.dag_bag import bundles_in
from tests.support.lake import Lake

#: Length of a load's periods → the template of its keys.
TEMPLATES = {
    Grain.HOUR: "{YYYY-MM-DD}/{HH}",
    Grain.DAY: "{YYYY-MM-DD}",
    Grain.WEEK: "{GGGG}-W{WW}",
    Grain.MONTH: "{YYYY-MM}",
    Grain.QUARTER: "{YYYY}-Q{Q}",
    Grain.YEAR: "{YYYY}",
    Grain.ALL: "all",
}
DAG = """
from airflow.sdk import DAG
from airflow_provider_chs3.load import Load
from airflow_provider_chs3.transfers.scheduled_load import scheduled_load

with DAG("nightly", schedule=None):
    for load in Load.read("{file}"):
        scheduled_load(load=load)
"""
NOW = datetime.now(UTC).replace(tzinfo=None)
Run = Callable[..., tuple[int, list[dict[str, Any]]]]


def put(lake: Lake, at: datetime) -> None:
    """Write an object of one row into each load's place for a moment."""
    for grain in TEMPLATES:
        period = Period.of(at, grain)
        place = f"{at:%Y-%m-%d}/{at:%H}" if grain is Grain.HOUR else str(period)
        lake.put(f"{grain}/{place}/a.csv", f"at\n{max(period.begin, datetime(2024, 1, 1))}\n".encode())


@pytest.fixture
def run(lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    loads = []
    for grain, template in TEMPLATES.items():
        by = f"PARTITION BY {KEYS[grain]}(at)" if grain in KEYS else ""
        lake.on_every_node(
            f"CREATE TABLE {lake.database}.by_{grain} (at DateTime('UTC')) ENGINE = MergeTree {by} ORDER BY at"
        )
        loads.append({"table": f"by_{grain}", "key": f"{grain}/{template}/*.csv", "columns": ["at"]})
    file = tmp_path / "loads.json"
    where = {"database": lake.database, "cluster": lake.cluster.name, "bucket": lake.bucket}
    file.write_text(json.dumps({"defaults": where, "loads": loads}), encoding="utf-8")

    def run(command: str, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
        capsys.readouterr()
        of_file = [] if "--dag" in arguments else ["--loads", str(file)]
        code = main([command, *of_file, *arguments, "--output", "json"])
        return code, json.loads(capsys.readouterr().out)

    return run


@pytest.mark.thorough
def test_a_span_of_months_means_the_periods_of_each_load_in_it(lake: Lake, run: Run) -> None:
    put(lake, datetime(2026, 10, 5, 13))
    code, planned = run("plan", "--from", "2026-10", "--to", "2026-11")
    assert code == 1
    of_loads = {grain: [plan["period"] for plan in planned if plan["load"] == f"by_{grain}"] for grain in TEMPLATES}
    assert {grain: (len(periods), periods[0], periods[-1]) for grain, periods in of_loads.items()} == {
        Grain.HOUR: (61 * 24, "2026-10-01T00Z", "2026-11-30T23Z"),
        Grain.DAY: (61, "2026-10-01", "2026-11-30"),
        Grain.WEEK: (10, "2026-W40", "2026-W49"),
        Grain.MONTH: (2, "2026-10", "2026-11"),
        Grain.QUARTER: (1, "2026-Q4", "2026-Q4"),
        Grain.YEAR: (1, "2026", "2026"),
        Grain.ALL: (1, "all", "all"),
    }
    assert [plan["load"] for plan in planned if plan["objects"]] == [f"by_{grain}" for grain in TEMPLATES]


def test_what_is_no_period_of_a_load_is_an_error_that_says_what_is(lake: Lake, run: Run) -> None:
    code, planned = run("plan", "by_week", "by_table", "--period", "all")
    assert (code, planned[-1]["load"], planned[-1]["error"]) == (
        2,
        "by_week",
        f"all is no period of {lake.database}.by_week: name one as its partition key has them, such as 2026-W41.",
    )
    # A longer period would mean rows that nobody named.
    code, forgotten = run("forget", "by_year", "by_month", "--period", "2026-10")
    assert (code, [(of.get("period"), of["load"]) for of in forgotten]) == (
        2,
        [("2026-10", "by_month"), (None, "by_year")],
    )
    assert "such as 2026." in forgotten[-1]["error"]


class TestDoctor:
    def checked(self, run: Run, *arguments: str) -> list[str]:
        _, reports = run("doctor", *arguments)
        checks = [check for report in reports for check in report["checks"] if check["name"].startswith("period")]
        assert [check["findings"] for check in checks] == [[]] * len(checks)
        return [check["name"].removeprefix("period ") for check in checks]

    @pytest.mark.thorough
    def test_it_checks_the_newest_period_of_each_load_of_a_dag(
        self, lake: Lake, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(lake, NOW)
        (tmp_path / "nightly.py").write_text(DAG.format(file=str(tmp_path / "loads.json")), encoding="utf-8")
        monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", bundles_in(tmp_path))
        assert self.checked(run, "--dag", "nightly") == [str(Period.of(NOW, grain)) for grain in TEMPLATES]

    def test_in_a_longer_period_it_checks_the_newest_in_it(self, lake: Lake, run: Run) -> None:
        put(lake, datetime(2026, 1, 5, 13))
        loads = [f"by_{grain}" for grain in (Grain.DAY, Grain.WEEK, Grain.MONTH, Grain.YEAR)]
        assert self.checked(run, *loads, "--period", "2026-01") == ["2026-01-05", "2026-W02", "2026-01", "2026"]

    @pytest.mark.thorough
    def test_without_recent_objects_it_checks_all_but_a_period(self, lake: Lake, run: Run) -> None:
        put(lake, datetime(NOW.year - 2, 1, 5, 13))
        loads = [f"by_{grain}" for grain in (Grain.HOUR, Grain.MONTH, Grain.YEAR)]
        assert self.checked(run, *loads) == ["period"] * 2 + [str(NOW.year - 2)]
