"""How long to wait until the next look at merges."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_chs3.core.arguments.merge_arguments import Thresholds
from airflow_provider_chs3.core.watch.health import Verdict, judge
from airflow_provider_chs3.core.watch.merge_observation import MergeState
from airflow_provider_chs3.core.watch.watch import LONGEST_INTERVAL_SECONDS, next_interval_seconds
from tests.support.merge_states import FEW, MANY, WAITING


def seen(*states: MergeState) -> list[Verdict]:
    return [judge(state, Thresholds()) for state in states]


def interval(now: MergeState, before: MergeState, *, former_seconds: float = 60, shortest_seconds: float = 30) -> float:
    return next_interval_seconds(
        seen(now), seen(before), former_seconds=former_seconds, shortest_seconds=shortest_seconds
    )


def test_nothing_new_makes_it_half_as_long_again():
    assert interval(MANY, MANY) == 90


@pytest.mark.parametrize(
    "now",
    [
        replace(MANY, parts=500),
        replace(MANY, unchanged_seconds=0),  # settling again
        replace(MANY, mutations=(WAITING,)),
    ],
    ids=["parts", "health", "mutations"],
)
def test_any_change_makes_it_short_again(now):
    assert interval(now, MANY) == 30


def test_the_first_look_is_followed_by_a_short_one():
    assert next_interval_seconds(seen(FEW), (), former_seconds=0, shortest_seconds=30) == 30


def test_time_that_passes_is_no_change():
    assert interval(replace(MANY, unchanged_seconds=MANY.unchanged_seconds + 60), MANY) == 90


def test_it_stops_growing():
    assert interval(MANY, MANY, former_seconds=299) == LONGEST_INTERVAL_SECONDS


def test_what_the_user_gave_is_kept_even_if_longer():
    assert interval(MANY, MANY, former_seconds=1000, shortest_seconds=1000) == 1000


def test_it_is_never_shorter_than_what_the_user_gave():
    assert interval(MANY, MANY, former_seconds=1) == 30
