"""Which tables are loaded by increments."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.load.new_objects import attaches_first, why_whole
from airflow_provider_chs3.core.target.table_facts import Column
from tests.core.surroundings import with_target


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
    assert [attaches_first(table(engine=engine)) for engine in ("MergeTree", "SummingMergeTree")] == [False, True]
