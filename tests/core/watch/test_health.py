"""The meaning of a period's parts and merges on a node, and whether there is anything left to wait for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_chs3.core.target.node_capacity import Limits
from airflow_provider_chs3.core.watch.health import Health, Reactions, Thresholds, as_json, is_over, overall
from airflow_provider_chs3.core.watch.merge_observation import MergeState, Replica
from airflow_provider_chs3.exceptions import ConfigurationError, MergeHealthError
from tests.core.surroundings import TWO
from tests.support.merge_states import FAILED, FEW, GIB, LIMITS, MANY, MERGE, REPLICA, WAITING, verdict


def health(state: MergeState, **thresholds: Any) -> Health:
    return verdict(state, **thresholds).health


class TestHealthy:
    def test_one_part_for_ever(self):
        assert health(replace(FEW, parts=1, unchanged_seconds=10**9)) is Health.HEALTHY

    def test_one_part_that_was_just_made(self):
        assert health(replace(FEW, parts=1, unchanged_seconds=0)) is Health.HEALTHY

    def test_no_part(self):
        assert health(replace(FEW, parts=0, size_bytes=0, two_smallest_bytes=0)) is Health.HEALTHY

    def test_one_large_part_with_a_few_tiny_ones(self):
        assert health(replace(FEW, parts=11, size_bytes=100 * GIB, unchanged_seconds=0)) is Health.HEALTHY

    @pytest.mark.parametrize(("parts", "expected"), [(14, Health.HEALTHY), (15, Health.SETTLING)])
    def test_parts_too_large_to_be_merged_do_not_count(self, parts, expected):
        assert health(replace(FEW, parts=parts, size_bytes=600 * GIB, unchanged_seconds=0)) is expected

    def test_few_parts_on_a_full_disk(self):
        assert health(replace(FEW, free_bytes=0)) is Health.HEALTHY

    def test_few_parts_while_other_tables_keep_all_threads_busy(self):
        assert health(replace(FEW, pool_is_busy=True)) is Health.HEALTHY

    def test_few_parts_in_a_table_that_has_too_many(self):
        assert health(replace(FEW, table_parts=99_000)) is Health.HEALTHY


class TestSettling:
    def test_a_merge_runs(self):
        assert health(replace(FEW, merges=(MERGE,))) is Health.SETTLING

    def test_a_merge_runs_for_hours_among_many_parts(self):
        assert health(replace(MANY, merges=(MERGE,))) is Health.SETTLING

    def test_parts_changed_a_moment_ago(self):
        assert health(replace(FEW, parts=12, unchanged_seconds=119)) is Health.SETTLING

    def test_many_parts_and_no_merge_for_some_minutes(self):
        assert health(replace(MANY, unchanged_seconds=599)) is Health.SETTLING

    def test_other_tables_keep_all_threads_busy(self):
        assert health(replace(MANY, pool_is_busy=True)) is Health.SETTLING

    def test_a_mutation_has_just_been_asked_for(self):
        assert health(replace(FEW, mutations=(replace(WAITING, age_seconds=5),))) is Health.SETTLING

    def test_the_replication_queue_holds_parts(self):
        assert health(replace(FEW, replica=replace(REPLICA, queue=2))) is Health.SETTLING

    def test_the_replica_lags_since_a_short_time(self):
        assert (
            health(replace(FEW, unchanged_seconds=10, replica=replace(REPLICA, delay_seconds=301))) is Health.SETTLING
        )


class TestSettledWithTooManyParts:
    TOO_MANY = replace(FEW, parts=12, unchanged_seconds=120)

    def test_unchanged_for_two_minutes_with_nothing_merging(self):
        assert health(self.TOO_MANY) is Health.SETTLED_WITH_TOO_MANY_PARTS

    def test_says_what_would_merge_them(self):
        assert "OPTIMIZE TABLE" in verdict(self.TOO_MANY).reason

    def test_half_of_the_limit_is_not_many(self):
        assert health(replace(MANY, parts=500)) is Health.SETTLED_WITH_TOO_MANY_PARTS


class TestStuck:
    def test_many_parts_and_nothing_merges_for_long(self):
        assert health(replace(MANY, unchanged_seconds=600)) is Health.STUCK

    def test_says_that_merges_may_be_stopped(self):
        assert "SYSTEM START MERGES" in verdict(MANY).reason

    def test_many_goes_by_the_tables_own_limit(self):
        limits = replace(LIMITS, parts_to_delay_insert=30)
        assert health(replace(FEW, parts=16, limits=limits)) is Health.STUCK

    def test_the_whole_table_has_too_many_parts(self):
        assert health(replace(FEW, parts=12, table_parts=50_001)) is Health.STUCK

    def test_merges_that_the_settings_forbid(self):
        limits = replace(LIMITS, max_bytes_to_merge_at_max_space_in_pool=0)
        assert health(replace(MANY, limits=limits)) is Health.STUCK

    def test_a_failed_mutation_with_its_reason_in_one_line(self):
        reason = verdict(replace(FEW, mutations=(FAILED,))).reason
        assert reason == (
            "mutation DELETE WHERE x failed: Code: 395. Value passed to 'throwIf'; fix its cause, or KILL MUTATION"
        )

    def test_a_failed_mutation_while_it_is_tried_again(self):
        assert health(replace(FEW, mutations=(FAILED,), merges=(MERGE,))) is Health.STUCK

    def test_a_mutation_at_which_nothing_works(self):
        assert "mutation DELETE WHERE x waits" in verdict(replace(FEW, mutations=(WAITING,))).reason

    def test_no_room_for_the_smallest_merge(self):
        state = replace(FEW, parts=12, free_bytes=4 * GIB - 1)
        assert (health(state), verdict(state).reason.partition(":")[0]) == (Health.STUCK, "disk full")

    def test_room_for_the_smallest_merge_is_not_a_full_disk(self):
        assert health(replace(FEW, parts=12, free_bytes=4 * GIB)) is Health.SETTLED_WITH_TOO_MANY_PARTS

    def test_a_read_only_replica(self):
        assert "read-only" in verdict(replace(FEW, replica=replace(REPLICA, is_readonly=True))).reason

    def test_a_broken_part_even_if_all_else_is_well(self):
        state = replace(FEW, parts=1, broken_parts=("broken-on-start_202610_1_1_0",))
        assert health(state) is Health.STUCK
        assert "rows are missing because parts were broken (broken-on-start_202610_1_1_0" in verdict(state).reason

    def test_a_replica_that_lags_for_long_with_what_it_waits_for(self):
        lagging = Replica(is_readonly=False, delay_seconds=900, queue=3, postpone_reason="fetches are stopped")
        state = replace(FEW, replica=lagging)
        assert "lags 900 s behind: fetches are stopped" in verdict(state).reason

    def test_a_replica_that_lags_for_long_with_its_error(self):
        lagging = Replica(is_readonly=False, delay_seconds=900, queue=3, last_exception="Code: 234. No replica has it")
        state = replace(FEW, replica=lagging)
        assert health(state) is Health.STUCK
        assert "lags 900 s behind: Code: 234. No replica has it" in verdict(state).reason


class TestThresholds:
    def test_spare_parts(self):
        assert health(FEW, spare_parts=0) is Health.SETTLED_WITH_TOO_MANY_PARTS

    def test_stuck_after_seconds(self):
        assert health(replace(MANY, unchanged_seconds=3), stuck_after_seconds=3) is Health.STUCK

    def test_settled_after_seconds(self):
        state = replace(FEW, parts=12, unchanged_seconds=3)
        assert health(state, settled_after_seconds=3) is Health.SETTLED_WITH_TOO_MANY_PARTS

    @pytest.mark.parametrize("wrong", [{"spare_parts": -1}, {"stuck_fraction": 1.5}])
    def test_senseless_ones_are_refused(self, wrong):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            Thresholds(**wrong)


HEALTHY, SETTLING, STUCK = (verdict(each) for each in (FEW, replace(FEW, node=TWO, merges=(MERGE,)), MANY))
TOO_MANY = verdict(replace(FEW, parts=12))


class TestIsOver:
    def test_when_all_is_healthy(self):
        assert is_over([HEALTHY, HEALTHY], Reactions())

    def test_not_while_one_node_settles(self):
        assert not is_over([HEALTHY, SETTLING], Reactions())

    def test_with_too_many_parts_where_that_will_do(self):
        assert is_over([HEALTHY, TOO_MANY], Reactions())

    def test_an_error_with_too_many_parts_where_that_will_not_do(self):
        with pytest.raises(MergeHealthError, match="12 parts"):
            is_over([HEALTHY, TOO_MANY], Reactions(on_settled_with_too_many_parts="fail"))

    def test_an_error_names_what_is_stuck_and_nothing_else(self):
        with pytest.raises(MergeHealthError) as raised:
            is_over([HEALTHY, SETTLING, STUCK], Reactions())
        assert str(raised.value) == str(STUCK)

    def test_not_while_one_is_stuck_and_may_recover(self):
        assert not is_over([HEALTHY, STUCK], Reactions(on_stuck="wait"))

    @pytest.mark.parametrize(("others", "expected"), [([HEALTHY], True), ([SETTLING], False)])
    def test_a_stuck_one_that_does_not_matter(self, others, expected):
        assert is_over([STUCK, *others], Reactions(on_stuck="continue")) is expected

    @pytest.mark.parametrize("wrong", [{"on_stuck": "skip"}, {"on_settled_with_too_many_parts": "wait"}])
    def test_reactions_that_do_not_exist_are_refused(self, wrong):
        with pytest.raises(ConfigurationError, match="use one of"):
            Reactions(**wrong)


class TestWhatIsTold:
    def test_a_line_with_parts_and_the_share_done_of_each_merge(self):
        assert str(SETTLING) == (
            "2026-10 on ch-2:9000 settling, 3 parts: merging, 25% done, 10.0 MiB/s, about 30 s left"
        )

    def test_nothing_more_where_it_is_healthy(self):
        assert str(verdict(replace(FEW, parts=1))) == "2026-10 on ch-1:9000 healthy, 1 part"

    @pytest.mark.parametrize(
        ("verdicts", "expected"),
        [([], HEALTHY), ([TOO_MANY, HEALTHY], TOO_MANY), ([SETTLING, TOO_MANY], SETTLING), ([STUCK, SETTLING], STUCK)],
    )
    def test_overall_the_worst_counts(self, verdicts, expected):
        assert overall(verdicts) is expected.health

    def test_json_by_period_and_node(self):
        told = json.loads(json.dumps(as_json([HEALTHY, SETTLING])))
        assert told["health"] == "settling"
        assert told["periods"]["2026-10"]["ch-2:9000"] == {
            "health": "settling",
            "parts": 3,
            "size_bytes": 3 * GIB,
            "reason": "merging, 25% done",
            "pace": {
                "bytes_per_second": 10 * 1024**2,
                "parts_per_second": None,
                "seconds_left": 30,
                "more_follows": False,
            },
        }


SERVER = {name: str(getattr(LIMITS, name)) for name in Limits.__slots__}


class TestLimits:
    @pytest.mark.parametrize(
        ("settings", "expected"),
        [
            ("index_granularity = 8192", 1000),
            ("parts_to_delay_insert = 7, index_granularity = 8192", 7),
            ("index_granularity = 8192, parts_to_delay_insert = '2Ki'", 2048),
            ("parts_to_delay_insert = '2K'", 2000),
            ("my_parts_to_delay_insert = 7", 1000),
        ],
    )
    def test_the_tables_own_go_before_the_servers(self, settings, expected):
        assert Limits.of(SERVER, settings).parts_to_delay_insert == expected
