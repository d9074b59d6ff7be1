"""Staging: its names, its shape, and the end of what attempts left."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_chs3.core.load.end_attempts import (
    check_not_superseded,
    drop_staging,
    end_attempts,
    end_earlier_attempts,
    settle_with_rivals,
    take_over,
)
from airflow_provider_chs3.core.load.staging_tables import Attempt, create_staging, ddl_settings, holds_any, make_nonce
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import literal
from airflow_provider_chs3.core.steps.operations import QueryNodes, Sleep, Step
from airflow_provider_chs3.exceptions import ClickHouseServerError, SupersededError, TransientError
from tests.core.surroundings import FACTS, ONE, TARGET, THREE, TWO, surroundings
from tests.support.driving import drive

ATTEMPT = Attempt(TableName("db", "trips"), (Period.of_month(2026, 10),), "0123456789abcdef")
OTHER = replace(ATTEMPT, nonce="fedcba9876543210")
EARLIER = replace(ATTEMPT, nonce="0" * 16)
AROUND = surroundings(staging="st")


def on_all(*rows: tuple[str, str]) -> dict[Node, list[tuple[str, str]]]:
    return {node: list(rows) for node in AROUND.nodes}


def statements(step: Step) -> set[str]:
    assert isinstance(step, QueryNodes)
    return {sql.text for sql in step.sql.values()}


class TestNames:
    def test_are_never_the_same_for_two_attempts(self):
        assert ATTEMPT.name != OTHER.name

    def test_of_one_period_begin_alike(self):
        assert ATTEMPT.prefix == OTHER.prefix
        assert ATTEMPT.name.startswith(ATTEMPT.prefix)

    @pytest.mark.parametrize(
        "other",
        [
            replace(ATTEMPT, periods=(Period.of_month(2026, 11),)),
            replace(ATTEMPT, target=TableName("db", "trips2")),
            replace(ATTEMPT, target=TableName("db2", "trips")),
            replace(ATTEMPT, target=TableName("dbt", "rips")),
        ],
    )
    def test_of_another_table_or_period_begin_otherwise(self, other):
        assert not other.name.startswith(ATTEMPT.prefix)

    @pytest.mark.parametrize("table", ["x; DROP TABLE y", "`", "'", "🚕", "a" * 200])
    def test_are_short_and_plain_whatever_the_table_is_called(self, table):
        name = replace(ATTEMPT, target=TableName("db", table)).name
        assert name.startswith("chs3_")
        assert len(name) < 60
        assert name.replace("_", "").isalnum()
        assert name.isascii()

    def test_of_a_later_attempt_come_later(self):
        times = [datetime(2026, 10, 5, 12, tzinfo=UTC) + timedelta(milliseconds=number) for number in range(100)]
        nonces = [make_nonce(time) for time in times]
        assert (sorted(nonces), {len(nonce) for nonce in nonces}) == (nonces, {16})

    def test_stay_as_they_are_in_every_version_of_this_package(self):
        assert ATTEMPT.prefix == "chs3_10ec6ce4e9b8fa48_"


class TestDrop:
    @pytest.mark.parametrize(("engine", "end"), [("MergeTree", ""), ("ReplicatedMergeTree", " SYNC")])
    def test_waits_for_no_files_but_for_the_path_in_keeper(self, engine, end):
        context = surroundings(*[replace(FACTS, target=replace(TARGET, engine=engine))] * 3, staging="st")
        several = replace(ATTEMPT, number=1)
        steps = drive(drop_staging(context, ATTEMPT, several), on_all(), on_all()).steps
        assert [statements(step) for step in steps] == [
            {f"DROP TABLE IF EXISTS `st`.`{each.name}`{end}"} for each in (ATTEMPT, several)
        ]


class TestCreate:
    @staticmethod
    def created(attempt: Attempt = ATTEMPT, **shape: str) -> str:
        target = replace(TARGET, **shape)
        context = surroundings(*[replace(FACTS, target=target)] * 3, staging="st")
        (step,) = drive(create_staging(context, attempt), on_all()).steps
        (text,) = statements(step)
        return text

    def test_is_a_plain_merge_tree_of_the_targets_shape(self):
        assert self.created() == (
            f"CREATE TABLE `st`.`{ATTEMPT.name}` AS `db`.`trips` ENGINE = MergeTree PARTITION BY toYYYYMM(at) "
            "ORDER BY (id, at) SETTINGS index_granularity = 8192, fsync_after_insert = 1, fsync_part_directory = 1, "
            "min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1, "
            "min_compressed_bytes_to_fsync_after_fetch = 1, max_bytes_to_merge_at_max_space_in_pool = 1, "
            "max_bytes_to_merge_at_min_space_in_pool = 1, parts_to_delay_insert = 1000000, "
            "parts_to_throw_insert = 1000000 "
            f"COMMENT {literal(ATTEMPT.comment)}"
        )

    def test_names_a_primary_key_only_where_the_target_does(self):
        """25.8 refuses to replace a partition from a table that differs in that."""
        engine_full = "MergeTree PARTITION BY toYYYYMM(at) PRIMARY KEY id ORDER BY (id, at)"
        assert " PRIMARY KEY (id) ORDER BY (id, at) " in self.created(engine_full=engine_full, primary_key="id")

    def test_is_durable_whatever_the_target_is(self):
        engine_full = "MergeTree ORDER BY id SETTINGS fsync_after_insert = 0, index_granularity = 100"
        created = self.created(engine_full=engine_full)
        assert (
            " SETTINGS index_granularity = 100, fsync_after_insert = 1, fsync_part_directory = 1, "
            "min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1, "
            "min_compressed_bytes_to_fsync_after_fetch = 1, max_bytes"
        ) in created

    @pytest.mark.parametrize(("engine", "is_durable"), [("MergeTree", False), ("ReplicatedMergeTree", True)])
    def test_with_links_alone_is_durable_only_where_replicas_may_fetch_what_it_holds(self, engine, is_durable):
        created = self.created(replace(ATTEMPT, number=1), engine=engine)
        assert ("fsync_part_directory = 1" in created, "fsync_after_insert = 1" in created) == (is_durable, is_durable)

    def test_has_no_ttl(self):
        engine_full = "MergeTree ORDER BY id TTL at + toIntervalDay(1) SETTINGS index_granularity = 8192"
        assert " TTL " not in self.created(engine_full=engine_full)

    def test_is_sampled_as_the_target(self):
        assert "SAMPLE BY id SETTINGS" in self.created(sampling_key="id")

    def test_fails_where_the_name_was_used_before(self):
        assert "IF NOT EXISTS" not in self.created()

    @pytest.mark.parametrize(
        ("periods", "number", "role"), [(1, 0, "inserted and published"), (2, 0, "inserted"), (2, 1, "published")]
    )
    def test_has_a_comment_that_says_what_it_is_for(self, periods, number, role):
        """With COMMENT it has no comment of the target, which might look like one of these."""
        target = TableName("d b", "it's \"t\\")
        attempt = Attempt(
            target, (Period.of_month(2026, 10), Period.of_month(2026, 11))[:periods], ATTEMPT.nonce, number
        )
        (step,) = drive(create_staging(AROUND, attempt), on_all()).steps
        assert all(text.endswith(f" COMMENT {literal(attempt.comment)}") for text in statements(step))
        assert json.loads(attempt.comment) == {
            "role": role,
            "attempt": ATTEMPT.nonce,
            "database": target.database,
            "table": target.table,
            "periods": ["2026-10", "2026-11"][:periods],
        }

    @pytest.mark.parametrize(("is_published", "role"), [(False, "inserted"), (True, "published")])
    def test_of_several_periods_is_found_by_its_comment(self, is_published, role):
        condition = holds_any(
            [ATTEMPT, replace(ATTEMPT, periods=(Period.of_month(2026, 9),))], is_published=is_published
        )
        assert f"JSONExtractString(comment, 'role') = '{role}'" in condition
        assert condition.endswith("hasAny(JSONExtract(comment, 'periods', 'Array(String)'), ['2026-09', '2026-10']))")

    def test_goes_to_every_node(self):
        (step,) = drive(create_staging(AROUND, ATTEMPT), on_all()).steps
        assert set(step.sql) == {ONE, TWO, THREE}


class TestEnd:
    def test_nothing_left_is_nothing_to_do(self):
        assert len(drive(end_attempts(AROUND, ATTEMPT), on_all()).steps) == 1

    def test_queries_go_before_tables(self):
        left = {ONE: [("query", "q"), ("table", ATTEMPT.name)], TWO: [("table", ATTEMPT.name)], THREE: []}
        tables = {ONE: [("table", ATTEMPT.name)], TWO: [("table", ATTEMPT.name)], THREE: []}
        look, kill, pause, _, drop, _ = drive(
            end_attempts(AROUND, ATTEMPT), left, on_all(), None, tables, on_all(), on_all()
        ).steps
        assert "system.processes" in next(iter(statements(look)))
        assert (set(kill.sql), isinstance(pause, Sleep), set(drop.sql)) == ({ONE}, True, {ONE, TWO})
        assert statements(kill) == {
            f"KILL QUERY WHERE arrayExists(name -> startsWith(initial_query_id, name), [{literal(ATTEMPT.name)}]) ASYNC"
        }
        assert statements(drop) == {f"DROP TABLE IF EXISTS `st`.`{ATTEMPT.name}` SYNC"}

    def test_it_looks_again_until_nothing_is_left(self):
        running = {ONE: [("query", "q")], TWO: [], THREE: []}
        answers = [running, on_all(), None] * 3
        assert len(drive(end_attempts(AROUND, ATTEMPT), *answers, on_all()).steps) == 10

    def test_queries_that_do_not_end_are_told_with_their_nodes(self):
        def answer(step):
            return {ONE: [], TWO: [("query", "q")], THREE: []} if "Look" in step.name else None

        with pytest.raises(TransientError, match=r"still run on ch-2:9000 300 s after KILL QUERY"):
            drive(end_attempts(AROUND, ATTEMPT), *[answer] * 900)

    def test_an_own_end_finds_its_own_staging_and_that_of_its_new_starts(self):
        (look,) = drive(end_attempts(AROUND, ATTEMPT), on_all()).steps
        assert f"arrayExists(prefix -> startsWith(name, prefix), [{literal(ATTEMPT.name)}])" in next(
            iter(statements(look))
        )

    def test_earlier_attempts_are_found_by_their_prefix(self):
        (look,) = drive(end_earlier_attempts(AROUND, ATTEMPT), on_all()).steps
        (text,) = statements(look)
        prefix = literal(ATTEMPT.prefix)
        assert f"arrayExists(prefix -> startsWith(name, prefix), [{prefix}])" in text
        assert f"arrayExists(name -> startsWith(initial_query_id, name), [{prefix}])" in text
        assert holds_any([ATTEMPT]) in text

    def test_queries_of_a_table_of_several_periods_are_ended_before_it_is_dropped(self):
        found = {ONE: [("several", "chs3_s")], TWO: [], THREE: []}
        running = {ONE: [("several", "chs3_s"), ("query", "chs3_s_publish_1_1")], TWO: [], THREE: []}
        answers = (found, running, on_all(), None, found, on_all(), on_all())
        _, look, kill, _, _, drop, _ = drive(end_earlier_attempts(AROUND, ATTEMPT), *answers).steps
        ended = "arrayExists(name -> startsWith(initial_query_id, name), ['chs3_s'])"
        assert all(ended in text for step in (look, kill) for text in statements(step))
        assert statements(drop) == {"DROP TABLE IF EXISTS `st`.`chs3_s` SYNC"}

    def test_each_table_is_dropped_where_it_is(self):
        left = {ONE: [("table", "chs3_a")], TWO: [("table", "chs3_b"), ("table", "chs3_a")], THREE: []}
        steps = drive(end_earlier_attempts(AROUND, ATTEMPT), left, on_all(), on_all(), on_all()).steps
        assert [set(step.sql) for step in steps[1:3]] == [{ONE, TWO}, {TWO}]


class TestSuperseded:
    def test_an_attempt_that_is_killed_while_it_creates_staging_gives_way(self):
        steps = create_staging(AROUND, ATTEMPT)
        next(steps)
        with pytest.raises(SupersededError, match="took over"):
            steps.throw(ClickHouseServerError(394, "QUERY_WAS_CANCELLED", "killed", "ch-1:9000"))

    def test_any_other_error_while_it_creates_staging_is_told_as_it_is(self):
        steps = create_staging(AROUND, ATTEMPT)
        next(steps)
        with pytest.raises(ClickHouseServerError, match="243"):
            steps.throw(ClickHouseServerError(243, "NOT_ENOUGH_SPACE", "disk full", "ch-1:9000"))

    def test_the_newest_staging_goes_on(self):
        (look,) = drive(take_over(AROUND, ATTEMPT), {ONE: [(ATTEMPT.name, 1)]}).steps
        assert set(look.sql) == {ONE}

    def test_it_ends_just_those_that_the_coordinator_shows_as_older(self):
        found = {ONE: [(ATTEMPT.name, 1), (EARLIER.name, 1)]}
        _, look = drive(take_over(AROUND, ATTEMPT), found, on_all()).steps
        (text,) = statements(look)
        assert f"name IN ({literal(EARLIER.name)})" in text
        assert f"arrayExists(name -> startsWith(initial_query_id, name), [{literal(EARLIER.name)}])" in text

    def test_it_ends_a_table_of_several_periods_even_if_it_is_newer(self):
        _, look = drive(take_over(AROUND, ATTEMPT), {ONE: [("chs3_s", 0), (ATTEMPT.name, 1)]}, on_all()).steps
        (text,) = statements(look)
        assert "name IN ('chs3_s')" in text

    @pytest.mark.parametrize("names", [[(OTHER.name, 1), (ATTEMPT.name, 1)], []])
    def test_any_other_stops_before_it_ends_anything(self, names):
        with pytest.raises(SupersededError, match=r"Another load, .* of db\.trips for 2026-10 .* took over"):
            drive(take_over(AROUND, ATTEMPT), {ONE: names})

    def test_staging_everywhere_is_not_superseded(self):
        drive(check_not_superseded(AROUND, ATTEMPT, TransientError("x")), {node: [(1,)] for node in AROUND.nodes})

    @pytest.mark.parametrize("gone", [ONE, THREE])
    def test_staging_gone_from_a_node_is(self, gone):
        answers = {node: [(int(node != gone),)] for node in AROUND.nodes}
        with pytest.raises(
            SupersededError,
            match=r"if there is none, clear this task.*max_active_runs=1 for the DAG, or .*max_active_tis",
        ):
            drive(check_not_superseded(AROUND, ATTEMPT, TransientError("x")), answers)


class TestRivals:
    SEVERAL = Attempt(ATTEMPT.target, (Period.of_month(2026, 10), Period.of_month(2026, 11)), ATTEMPT.nonce, 1)
    PERIODS = tuple(Attempt(ATTEMPT.target, (Period.of_month(2026, number),), ATTEMPT.nonce) for number in (10, 11))

    #: Name, periods, whether it is of one of the periods, or of several.
    OWN = (SEVERAL.name, ["2026-10", "2026-11"], 0, 1)

    def settled(self, *rows: tuple[str, list[str], int, int]) -> list[Attempt]:
        found: list[Attempt] = drive(settle_with_rivals(AROUND, self.SEVERAL, self.PERIODS), {ONE: rows}).result
        return found

    def test_a_period_that_is_staged_by_itself_is_left_to_that_load(self):
        october, _ = self.PERIODS
        assert self.settled(self.OWN, (f"{october.prefix}other", ["2026-10"], 1, 0)) == [october]

    def test_a_period_of_a_group_that_began_later_is_left_to_that_group(self):
        _, november = self.PERIODS
        assert self.settled(
            self.OWN, (replace(self.SEVERAL, nonce=OTHER.nonce).name, ["2026-11", "2026-12"], 0, 1)
        ) == [november]

    def test_a_group_that_began_earlier_is_ended(self):
        earlier = replace(self.SEVERAL, nonce=EARLIER.nonce)
        driven = drive(
            settle_with_rivals(AROUND, self.SEVERAL, self.PERIODS),
            {ONE: [self.OWN, (earlier.name, ["2026-11", "2026-12"], 0, 1)]},
            {node: [("table", earlier.name)] for node in AROUND.nodes},
            {},
            {node: [] for node in AROUND.nodes},
        )
        assert driven.result == []
        assert statements(driven.steps[2]) == {f"DROP TABLE IF EXISTS `st`.`{earlier.name}` SYNC"}

    def test_without_a_table_of_its_own_it_is_superseded(self):
        with pytest.raises(SupersededError, match="took over"):
            self.settled()

    def test_each_table_of_a_group_has_a_name_of_its_own(self):
        names = {replace(self.SEVERAL, number=number).name for number in range(3)}
        assert len(names) == 3
        others = (Period.of_month(2026, 9), Period.of_month(2026, 11))
        assert replace(self.SEVERAL, periods=others).prefix != self.SEVERAL.prefix


class TestDdlSettings:
    def test_are_those_that_every_node_knows(self):
        new = replace(FACTS, known_settings={"max_partition_size_to_drop": None, "max_table_size_to_drop": None})
        old = replace(FACTS, known_settings={"max_table_size_to_drop": None})
        assert ddl_settings(surroundings(new, old, new)) == {"max_table_size_to_drop": 0}
