"""Messages land in the hour, day or week of their timestamps, or all together, as the template of keys says."""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_chs3.client.message_files import MessageFiles
from airflow_provider_chs3.core.exchange.landing_request import LandingRequest
from airflow_provider_chs3.core.exchange.topic_offsets import OffsetRange
from airflow_provider_chs3.core.model.period import Grain, Period
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.sources.landing_lake import HOUR, NIGHTS, LandingLake
from tests.support.narrow_user import narrow_connection

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster


class Message:
    """A message of confluent-kafka, as far as it is written."""

    def __init__(self, at: datetime, offset: int = 0) -> None:
        self._at, self._offset = at, offset

    def __len__(self) -> int:
        return 1

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return str(self._offset).encode()

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, int(self._at.timestamp() * 1000)

    def headers(self) -> None:
        return None


def landed(files: MessageFiles) -> dict[str, list[int]]:
    return {str(period): pq.read_table(path)["offset"].to_pylist() for period, path, _ in files.finished()}


@pytest.mark.parametrize(
    ("grain", "timezone", "periods"),
    [
        # Clocks skipped midnight in São Paulo, and show one o'clock twice in New York.
        (Grain.DAY, "America/Sao_Paulo", {"2018-11-03": [0], "2018-11-04": [1], "2026-11-01": [2, 3]}),
        (
            Grain.HOUR,
            "America/New_York",
            {"2018-11-04T02Z": [0], "2018-11-04T03Z": [1], "2026-11-01T05Z": [2], "2026-11-01T06Z": [3]},
        ),
        (Grain.WEEK, "UTC", {"2018-W44": [0, 1], "2026-W44": [2, 3]}),
        (Grain.QUARTER, "UTC", {"2018-Q4": [0, 1], "2026-Q4": [2, 3]}),
        (Grain.ALL, "UTC", {"all": [0, 1, 2, 3]}),
    ],
)
def test_each_period_has_a_file(grain: Grain, timezone: str, periods: dict[str, list[int]]) -> None:
    times = ["2018-11-04 02:59", "2018-11-04 03:00", "2026-11-01 05:30", "2026-11-01 06:30"]
    with MessageFiles(grain, timezone) as files:
        for offset, at in enumerate(times):
            files.add(Message(datetime.fromisoformat(at).replace(tzinfo=UTC), offset))
        assert landed(files) == periods


def test_more_hours_than_files_may_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_chs3.client.message_files._ROW_GROUP_MESSAGES", 100)
    first = datetime(2026, 1, 1, tzinfo=UTC)
    with MessageFiles(Grain.HOUR, "UTC") as files:
        files.add(Message(first))
        before = len(os.listdir("/dev/fd"))
        for offset in range(1, 500):
            files.add(Message(first + timedelta(hours=offset % 300), offset))
        assert len(os.listdir("/dev/fd")) < before + 50
        found = landed(files)
    assert found == {
        str(Period.of((first + timedelta(hours=hour)).replace(tzinfo=None), Grain.HOUR)): list(range(hour, 500, 300))
        for hour in range(300)
    }


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("events/{YYYY-MM-DD}/{HH}/", "events/2026-10-25/00/"),
        ("events/{YYYY}/{MM}/{DD}/*.parquet", "events/2026/10/25/"),
        ("events/{GGGG}-W{WW}/", "events/2026-W43/"),
        ("events/{YYYY-MM}/", "events/2026-10/"),
        ("events/{YYYY}-Q{Q}/", "events/2026-Q4/"),
        ("events/{YYYY}/", "events/2026/"),
        ("events/", "events/"),
    ],
)
def test_an_object_is_named_by_the_shortest_period_of_the_template(key: str, name: str) -> None:
    request = LandingRequest(topic="t", start=NIGHTS[0], end=NIGHTS[1], key=key, timezone="UTC", messages_per_object=10)
    period = Period.of(datetime(2026, 10, 25), request.grain)
    offsets = f"t-0-{0:020d}-{10:020d}.parquet"
    assert request.object_key(period, OffsetRange(0, 0, 10)) == f"{name}{offsets}"
    assert request.records == "events/_kafka/t/"


@pytest.mark.parametrize(
    "key", ["events/{HH}/{YYYY-MM-DD}/*.csv", "events/*/{YYYY-MM-DD}/", "events/{YYYY-MM}/x/*.csv"]
)
def test_a_template_that_cannot_name_an_object_is_refused(key: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot name what is landed"):
        LandingRequest(topic="t", start=NIGHTS[0], end=NIGHTS[1], key=key, timezone="UTC", messages_per_object=10)


@pytest.mark.thorough
def test_a_late_message_lands_in_its_own_hour_and_is_loaded_there(
    lake: LandingLake, chs3_cluster: Cluster, chs3_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(narrow_connection(chs3_cluster)))
    with chs3_cluster.nodes[0].client() as client:
        client.execute(
            f"CREATE TABLE {chs3_database}.events (at DateTime64(3, 'UTC'), value String) ENGINE = MergeTree "
            "PARTITION BY toStartOfHour(at) ORDER BY at"
        )
    key = "events/{YYYY-MM-DD}/{HH}/"

    def land_and_load(hour: int) -> list[str]:
        points = {"start": NIGHTS[0] + hour * HOUR, "end": NIGHTS[0] + (hour + 1) * HOUR}
        periods: list[str] = lake.land(0, key=key, **points)["periods"]
        arguments: dict[str, Any] = {"bucket": lake.bucket, "key": key, "table": "events", "database": chs3_database}
        select = {"at": "timestamp", "value": "assumeNotNull(value)"}
        S3ToClickHouseOperator(
            task_id="load", periods=periods, cluster=chs3_cluster.name, select=select, **arguments
        ).execute({})
        return periods

    lake.topic.send(NIGHTS[0] + 0.5 * HOUR, b"a")
    assert land_and_load(0) == ["2026-01-30T00Z"]
    # Nothing of the second hour came before it.
    lake.topic.send(NIGHTS[0] + 1.5 * HOUR, b"b")
    lake.topic.send(NIGHTS[0] + 0.75 * HOUR, b"late")
    assert land_and_load(1) == ["2026-01-30T00Z", "2026-01-30T01Z"]
    assert lake.values("2026-01-30/00/") == Counter([b"a", b"late"])
    assert lake.values("2026-01-30/01/") == Counter([b"b"])
    with chs3_cluster.nodes[0].client() as client:
        rows = client.execute(f"SELECT toUnixTimestamp64Milli(at), value FROM {chs3_database}.events ORDER BY at")
    times = [0.5, 0.75, 1.5]
    assert rows == [
        (int((NIGHTS[0] + time * HOUR).timestamp() * 1000), value)
        for time, value in zip(times, ["a", "late", "b"], strict=True)
    ]
