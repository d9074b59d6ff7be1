"""Each message of a topic is in exactly one object, whatever fails on the way."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.client.shared_objects import SharedObjects
from tests.sources.kafka import KafkaServer
from tests.sources.landing_lake import HOUR, NIGHTS, Dead, LandingLake, settled
from tests.sources.topics import Topic


@pytest.mark.every_change
def test_messages_land_as_they_are_in_the_periods_of_their_timestamps(lake: LandingLake) -> None:
    headers = [("trace", b"\x00\x01"), ("trace", None)]
    lake.topic.send(NIGHTS[1] + HOUR, b'{"a": 1}', key=b"k", headers=headers)
    lake.topic.send(NIGHTS[2] - HOUR, None)
    result = lake.land(1)
    assert [result[name] for name in ("status", "messages", "objects", "periods")] == ["landed", 2, 1, ["2026-01"]]
    assert lake.rows() == [
        {
            "key": b"k",
            "value": b'{"a": 1}',
            "partition": 0,
            "offset": 0,
            "timestamp": NIGHTS[1] + HOUR,
            "headers": [{"name": "trace", "value": b"\x00\x01"}, {"name": "trace", "value": None}],
        },
        {"key": None, "value": None, "partition": 0, "offset": 1, "timestamp": NIGHTS[2] - HOUR, "headers": []},
    ]
    json.dumps(result)


def test_periods_begin_where_the_time_zone_says(lake: LandingLake) -> None:
    lake.topic.send(NIGHTS[2] - HOUR, b"february in Berlin")
    assert lake.land(1, timezone="Europe/Berlin")["periods"] == ["2026-02"]


def test_what_was_landed_is_landed_no_second_time(lake: LandingLake) -> None:
    lake.topic.send(NIGHTS[0] + HOUR, b"a", b"b")
    first = lake.land(0)
    before = lake.objects()
    lake.topic.expire(2)
    assert lake.land(0) == first | {"status": "unchanged"}
    assert lake.objects() == before


@pytest.mark.thorough
def test_late_messages_are_in_the_run_of_their_offsets_and_in_the_period_of_their_timestamps(lake: LandingLake) -> None:
    lake.topic.send(NIGHTS[1] + HOUR, b"in time")
    lake.land(1)
    # Nothing of the second night came before these, of the first and of a period that is over.
    lake.topic.send(NIGHTS[1] + 2 * HOUR, b"late")
    lake.topic.send(datetime(2025, 12, 24, tzinfo=UTC), b"very late")
    lake.topic.send(NIGHTS[2] + HOUR, b"next")
    assert lake.land(2)["periods"] == ["2025-12", "2026-01", "2026-02"]
    assert lake.values("2026-01/") == Counter([b"in time", b"late"])
    assert lake.values() == Counter([b"in time", b"late", b"very late", b"next"])


@pytest.mark.thorough
def test_nights_that_run_in_another_order_land_every_message_once(lake: LandingLake) -> None:
    messages = [(night, b"%d %d" % (night, number)) for number in range(8) for night in (3, 0, 2, 1)]
    for night, value in messages:
        lake.topic.send(NIGHTS[night] + HOUR, value)
    for night in (2, 0, 3, 1):
        lake.land(night)
        lake.topic.send(NIGHTS[night] + HOUR, b"later %d" % night)
    landed = lake.values()
    assert set(landed.values()) == {1}
    assert {value for _, value in messages} <= set(landed)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("is_written", [False, True], ids=["before", "after"])
@pytest.mark.every_change
def test_a_worker_that_dies_at_any_write_leaves_what_the_next_try_completes(
    lake: LandingLake, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    sent = Counter({b"of the next night": 1})
    for number in range(5):
        lake.topic.send(NIGHTS[1] + HOUR, b"%d" % number)
        lake.topic.send(datetime(2025, 12, 24, tzinfo=UTC), b"late %d" % number)
        sent += Counter([b"%d" % number, b"late %d" % number])
    lake.topic.send(NIGHTS[2] + HOUR, b"of the next night")
    put = SharedObjects.put
    deadly: list[str] = []

    def dying(objects: SharedObjects, key: str, body: Any) -> bool:
        if key in deadly:
            return put(objects, key, body)
        deadly.append(key)
        if is_written:
            put(objects, key, body)
        raise Dead

    monkeypatch.setattr(SharedObjects, "put", dying)
    while True:
        try:
            lake.land(1, messages_per_object=3)
            break
        except Dead:
            # Messages between tries are in none of their objects.
            lake.topic.send(NIGHTS[3], b"much later")
    # The topic's id, a record of the run, two of offsets, the periods of four ranges, and the result.
    assert len(deadly) == 1 + 1 + 2 + 7 + 1
    monkeypatch.setattr(SharedObjects, "put", put)
    lake.land(2)
    lake.land(3)
    assert lake.values() == sent + Counter({b"much later": len(deadly)})


@pytest.mark.thorough
def test_messages_of_aborted_transactions_and_their_offsets_are_left_out(lake: LandingLake) -> None:
    lake.topic.transaction(NIGHTS[0] + HOUR, b"aborted").abort_transaction()
    lake.topic.transaction(NIGHTS[0] + HOUR, b"committed").commit_transaction()
    lake.topic.transaction(NIGHTS[0] + HOUR, b"aborted at the end").abort_transaction()
    # Kafka's own records of how they ended are of now.
    now = settled(lake)
    assert lake.land(0, end=now)["messages"] == 1
    lake.topic.send(now, b"next")
    lake.land(0, start=now, end=now + timedelta(seconds=0.001))
    assert lake.values() == Counter([b"committed", b"next"])


@pytest.mark.thorough
def test_a_run_ends_before_an_open_transaction_and_the_next_one_lands_what_is_behind(lake: LandingLake) -> None:
    lake.topic.send(NIGHTS[0] + HOUR, b"before")
    transaction = lake.topic.transaction(NIGHTS[0] + HOUR, b"in it")
    lake.topic.send(NIGHTS[0] + HOUR, b"behind")
    lake.land(0)
    assert lake.values() == Counter([b"before"])
    transaction.commit_transaction()
    lake.land(1, end=settled(lake))
    assert lake.values() == Counter([b"before", b"in it", b"behind"])


def test_expired_messages_are_an_error_that_counts_them_and_the_rest_lands_if_that_is_wanted(lake: LandingLake) -> None:
    for night in range(3):
        lake.topic.send(NIGHTS[night] + HOUR, *(b"%d %d" % (night, number) for number in range(10)))
    lake.land(0)
    lake.topic.expire(14)
    with pytest.raises(AirflowFailException, match=r"4 offsets of topic .*, partition 0, from 10 on, have expired"):
        lake.land(1)
    assert lake.land(1, on_expired="land_rest")["messages"] == 6
    assert lake.land(2)["messages"] == 10


@pytest.mark.thorough
def test_a_partition_that_was_added_lands_from_its_first_message_on(lake: LandingLake) -> None:
    lake.topic.send(NIGHTS[0] + HOUR, b"old")
    lake.topic.send(NIGHTS[2] + HOUR, b"newer")
    lake.land(0)
    lake.topic.widen(3)
    lake.topic.send(NIGHTS[0] + HOUR, b"late", partition=2)
    lake.topic.send(NIGHTS[1] + HOUR, b"new", partition=2)
    lake.topic.send(NIGHTS[2] + HOUR, b"newest", partition=2)
    lake.land(1)
    assert lake.values() == Counter([b"old", b"late", b"new"])


@pytest.mark.thorough
def test_a_compacted_topic_lands_what_is_left(lake: LandingLake, kafka: KafkaServer) -> None:
    soon = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    compacted = Topic.create(kafka, f"{lake.topic.name}-compacted", **soon, **{"max.compaction.lag.ms": "100"})
    lake.topic = compacted
    for number in range(20):
        compacted.send(NIGHTS[0] + HOUR, b"%d" % number, key=b"k")
    lake.land(0)
    values = lake.values()
    assert set(values.values()) == {1}
    assert b"19" in values


@pytest.mark.thorough
def test_what_compaction_took_between_two_tries_is_in_no_object_twice(
    lake: LandingLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.topic.send(NIGHTS[0] + HOUR, *(b"%d" % number for number in range(10)))
    put = SharedObjects.put

    def dying(objects: SharedObjects, key: str, body: Any) -> bool:
        if key.endswith("-00000000000000000008.parquet"):
            raise Dead
        return put(objects, key, body)

    with monkeypatch.context() as patch:
        patch.setattr(SharedObjects, "put", dying)
        with pytest.raises(Dead):
            lake.land(0, messages_per_object=4)
    # The first object has offsets 0 to 3; the log begins in the middle of them now.
    lake.topic.expire(2)
    lake.land(0, messages_per_object=4, on_expired="land_rest")
    assert lake.values() == Counter(b"%d" % number for number in range(10))
