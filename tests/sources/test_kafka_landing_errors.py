"""Refusals of landing a topic, with their messages."""

from __future__ import annotations

import json
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import NotReadyError, TransientError
from tests.sources.landing_lake import HOUR, NIGHTS, Dead, LandingLake


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("new_messages", [0, 1, 20])
def test_a_topic_that_was_created_again_is_an_error(lake: LandingLake, new_messages: int) -> None:
    lake.topic.send(NIGHTS[0] + HOUR, b"a", b"b")
    lake.land(0)
    lake.topic.create_again()
    lake.topic.send(NIGHTS[1] + HOUR, *(b"new" for _ in range(new_messages)))
    before = lake.records()
    with pytest.raises(AirflowFailException, match=r"was deleted and created again: its id was .* under another key"):
        lake.land(1)
    assert lake.records() == before
    assert lake.values() == Counter([b"a", b"b"])
    assert lake.land(1, key="again/{YYYY-MM}/")["messages"] == new_messages


@pytest.mark.thorough
def test_a_log_that_is_shorter_than_it_was_is_an_error_where_no_id_is_known(
    lake: LandingLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As old brokers answer.
    monkeypatch.setattr("airflow_provider_chs3.client.topic.Topic.identity", lambda _: None)
    lake.topic.widen(2)
    lake.topic.send(NIGHTS[0] + HOUR, b"a", b"b", partition=1)
    lake.land(0)
    lake.topic.create_again()
    lake.topic.send(NIGHTS[1] + HOUR, b"c")
    message = "Offset 2 of topic .*, partition 1, is recorded, but the log ends at 0: the topic was created again"
    with pytest.raises(AirflowFailException, match=message):
        lake.land(1)
    lake.topic.widen(2)
    lake.topic.send(NIGHTS[1] + HOUR, b"d", partition=1)
    with pytest.raises(AirflowFailException, match="but the log ends at 1"):
        lake.land(1)


@pytest.mark.thorough
def test_what_was_landed_before_ids_were_recorded_goes_on_and_is_checked_from_then_on(lake: LandingLake) -> None:
    lake.topic.send(NIGHTS[0] + HOUR, b"a", b"b")
    lake.land(0)
    lake.s3.delete_object(Bucket=lake.bucket, Key=f"events/_kafka/{lake.topic.name}/topic.json")
    lake.topic.send(NIGHTS[1] + HOUR, b"c")
    lake.land(1)
    assert lake.values() == Counter([b"a", b"b", b"c"])
    lake.topic.create_again()
    with pytest.raises(AirflowFailException, match="was deleted and created again"):
        lake.land(2)


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
        patch.setattr("airflow_provider_chs3.client.landing.Landing._write", dead)
        with pytest.raises(Dead):
            lake.land(0)
    with pytest.raises(AirflowFailException, match="messages_per_object was 500000 and is 7"):
        lake.land(0, messages_per_object=7)


def dead(*_: Any) -> None:
    raise Dead


def test_an_end_that_is_yet_to_come_is_waited_for(lake: LandingLake) -> None:
    with pytest.raises(NotReadyError, match="is in the future"):
        lake.land(0, end=datetime.now(UTC) + HOUR)


def test_a_message_of_a_period_yet_to_come_lands_in_that_period(lake: LandingLake) -> None:
    ahead = datetime.now(UTC) + timedelta(minutes=30)
    lake.topic.send(ahead, b"ahead")
    assert lake.land(0)["periods"] in ([f"{ahead:%Y-%m}"], [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": NIGHTS[3]}, "set two points in time with a zone"),
        ({"start": "yesterday"}, "start='yesterday' is not a point in time"),
        ({"key": "events/*/{YYYY-MM}/"}, "cannot name what is landed"),
        ({"messages_per_object": 0}, "messages_per_object=0: use 1 or more"),
        ({"on_expired": "shrug"}, "use one of fail, land_rest"),
    ],
)
def test_a_wrong_argument_is_an_error(lake: LandingLake, options: dict[str, Any], message: str) -> None:
    with pytest.raises(AirflowFailException, match=message):
        lake.land(0, **options)


@pytest.mark.every_change
def test_a_topic_that_is_not_there_is_an_error(lake: LandingLake) -> None:
    with pytest.raises(AirflowFailException, match="Kafka has no topic 'other'"):
        lake.land(0, topic="other")


def test_a_wrong_password_is_told_at_once_and_not_shown(lake: LandingLake, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = lake.topic.server.settings(**{"sasl.password": "wr0ng"})
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": settings}))
    monkeypatch.setattr("airflow_provider_chs3.client.topic._ANSWER_SECONDS", 300.0)
    began = time.monotonic()
    with pytest.raises(AirflowFailException, match="Kafka refuses the login of connection 'kafka_default'") as caught:
        lake.land(0)
    assert time.monotonic() - began < 200, "It did not wait for brokers that answer no login."
    assert "wr0ng" not in str(caught.value)
    assert "uthentication" in str(caught.value)


@pytest.mark.thorough
def test_a_broker_that_does_not_answer_is_tried_again(lake: LandingLake, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = lake.topic.server.settings(**{"bootstrap.servers": "127.0.0.1:1"})
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": settings}))
    monkeypatch.setattr("airflow_provider_chs3.client.topic._ANSWER_SECONDS", 3.0)
    with pytest.raises(TransientError, match="Kafka did not answer"):
        lake.land(0)
