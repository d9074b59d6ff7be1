"""Metrics of loads, as a StatsD server receives them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider_chs3.core.model.period import Grain, Period
from airflow_provider_chs3.sensors.merge_health import ClickHouseMergeHealthSensor
from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.statsd_receiver import Metric, Receiver, receiving
from tests.support.lake import PERIOD, Lake
from tests.support.narrow_user import narrow_connection

TRIPS = Trips(rows_per_period=600, files_per_period=3)
PAGE = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text(encoding="utf-8")
SETTLED = {"settled_after_seconds": 0}


@pytest.fixture
def statsd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    pytest.importorskip("statsd")
    with receiving(monkeypatch) as receiver:
        yield receiver


def values(received: list[Metric]) -> dict[str, float]:
    return {each.name: each.value for each in received}


def test_a_load_counts_itself_its_rows_and_seconds_and_the_sensor_its_wait(trips_lake: Lake, statsd: Receiver) -> None:
    from airflow.sdk import timezone

    trips_lake.upload(TRIPS)
    result = trips_lake.load()
    received = statsd.received()
    assert {each.name: each.value for each in received if each.kind == "c"} == {
        "chs3.loads.published": 1,
        "chs3.rows": 600,
        "chs3.bytes": result["source_bytes"],
        "chs3.parts": result["parts"],
    }
    seconds = {each.name.removeprefix("chs3.step."): each.value / 1000 for each in received if each.kind == "ms"}
    assert seconds == pytest.approx(result["seconds_by_step"], abs=0.001)
    assert {each.tags for each in received} == {f",table={trips_lake.database}.trips"}
    trips_lake.load()
    assert [each.name for each in statsd.received() if each.kind == "c"] == ["chs3.loads.unchanged"]
    ti = SimpleNamespace(
        start_date=timezone.utcnow(), get_first_reschedule_date=lambda context: None, xcom_push=lambda **pushed: None
    )
    assert sensor(trips_lake).poke({"ti": ti}).is_done
    assert [each.name for each in statsd.received()] == ["chs3.merges.parts", "chs3.merges.waited"]


@pytest.mark.thorough
def test_a_load_says_until_when_its_table_is_fresh(trips_lake: Lake, statsd: Receiver) -> None:
    running = Period.of(datetime.now(UTC).replace(tzinfo=None), Grain.MONTH)
    for period in (running.shifted(-2), running.shifted(-1), running):
        trips_lake.upload(TRIPS, str(period))
    sent = []
    # One that is not the newest that is due says nothing, nor one that has not ended, nor one without a time.
    for back, fresh_by in ((-2, "00:00"), (0, "00:00"), (-1, None), (-1, "00:00"), (-1, "00:00")):
        trips_lake.load(period=str(running.shifted(back)), fresh_by=fresh_by)
        sent.append([metric.value for metric in statsd.received() if metric.name == "chs3.fresh_until"])
    until = running.end.replace(tzinfo=UTC).timestamp()
    assert sent == [[], [], [], [until], [until]]


@pytest.mark.thorough
def test_without_a_database_the_tag_has_the_connections(
    trips_lake: Lake, statsd: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = narrow_connection(trips_lake.cluster) | {"schema": trips_lake.database}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
    trips_lake.upload(TRIPS)
    trips_lake.load(database=None)
    assert {each.tags for each in statsd.received()} == {f",table={trips_lake.database}.trips"}


@pytest.mark.thorough
def test_plain_statsd_gets_the_same_names_without_tags(trips_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("statsd")
    trips_lake.upload(TRIPS)
    with receiving(monkeypatch, with_tags=False) as statsd:
        trips_lake.load()
        received = statsd.received()
    assert ("chs3.rows", "") in {(each.name, each.tags) for each in received}


@pytest.mark.thorough
def test_a_skipped_period_is_no_failure(trips_lake: Lake, statsd: Receiver) -> None:
    with pytest.raises(AirflowSkipException):
        trips_lake.load(on_no_objects="skip")
    assert [each.name for each in statsd.received() if each.kind == "c"] == ["chs3.loads.skipped"]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"columns": ["no_such_column"]}, "ConfigurationError"),
        ({"settings": {"max_threads": "many"}}, "PreflightError"),
    ],
)
def test_a_failure_is_counted_by_its_code_or_its_class(
    trips_lake: Lake, statsd: Receiver, options: dict[str, Any], cause: str
) -> None:
    trips_lake.upload(TRIPS)
    with pytest.raises(AirflowFailException):
        trips_lake.load(**options)
    tags = f",table={trips_lake.database}.trips"
    assert statsd.received() == [Metric(f"chs3.failures.{cause}", "c", 1, tags)]


@pytest.mark.thorough
def test_an_error_of_a_server_is_counted_by_its_code(trips_lake: Lake, statsd: Receiver) -> None:
    trips_lake.upload(TRIPS)
    trips_lake.on_every_node(f"ALTER TABLE {trips_lake.database}.trips ADD CONSTRAINT none CHECK trip_id < 0")
    with pytest.raises(AirflowFailException):
        trips_lake.load()
    assert "chs3.failures.469" in [each.name for each in statsd.received()]


@pytest.mark.thorough
def test_a_load_that_waits_for_merges_tells_the_wait_and_the_parts(trips_lake: Lake, statsd: Receiver) -> None:
    trips_lake.upload(TRIPS)
    result = trips_lake.load(wait_for_merges=True, merge_health=SETTLED)
    received = values(statsd.received())
    assert received["chs3.merges.parts"] == max(node["parts"] for node in result["merges"]["periods"][PERIOD].values())
    assert 0 < received["chs3.merges.waited"] < 60_000


@pytest.mark.thorough
def test_a_load_that_was_deferred_while_it_waited_tells_all_of_the_wait(trips_lake: Lake, statsd: Receiver) -> None:
    trips_lake.upload(TRIPS)
    result = trips_lake.load()
    statsd.received()
    merges = {"health": "healthy", "periods": {PERIOD: {"node": {"parts": 3}}}}
    operator = trips_lake.operator(deferrable=True, wait_for_merges=True)
    operator.merges_complete({}, {"result": merges}, [result], since=time.time() - 90)
    received = values(statsd.received())
    assert received["chs3.merges.parts"] == 3
    assert received["chs3.merges.waited"] == pytest.approx(90_000, abs=5_000)


def sensor(lake: Lake) -> ClickHouseMergeHealthSensor:
    return ClickHouseMergeHealthSensor(task_id="merges", period=PERIOD, **lake.target, **SETTLED)


class Broken:
    """A backend that fails."""

    def __getattr__(self, name: str) -> Any:
        raise OSError("no route to the metrics server")


def test_a_backend_that_fails_does_not_fail_the_load(
    trips_lake: Lake, statsd: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    from airflow.sdk.observability import stats

    stats.initialize(factory=Broken, export_legacy_names=False)
    trips_lake.upload(TRIPS)
    assert trips_lake.load()["status"] == "published"
    assert "Metric chs3.rows could not be sent" in caplog.text


def documented() -> dict[str, str]:
    """The page's metrics, as patterns of names → type."""
    rows = re.findall(r"^\| `(chs3\.[^`]+)` \| (counter|gauge|timer)", PAGE, re.MULTILINE)
    return {re.sub(r"<\w+>", r"\\w+", name.replace(".", r"\.")): kind for name, kind in rows}


def test_what_is_sent_is_documented_and_all_that_is_documented_is_sent(trips_lake: Lake, statsd: Receiver) -> None:
    newest = str(Period.of(datetime.now(UTC).replace(tzinfo=None), Grain.MONTH).shifted(-1))
    trips_lake.upload(TRIPS, newest)
    trips_lake.load(period=newest, fresh_by="00:00", wait_for_merges=True, merge_health=SETTLED)
    with pytest.raises(AirflowFailException):
        trips_lake.load(period=newest, columns=["no_such_column"])
    kinds = {"c": "counter", "g": "gauge", "ms": "timer"}
    sent = {each.name: kinds[each.kind] for each in statsd.received()}
    described = {name: kind for name in sent for each, kind in documented().items() if re.fullmatch(each, name)}
    assert sent == described
    assert [each for each in documented() if not any(re.fullmatch(each, name) for name in sent)] == []
