"""What landing a topic refuses, and says of it."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import NotReadyError
from tests.sources.kafka import KafkaServer
from tests.sources.landing_lake import HOUR, NIGHTS, Dead, LandingLake
from tests.sources.topics import Topic


def test_a_topic_that_was_made_anew_is_an_error(lake: LandingLake, kafka: KafkaServer) -> None:
    lake.topic.send(NIGHTS[0] + HOUR, b"a", b"b")
    lake.land(0)
    anew = Topic.create(kafka, f"{lake.topic.name}-anew")
    anew.send(NIGHTS[1] + HOUR, b"c")
    for key, body in lake.records().items():
        lake.s3.put_object(Bucket=lake.bucket, Key=key.replace(lake.topic.name, anew.name), Body=body)
    lake.s3.put_object(
        Bucket=lake.bucket, Key=f"events/_kafka/{anew.name}/offsets/20260201T000000.000Z.json", Body=b'{"0": 5}'
    )
    lake.topic = anew
    with pytest.raises(AirflowFailException, match="is recorded, and the log ends at 1: the topic was created again"):
        lake.land(1)


def test_runs_that_overlap_are_an_error(lake: LandingLake) -> None:
    lake.topic.send(NIGHTS[0] + HOUR, b"a")
    lake.land(0)
    with pytest.raises(AirflowFailException, match="which overlaps this one"):
        lake.land(0, end=NIGHTS[0] + 2 * HOUR)
    assert lake.values() == Counter([b"a"])


def test_a_try_that_would_name_objects_otherwise_is_an_error(
    lake: LandingLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.topic.send(NIGHTS[0] + HOUR, b"a")
    with monkeypatch.context() as patch:
        patch.setattr("airflow_provider_chs3.runners.landing.Landing._write", dead)
        with pytest.raises(Dead):
            lake.land(0)
    with pytest.raises(AirflowFailException, match="messages_per_object was 500000 and is 7"):
        lake.land(0, messages_per_object=7)


def dead(*_: Any) -> None:
    raise Dead


def test_an_end_that_is_yet_to_come_is_waited_for(lake: LandingLake) -> None:
    with pytest.raises(NotReadyError, match="is in the future"):
        lake.land(0, end=datetime.now(UTC) + HOUR)


def test_a_message_of_a_month_yet_to_come_lands_in_that_month(lake: LandingLake) -> None:
    lake.topic.send(datetime.now(UTC) + timedelta(minutes=30), b"ahead")
    ahead = f"{datetime.now(UTC) + timedelta(minutes=30):%Y-%m}"
    assert lake.land(0)["months"] in ([ahead], [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": NIGHTS[3]}, "give two points in time with a zone"),
        ({"start": "yesterday"}, "start='yesterday' is not a point in time"),
        ({"key": "events/{YYYY-MM}/{DD}/"}, "cannot name what is landed"),
        ({"messages_per_object": 0}, "messages_per_object=0: give 1 or more"),
        ({"on_expired": "shrug"}, "use one of fail, land_rest"),
    ],
)
def test_a_wrong_argument_is_an_error(lake: LandingLake, options: dict[str, Any], message: str) -> None:
    with pytest.raises(AirflowFailException, match=message):
        lake.land(0, **options)


def test_a_topic_that_is_not_there_is_an_error(lake: LandingLake) -> None:
    with pytest.raises(AirflowFailException, match="Kafka has no topic 'other'"):
        lake.land(0, topic="other")


def test_no_password_is_in_the_error_of_a_wrong_one(lake: LandingLake, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = lake.topic.server.settings(**{"sasl.password": "wr0ng"})
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": settings}))
    monkeypatch.setattr("airflow_provider_chs3.hooks.landing.topic._ANSWER_SECONDS", 3.0)
    with pytest.raises(Exception, match="Kafka did not answer") as caught:
        lake.land(0)
    assert "wr0ng" not in str(caught.value)
    assert "uthentication" in str(caught.value)
