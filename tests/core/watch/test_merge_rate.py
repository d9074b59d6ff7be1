"""How fast merges go, and how long they may still take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_chs3.core.watch.merge_observation import Merge, MergeState
from airflow_provider_chs3.core.watch.merge_rate import MergeRate, merge_rate_of
from tests.support.merge_states import FEW, REPLICA

MIB = 1024**2
HALF = Merge(progress=0.5, seconds=60, size_bytes=600 * MIB, parts=4)
LATE = Merge(progress=0.1, seconds=60, size_bytes=600 * MIB, parts=4)


def pace(state: MergeState, before: MergeState | None = None) -> MergeRate:
    return merge_rate_of(state, most_parts=10, before=before)


def later(state: MergeState, seconds: float) -> MergeState:
    return replace(state, at_seconds=state.at_seconds + seconds)


class TestFromOneLook:
    def test_the_bytes_of_all_merges_over_their_time(self):
        assert pace(replace(FEW, merges=(HALF, LATE))).bytes_per_second == (5 + 1) * MIB

    def test_the_merge_that_ends_last_counts(self):
        assert pace(replace(FEW, merges=(HALF, LATE))).seconds_left == pytest.approx(540)

    def test_a_merge_that_has_just_begun_tells_nothing(self):
        begun = Merge(progress=0, seconds=0, size_bytes=600 * MIB, parts=4)
        assert pace(replace(FEW, merges=(begun,))) == MergeRate()

    @pytest.mark.parametrize(("parts", "more_follows"), [(13, False), (14, True)])
    def test_more_merges_follow_where_those_that_run_leave_too_many_parts(self, parts, more_follows):
        assert pace(replace(FEW, parts=parts, merges=(HALF,))).more_follows is more_follows

    def test_nothing_moves(self):
        assert pace(replace(FEW, parts=100)) == MergeRate(more_follows=True)


class TestFromTwoLooks:
    def test_parts_get_fewer_by_so_many_a_second(self):
        before = replace(FEW, parts=100)
        assert pace(later(replace(FEW, parts=60), 20), before) == MergeRate(parts_per_second=2, seconds_left=25)

    def test_the_replication_queue_gets_shorter(self):
        before = replace(FEW, replica=replace(REPLICA, queue=50))
        now = later(replace(FEW, replica=replace(REPLICA, queue=30)), 10)
        assert pace(now, before) == MergeRate(parts_per_second=2, seconds_left=15)

    def test_a_long_merge_counts_even_if_parts_get_fewer_fast(self):
        before = replace(FEW, parts=100)
        assert pace(later(replace(FEW, parts=60, merges=(LATE,)), 20), before).seconds_left == pytest.approx(540)

    @pytest.mark.parametrize("seconds", [0, 20])
    def test_no_speed_where_parts_or_time_stood_still(self, seconds):
        assert pace(later(FEW, seconds), FEW).parts_per_second is None


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        (MergeRate(), ""),
        (MergeRate(bytes_per_second=5 * MIB, seconds_left=90), "5.0 MiB/s, about 90 s left"),
        (MergeRate(bytes_per_second=2048 * MIB, seconds_left=600), "2,048.0 MiB/s, about 10 min left"),
        (MergeRate(seconds_left=10_000, more_follows=True), "at least about 2 h 47 min left"),
        (MergeRate(parts_per_second=2, seconds_left=25), "2 parts/s fewer, about 25 s left"),
    ],
)
def test_it_is_told_in_words(seen, text):
    assert str(seen) == text
