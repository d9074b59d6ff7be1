"""Partitions of which merges leave rows."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.load.published_rows import find_lasting
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.steps.operations import Log
from tests.core.surroundings import ONE, TWO, surroundings, with_target
from tests.support.driving import drive, server_error

REPLICA = Node(1, 2, "ch-1b", 9000)
CLAUSES = "PARTITION BY toYYYYMM(at) ORDER BY (id, at)"


def context(engine: str, *, clauses: str = CLAUSES, nodes: tuple[Node, ...] = (ONE, TWO)):
    facts = with_target(engine=engine.partition("(")[0], engine_full=f"{engine} {clauses}")
    return surroundings(*(facts for _ in nodes), nodes=nodes)


@pytest.mark.parametrize(
    "of",
    [
        context("MergeTree"),
        context("ReplacingMergeTree(version, is_deleted)"),
        context("SummingMergeTree", clauses=f"{CLAUSES} TTL at + INTERVAL 1 DAY"),
    ],
)
def test_nobody_is_asked_where_merges_leave_a_row_of_each_key_or_where_time_removes_them(of):
    assert drive(find_lasting(of, {ONE: ["202610"], TWO: []})).result == {ONE: set(), TWO: set()}


def test_nodes_are_asked_about_so_many_at_once():
    ids = [f"2026-{number}" for number in range(70)]
    answers = {ONE: [(ids[0], 0)], TWO: []}, {ONE: [(ids[69], 0)]}
    found = drive(find_lasting(context("SummingMergeTree"), {ONE: ids, TWO: ["it's"]}), *answers)
    first, second = found.steps
    assert first.sql[ONE].text.count(" FINAL WHERE _partition_id = ") == 60
    assert r"_partition_id = 'it\'s'" in first.sql[TWO].text
    assert list(second.sql) == [ONE]
    assert found.result == {ONE: {ids[0], ids[69]}, TWO: set()}


def test_one_replica_of_a_shard_is_asked():
    of = context("ReplicatedSummingMergeTree('/p', 'r')", nodes=(ONE, REPLICA, TWO))
    found = drive(find_lasting(of, {ONE: ["a"], REPLICA: ["a"], TWO: ["b"]}), {ONE: [("a", 0)], TWO: [("b", 0)]})
    assert list(found.steps[0].sql) == [ONE, TWO]
    assert found.result == {ONE: {"a"}, REPLICA: {"a"}, TWO: {"b"}}


@pytest.mark.parametrize(
    ("engine", "sign"),
    [
        ("CollapsingMergeTree(sign)", "sign"),
        ("CollapsingMergeTree(`a (sign`)", "`a (sign`"),
        (r"ReplicatedCollapsingMergeTree('/it\'s (', '{replica}', s)", "s"),
    ],
)
def test_a_key_lasts_whose_rows_are_all_of_one_sign(engine, sign):
    found = drive(find_lasting(context(engine), {ONE: ["a"], TWO: []}), {ONE: []})
    assert f" GROUP BY id, at HAVING min({sign}) = max({sign}) LIMIT 1" in found.steps[0].sql[ONE].text


def test_who_may_not_read_the_table_is_told_so():
    found = drive(find_lasting(context("SummingMergeTree"), {ONE: ["a"], TWO: []}), {ONE: server_error(497)}, None)
    assert isinstance(found.steps[1], Log)
    assert found.result == {ONE: set(), TWO: set()}
