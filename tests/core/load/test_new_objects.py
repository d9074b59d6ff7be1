"""Which tables are loaded by increments, and on which published periods these build."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.ledger.partition_state import Evidence, Mutation, Part, PartitionState
from airflow_provider_chs3.core.ledger.records import PeriodOnNode, Record
from airflow_provider_chs3.core.load.new_objects import why_no_base, why_whole
from airflow_provider_chs3.core.target.table_facts import Column
from tests.core.surroundings import ONE, TWO, with_target


def table(**changes):
    return with_target(**changes).target


@pytest.mark.parametrize(
    "engine", ["MergeTree", "ReplicatedMergeTree", "ReplacingMergeTree", "ReplicatedSummingMergeTree"]
)
def test_these_engines_are(engine):
    assert why_whole(table(engine=engine)) == ""


@pytest.mark.parametrize(
    ("engine_full", "engine", "why"),
    [
        ("CollapsingMergeTree(sign)", "CollapsingMergeTree", "CollapsingMergeTree merges rows"),
        ("GraphiteMergeTree('x')", "GraphiteMergeTree", "GraphiteMergeTree merges rows"),
        (
            "ReplacingMergeTree(v, d) ORDER BY k SETTINGS allow_experimental_replacing_merge_with_cleanup = 1",
            "ReplacingMergeTree",
            "CLEANUP",
        ),
        (
            "MergeTree ORDER BY k TTL at + INTERVAL 1 DAY GROUP BY k SET v = avg(v)",
            "MergeTree",
            "the table's TTL aggregates",
        ),
        ("MergeTree ORDER BY k SETTINGS enable_block_number_column = 1", "MergeTree", "lightweight updates"),
    ],
)
def test_these_tables_are_loaded_whole(engine_full, engine, why):
    assert why in why_whole(table(engine=engine, engine_full=engine_full))


def with_default(expression):
    return table(columns=(Column("x", "Int64", "DEFAULT", expression),))


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        ("dictGet('d', 'x', k)", "calls dictGet,"),
        ("dictGetOrDefault('d', 'x', k, 0)", "calls dictGetOrDefault,"),
        ("joinGet('j', 'x', k)", "calls joinGet,"),
        ("(SELECT max(a) FROM t)", "holds a sub-query,"),
    ],
)
def test_values_of_other_tables_may_have_changed_since(expression, what):
    assert f"the default of a column {what}" in why_whole(with_default(expression))


@pytest.mark.parametrize("expression", ["dictionary + 1", "toDate(at)", "now()", "selected"])
def test_other_defaults_change_nothing(expression):
    assert why_whole(with_default(expression)) == ""


def test_where_rows_merge_the_published_ones_come_first():
    assert [table(engine=engine).is_plain for engine in ("MergeTree", "SummingMergeTree")] == [True, False]


PLAIN = with_target(engine="MergeTree").target
SUMMING = with_target(engine="SummingMergeTree").target
PARTS = (Part(2, 2, 0, 2, 10, "a" * 24), Part(3, 3, 0, 3, 20, "b" * 24))
MERGED = (Part(2, 3, 1, 2, 30, "c" * 24),)


def state(parts, mutations=()):
    return PartitionState(
        rows=sum(part.rows for part in parts),
        parts=len(parts),
        min_block=min((part.min_block for part in parts), default=0),
        max_block=max((part.max_block for part in parts), default=0),
        data_version=max((part.data_version for part in parts), default=0),
        each_part=parts,
        mutations=mutations,
        partition_id="202610",
    )


def period(parts, *, recorded=PARTS, mutations=(), **changes):
    was = state(recorded)
    values = {
        "event": "published",
        "attempt": "a",
        "fingerprint": "f",
        "definition": "d",
        "source_bytes": 1,
        "nodes": 2,
        "rows": was.rows,
        "min_block": was.min_block,
        "max_block": was.max_block,
        "data_version": was.data_version,
        "evidence": was.evidence().as_text(),
        "base": "a",
    }
    return PeriodOnNode(Record(**values | changes), state(parts, mutations), has_history=True, has_rows=True)


@pytest.mark.parametrize("parts", [PARTS, MERGED], ids=["as recorded", "merged"])
def test_the_recorded_parts_or_merges_of_them_are_a_base(parts):
    assert why_no_base({ONE: period(parts), TWO: period(PARTS)}, PLAIN) == ""


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (period(PARTS, base=""), "was not published by a load that recorded its objects"),
        (period(PARTS, event="intent"), "was not published by a load that recorded its objects"),
        (period((*PARTS, Part(4, 4, 0, 4, 1, "d" * 24))), "was changed since"),
        (period((PARTS[0],)), "was changed since"),
        (period((PARTS[0], Part(3, 3, 0, 3, 20, "e" * 24))), "was changed since"),
        (period(PARTS, mutations=(Mutation(9, "", "DELETE WHERE 1", False, ("202610",)),)), "was changed since"),
        (period(PARTS, evidence=Evidence(rows=30, parts=None).as_text()), "too many parts"),
    ],
)  # fmt: skip
def test_anything_else_is_none(found, why):
    assert why in why_no_base({ONE: period(PARTS), TWO: found}, PLAIN)


def test_parts_that_merges_may_remove_must_be_there():
    assert "parts of it are missing" in why_no_base({ONE: period((PARTS[1],))}, SUMMING)


@pytest.mark.parametrize("change", [{"attempt": "b"}, {"base": "b"}, {"increments": 1}, {"fingerprint": "g"}])
def test_nodes_must_have_records_of_one_load(change):
    assert (
        why_no_base({ONE: period(PARTS), TWO: period(PARTS, **change)}, PLAIN)
        == "nodes have records of different loads"
    )
