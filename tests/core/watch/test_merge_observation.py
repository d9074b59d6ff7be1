"""The questions to every node, and how answers are read; integration tests have the servers' real answers."""

from __future__ import annotations

from typing import Any

from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.target.node_capacity import Limits
from airflow_provider_chs3.core.watch.merge_observation import Merge, MergeState, Replica, UnfinishedMutation, observe
from tests.core.surroundings import ONE, surroundings, with_target
from tests.support.driving import Driven, drive

OCTOBER, SEPTEMBER = Period.of_month(2026, 10), Period.of_month(2026, 9)
LIMITS = [(name, "1000") for name in Limits.__slots__]
REPLICATED_LIMITS = [(name, "77") for name in Limits.__slots__]
TABLE = with_target(engine_full="MergeTree ORDER BY at SETTINGS max_parts_in_total = 5")
NAME = tuple(surroundings(TABLE, nodes=(ONE,)).target)
ANSWER = {
    "partitions": [("202610", 12, 3000, 20, 400)],
    "table_parts": 40,
    "broken": [("202610", "broken_202610_1_1_0"), ("202609", "broken_202609_1_1_0")],
    "merges": [(*NAME, "202610", (0.5, 4.0, 2000, 7)), (*NAME, "202609", (0.9, 1.0, 5, 2))],
    "mutations": [
        (*NAME, ["202610"], "DELETE WHERE x", "", 8),
        (*NAME, ["202609", "202608"], "DELETE WHERE y", "no", 9),
    ],
    "replicas": [],
    "queue": [],
    "limits": LIMITS,
    "replicated_limits": REPLICATED_LIMITS,
    "policies": [("default", ["default"]), ("cold", ["default", "big"])],
    "disks": [("default", 10**9), ("big", 10**12)],
    "pool_is_busy": 0,
    "uptime_seconds": 5000,
    "at_seconds": 1_800_000_000.0,
}


def observed(periods: dict[str, Period], **changes: Any) -> Driven:
    """One node that answers like this."""
    context = surroundings(TABLE, nodes=(ONE,))
    return drive(observe(context, periods), {ONE: [tuple((ANSWER | changes).values())]})


def state(**changes: Any) -> MergeState:
    (only,) = observed({"202610": OCTOBER}, **changes).result
    return only


def test_parts_merges_and_mutations_are_those_of_the_period():
    seen = state()
    assert (seen.parts, seen.size_bytes, seen.two_smallest_bytes, seen.merges) == (
        12,
        3000,
        20,
        (Merge(progress=0.5, seconds=4.0, size_bytes=2000, parts=7),),
    )
    assert seen.mutations == (UnfinishedMutation(command="DELETE WHERE x", fail_reason="", age_seconds=8),)


def test_broken_parts_are_those_of_the_period():
    assert state().broken_parts == ("broken_202610_1_1_0",)


def test_one_statement_serves_several_periods():
    driven = observed({"202610": OCTOBER, "202609": SEPTEMBER})
    assert [each.period for each in driven.result] == [OCTOBER, SEPTEMBER]
    assert "partition_id IN ('202610', '202609')" in driven.steps[-1].sql[ONE].text


def test_a_server_that_has_just_started_has_had_no_time_to_merge():
    assert state(uptime_seconds=7).unchanged_seconds == 7


def test_a_period_without_parts():
    assert (state(partitions=[]).parts, state(partitions=[]).unchanged_seconds) == (0, 5000)


def test_limits_are_the_servers_and_the_tables_own():
    limits = state().limits
    assert (limits.parts_to_delay_insert, limits.max_parts_in_total) == (1000, 5)


def test_room_is_that_of_the_tables_roomiest_disk():
    cold = with_target(engine_full="MergeTree ORDER BY at", storage_policy="cold")
    (only,) = drive(
        observe(surroundings(cold, nodes=(ONE,)), {"202610": OCTOBER}), {ONE: [tuple(ANSWER.values())]}
    ).result
    assert (only.free_bytes, state().free_bytes) == (10**12, 0)


class TestReplicated:
    def test_the_queue_is_that_of_the_period(self):
        queue = [
            (*NAME, *entry)
            for entry in (("202610", "", "later"), ("202610", "Code: 234", ""), ("202609", "Code: 1", ""))
        ]
        expected = Replica(
            is_readonly=False, delay_seconds=31, queue=2, last_exception="Code: 234", postpone_reason="later"
        )
        assert state(replicas=[(*NAME, 0, 31)], queue=queue).replica == expected

    def test_a_partition_to_replace_may_be_that_of_any_period(self):
        assert state(replicas=[(*NAME, 0, 31)], queue=[(*NAME, "", "", "")]).replica == Replica(
            is_readonly=False, delay_seconds=31, queue=1
        )

    def test_limits_are_those_of_replicated_tables(self):
        assert state(replicas=[(*NAME, 0, 0)]).limits.parts_to_delay_insert == 77
