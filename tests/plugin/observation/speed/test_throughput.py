"""How a cluster is asked for its loads: in a few statements, past nodes that are down and logs that are not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.steps.operations import Step, TryQueryNodes
from airflow_provider_chs3.core.target.node_facts import RecordTable
from airflow_provider_chs3.core.target.topology import LEDGER_TABLE, LOADS_TABLE
from airflow_provider_chs3.exceptions import ClickHouseConnectionError
from airflow_provider_chs3.plugin.observation.speed.throughput import Throughput, look_at_throughput, settle_seconds
from tests.support.driving import Driven, drive, server_error

NODES = A, B = [Node(1, 1, "a", 9000), Node(2, 1, "b", 9000)]
CLUSTERS = [("main", node.shard_num, node.replica_num, node.host, node.port) for node in NODES]
NOW = 1_800_000_000.0
STEPS = [("publish", 1.0), ("insert", 7.0), ("list", 2.0)]
FIRST, SECOND = NOW - 7200, NOW - 3600


def record(attempt: str, at: float, *, steps: Any = STEPS, peak: int = 50) -> tuple[Any, ...]:
    owner = '["dag", "run", "task", -1]'
    of_load = ("202610", (1000, 3, 100, 2), 6.5, (peak, 80), steps)
    return ("taxi", "trips", "2026-10", attempt, owner, at, *of_load)


RECORDS = [record("second", SECOND), record("first", FIRST)]
PRESENT = [(NOW, [("taxi", "trips", "202610", 3)], [])]
INSERTS = [("first", 4.0), ("second", 5.0)]
MERGES = [
    ("taxi", "trips", "202610", [(FIRST, FIRST, "first"), (FIRST + 1, FIRST + 31, ""), (SECOND, SECOND, "second")])
]
LOG_BEGUN = ("", "", "", NOW - 86_400, 0)
CHANGES = [("taxi", "trips", "202610", NOW - 600, 2), LOG_BEGUN]
LEDGERS = [(name, "taxi", *RecordTable()) for name in (LEDGER_TABLE, LOADS_TABLE)]
#: The answers to each of the statements, of every node.
COSTS = [("taxi", "trips", 1, 100, 1_000, 3.0)]
ANSWERS = (LEDGERS, RECORDS, PRESENT, INSERTS, MERGES, CHANGES, COSTS)


def look(
    answers: tuple[Any, ...] = ANSWERS, other: Mapping[tuple[int, Node], Any] | None = None, days: int = 1
) -> Driven:
    """All nodes answer alike, but for those answers, by number and node."""

    def answer(number: int, rows: Any) -> Any:
        def of(step: Step) -> dict[Node, Any]:
            assert isinstance(step, TryQueryNodes)
            return {node: (other or {}).get((number, node), rows) for node in step.sql}

        return of

    return drive(
        look_at_throughput("main", days=days), CLUSTERS, *(answer(*each) for each in enumerate(answers, start=1))
    )


def seen(other: Mapping[tuple[int, Node], Any] | None = None) -> Throughput:
    result = look(other=other).result
    assert isinstance(result, Throughput)
    return result


def test_every_node_is_asked_seven_statements_however_many_loads_there_are() -> None:
    many = tuple(
        [record(f"load{number}", NOW - number) for number in range(900)] if rows is RECORDS else rows
        for rows in ANSWERS
    )
    for answers, loads in ((ANSWERS, 2), (many, 900)):
        looked = look(answers)
        assert [len(step.sql) if isinstance(step, TryQueryNodes) else 1 for step in looked.steps] == [
            1,
            *([2] * 7),
        ]
        assert len(looked.result.loads) == loads


def test_loads_are_told_once_the_oldest_first() -> None:
    first, second = seen().loads
    assert (first.attempt, second.attempt, first.table_name) == ("first", "second", TableName("taxi", "trips"))
    assert (first.rows, first.source_bytes, first.objects, first.parts) == (100, 1000, 3, 2)
    assert (first.insert_seconds, first.peak_memory_bytes, first.memory_bytes) == (6.5, 50, 80)
    assert list(first.seconds_by_step.items()) == [("list", 2.0), ("insert", 7.0), ("publish", 1.0)]
    assert first.begun_at == FIRST - 10


def test_waits_for_s3_add_up_over_nodes_and_merges_take_as_long_as_the_slowest() -> None:
    longer = [("taxi", "trips", "202610", [(FIRST, FIRST, "first"), (FIRST + 1, FIRST + 61, "")])]
    first, second = seen({(5, B): longer}).loads
    assert (first.storage_seconds, second.storage_seconds) == (8.0, 10.0)
    assert (first.merge_seconds, second.merge_seconds) == (61.0, 0.0)


def test_what_merges_still_is_not_healthy_yet() -> None:
    merging = [(NOW, [], [("taxi", "trips", "202610")])]
    assert [load.merge_seconds for load in seen({(3, B): merging}).loads] == [31.0, None]


def test_parts_are_told_of_each_node() -> None:
    parts = seen({(6, B): [LOG_BEGUN]}).parts
    assert [(point.parts, point.backlog) for point in (parts[A][0], parts[A][-1])] == [(1, 0), (3, 2)]
    assert {point.parts for point in parts[B]} == {3}
    assert len(parts[A]) == 146


def test_before_a_log_begins_nothing_is_known() -> None:
    since = [*CHANGES[:1], (*LOG_BEGUN[:3], NOW - 1200, 0)]
    assert [[point.parts for point in points] for points in seen({(6, A): since, (6, B): []}).parts.values()] == [
        [1, 1, 3, 3],
        [3],
    ]


def test_a_log_that_has_just_begun_tells_what_was_there_before_its_first_change() -> None:
    since = [(*CHANGES[0][:3], NOW - 600, 2), (*LOG_BEGUN[:3], NOW - 450, 0)]
    points = seen({(6, A): since}).parts[A]
    assert [(point.at, point.parts) for point in points] == [(NOW - 600, 1), (NOW, 3), (NOW, 3)]


def test_nodes_tell_of_the_same_times_though_their_clocks_differ() -> None:
    later = [(NOW + 601, [("taxi", "trips", "202610", 3)], [])]
    parts = seen({(3, B): later}).parts
    assert [point.at for point in parts[A]] == [point.at for point in parts[B]]


def test_before_the_changes_that_a_node_tells_nothing_is_known() -> None:
    many = [("taxi", "trips", "202610", NOW - 1200 if number else NOW - 600, 1) for number in range(20_000)]
    oldest_last = sorted(many, key=lambda change: -change[3])
    assert [len(points) for points in seen({(6, B): oldest_last}).parts.values()] == [146, 3]


def test_a_peak_of_memory_that_nobody_knows_is_none() -> None:
    answers = tuple([record("one", FIRST, peak=0)] if rows is RECORDS else rows for rows in ANSWERS)
    (load,) = look(answers).result.loads
    assert load.peak_memory_bytes is None


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_node_that_does_not_answer_is_left_out_and_told_of(number: int) -> None:
    found = seen({(number, B): ClickHouseConnectionError("no answer", "b:9000", "id")})
    assert (found.nodes, list(found.down), len(found.loads)) == ((A,), [B], 2)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (server_error(60), "does not keep it"),
        (server_error(497, "not enough privileges"), "user may not read it"),
        (server_error(159, "timeout exceeded"), "timeout exceeded"),
        (ClickHouseConnectionError("no answer", "b:9000", "id"), "no answer"),
    ],
)
def test_a_log_that_tells_nothing_is_named_and_the_rest_is_told(answer: Any, why: str) -> None:
    found = seen({(4, B): answer})
    assert list(found.silent) == [B]
    (text,) = found.silent[B]
    assert text.startswith("system.query_log: ")
    assert why in text
    assert [load.storage_seconds for load in found.loads] == [4.0, 5.0]
    assert list(found.parts) == [A, B]


def test_a_log_that_knows_no_load_on_any_node_is_told() -> None:
    one_knows_none, none_knows_any = (seen({(4, node): [] for node in nodes}) for nodes in ([B], NODES))
    assert one_knows_none.silent == {}
    assert set(none_knows_any.silent.values()) == {("system.query_log: it knows none of these loads",)}


def test_of_a_storage_that_servers_do_not_count_waits_for_none_are_told() -> None:
    of_hdfs = [("first", 0.0), ("second", 5.0)]
    found = seen({(4, node): of_hdfs for node in NODES})
    assert [load.storage_seconds for load in found.loads] == [None, 10.0]
    assert found.silent == {}


def test_without_any_log_loads_and_parts_of_now_are_told() -> None:
    missing = server_error(60)
    found = seen({(number, node): missing for number in (4, 5, 6) for node in NODES})
    assert [(load.storage_seconds, load.merge_seconds, load.rows) for load in found.loads] == [(None, None, 100)] * 2
    assert (found.parts, {len(each) for each in found.silent.values()}) == ({}, {2})


def test_without_loads_nothing_more_is_asked() -> None:
    nothing = look((ANSWERS[0], [])).result
    assert (nothing.loads, nothing.nodes, nothing.parts) == ((), (A, B), {})


def test_a_load_is_judged_beside_those_of_its_table() -> None:
    slow = record("slow", NOW - 60, steps=[("insert", 70.0), ("list", 2.0)])
    records = [*(record(f"load{number}", NOW - 100 - number) for number in range(3)), slow]
    answers = tuple(records if rows is RECORDS else rows for rows in ANSWERS)
    *others, last = look(answers).result.loads
    assert "the insert took 70.0 s instead of the usual 7.0 s" in last.why_slow
    assert {load.why_slow for load in others} == {""}


def test_more_loads_than_are_asked_for_are_told_to_be_more() -> None:
    answers = tuple(
        [record(f"load{number}", NOW - number) for number in range(1000)] if rows is RECORDS else rows
        for rows in ANSWERS
    )
    assert (look(answers).result.is_cut, seen().is_cut) == (True, False)


def test_nothing_merged() -> None:
    assert settle_seconds([(10, 10, "one")]) == {"one": 0}


def test_merges_follow_one_another() -> None:
    assert settle_seconds([(10, 10, "one"), (20, 50, ""), (110, 130, "")]) == {"one": 120}


def test_the_order_of_the_log_is_no_matter() -> None:
    assert settle_seconds([(110, 130, ""), (20, 50, ""), (10, 10, "one")]) == {"one": 120}


def test_merges_side_by_side_end_with_the_last() -> None:
    assert settle_seconds([(10, 10, "one"), (11, 100, ""), (12, 20, "")]) == {"one": 90}


def test_what_comes_long_after_is_not_the_loads() -> None:
    assert settle_seconds([(10, 10, "one"), (20, 50, ""), (171, 900, "")]) == {"one": 40}


def test_each_publication_has_its_own() -> None:
    assert settle_seconds([(0, 5, ""), (10, 10, "one"), (20, 50, ""), (60, 60, "two"), (61, 63, "")]) == {
        "one": 40,
        "two": 3,
    }


def test_all_parts_of_one_publication_are_one() -> None:
    assert settle_seconds([(10, 10, "one"), (11, 11, "one"), (20, 50, "")]) == {"one": 40}
