"""The search for the best settings: how noise, ties, memory, parts and time decide."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_chs3.core.calibration.search import (
    FINAL_ROUNDS,
    LEAST_GAIN,
    ROUNDS,
    Candidate,
    Choice,
    Theme,
    TrialResult,
    most_trials,
    search,
    spread,
    themes,
)
from airflow_provider_chs3.core.tuning.calibrated_profile import BY_RULE, Knobs
from airflow_provider_chs3.core.tuning.resource_share import ResourceShare

THREADS: Theme = {"half": {"insert_threads": 0.5}, "twice": {"insert_threads": 2.0}}
BLOCKS: Theme = {"larger": {"block": 2.0}}
NO_TIME = 1e9


def never_same(knobs: Knobs, others: Knobs) -> bool:
    return knobs == others


class Machine:
    """What loads take so many seconds by their knobs, and a clock."""

    def __init__(
        self, seconds: Callable[[Candidate], float | None], *, parts: Callable[[Candidate], int] = lambda _: 4
    ) -> None:
        self.seconds, self.parts = seconds, parts
        self.asked: list[Candidate] = []
        self.at_seconds = 0.0

    def calibrate(self, *every: Theme, budget_seconds: float = NO_TIME, **options: Any) -> Choice:
        arguments = {"is_same": never_same, "nodes": 1} | options
        searching = search(every, budget_seconds=budget_seconds, **arguments)
        tried = None
        while True:
            try:
                asked = searching.send(tried)
            except StopIteration as done:
                return done.value
            self.asked.append(asked)
            seconds = self.seconds(asked)
            self.at_seconds += seconds or 1.0
            tried = TrialResult(seconds=seconds, parts=self.parts(asked), at_seconds=self.at_seconds)


def by_threads(asked: Candidate) -> float:
    return {None: 10.0, 0.5: 12.0, 2.0: 8.0}[asked.knobs.insert_threads]


def test_what_is_faster_wins() -> None:
    choice = Machine(by_threads).calibrate(THREADS)
    assert (choice.knobs, choice.seconds, choice.rule_seconds) == (Knobs(insert_threads=2.0), 8.0, 10.0)


def test_nothing_that_is_as_fast_wins() -> None:
    assert Machine(lambda _: 10.0).calibrate(THREADS, BLOCKS).knobs == BY_RULE


def test_less_than_the_least_gain_does_not_win() -> None:
    machine = Machine(lambda asked: 10.0 if asked.knobs == BY_RULE else 10.0 * (1 - LEAST_GAIN / 2))
    assert machine.calibrate(THREADS).knobs == BY_RULE


def test_what_wins_stays_while_the_next_theme_is_tried() -> None:
    def both(asked: Candidate) -> float:
        return by_threads(asked) * (0.9 if asked.knobs.block else 1.0)

    assert Machine(both).calibrate(THREADS, BLOCKS).knobs == Knobs(insert_threads=2.0, block=2.0)


def test_tries_take_turns_with_the_rule_in_both_orders() -> None:
    machine = Machine(by_threads)
    machine.calibrate(BLOCKS)
    assert [each.label for each in machine.asked] == ["the rule", "larger"]
    machine = Machine(by_threads)
    machine.calibrate(THREADS)
    assert [each.label for each in machine.asked[3:7]] == ["twice", "the rule", "the rule", "twice"]


def test_what_is_slower_at_once_is_not_tried_again() -> None:
    machine = Machine(by_threads)
    machine.calibrate(THREADS)
    assert [each.label for each in machine.asked].count("half") == 1


def test_a_machine_that_slows_down_meanwhile_makes_no_winner() -> None:
    machine = Machine(lambda _: 10.0)
    machine.seconds = lambda _: 10.0 * (1 + len(machine.asked) / 50)
    assert machine.calibrate(THREADS, BLOCKS).knobs == BY_RULE


def test_a_lucky_winner_loses_against_the_rule_in_the_end() -> None:
    machine = Machine(lambda _: 10.0)
    machine.seconds = lambda asked: 8.0 if asked.knobs != BY_RULE and len(machine.asked) <= 2 * ROUNDS else 10.0
    choice = machine.calibrate(BLOCKS)
    assert (choice.knobs, len(machine.asked) > 2 * ROUNDS) == (BY_RULE, True)


def test_noise_alone_is_hardly_ever_taken_for_a_gain_and_never_for_a_large_one() -> None:
    wrong = []
    for seed in range(300):
        noise = random.Random(seed)
        choice = Machine(lambda _, noise=noise: 10.0 * noise.gauss(1.0, 0.05)).calibrate(THREADS, BLOCKS)
        if choice.knobs != BY_RULE:
            wrong.append(1 - choice.seconds / choice.rule_seconds)
    assert len(wrong) <= 9
    assert all(each < 0.15 for each in wrong)


def test_a_gain_of_a_fifth_is_found_in_that_noise() -> None:
    found = 0
    for seed in range(100):
        noise = random.Random(seed)
        machine = Machine(lambda asked, noise=noise: by_threads(asked) * noise.gauss(1.0, 0.05))
        found += machine.calibrate(THREADS).knobs == Knobs(insert_threads=2.0)
    assert found >= 80


def test_what_runs_out_of_memory_is_out() -> None:
    choice = Machine(lambda asked: None if asked.knobs.insert_threads == 2.0 else by_threads(asked)).calibrate(THREADS)
    assert (choice.knobs, choice.verdicts["twice"]) == (BY_RULE, "exceeded its share of memory")


@pytest.mark.parametrize(("parts", "wins"), [(6, True), (7, False)])
def test_what_leaves_more_than_half_as_many_parts_again_is_out(parts: int, wins: bool) -> None:
    machine = Machine(by_threads, parts=lambda asked: 4 if asked.knobs == BY_RULE else parts)
    assert (machine.calibrate(THREADS).knobs != BY_RULE) == wins


def test_one_more_part_on_each_node_does_no_harm() -> None:
    machine = Machine(by_threads, parts=lambda asked: 3 if asked.knobs == BY_RULE else 6)
    assert machine.calibrate(THREADS, nodes=3).knobs == Knobs(insert_threads=2.0)


def test_what_leads_to_the_same_settings_is_not_tried() -> None:
    machine = Machine(by_threads)
    choice = machine.calibrate(THREADS, is_same=lambda *_: True)
    assert (machine.asked, choice.knobs) == ([], BY_RULE)


@pytest.mark.parametrize("budget_seconds", [50, 100, 150, 200, 300])
def test_no_try_ends_later_than_the_budget(budget_seconds: float) -> None:
    machine = Machine(lambda _: 10.0)
    machine.calibrate(THREADS, BLOCKS, budget_seconds=budget_seconds)
    assert 0 < machine.at_seconds <= budget_seconds


def test_what_could_not_be_confirmed_in_time_is_not_kept() -> None:
    assert Machine(by_threads).calibrate(THREADS, budget_seconds=80).knobs == BY_RULE


def test_there_are_no_more_tries_than_foretold() -> None:
    machine = Machine(lambda asked: 10.0 - len(asked.label) / 100)
    machine.calibrate(THREADS, BLOCKS, side_by_side=(2,))
    most = most_trials([THREADS, BLOCKS], side_by_side=(2,))
    assert len(machine.asked) <= most == ROUNDS * 5 + 2 * FINAL_ROUNDS + ROUNDS * 2


@pytest.mark.parametrize(("side_by_side_seconds", "periods"), [(7.0, 2), (10.0, 1), (13.0, 1)])
def test_periods_side_by_side_are_kept_if_they_are_faster(side_by_side_seconds: float, periods: int) -> None:
    machine = Machine(lambda asked: side_by_side_seconds if asked.side_by_side == 2 else 10.0)
    assert machine.calibrate(BLOCKS, side_by_side=(2,)).parallel_loads == periods


def test_periods_side_by_side_that_were_not_tried_to_the_end_are_not_known() -> None:
    machine = Machine(lambda asked: 10.0 - asked.side_by_side)
    assert machine.calibrate(side_by_side=(2,), budget_seconds=45).parallel_loads is None


@pytest.mark.parametrize(("seconds", "part"), [([], 0.0), ([10.0], 0.0), ([9.0, 10.0, 11.0], 0.1), ([10.0] * 4, 0.0)])
def test_the_spread_is_the_usual_distance_from_the_median(seconds: list[float], part: float) -> None:
    assert spread(seconds) == pytest.approx(part)


class TestWhatIsTried:
    ONE = ResourceShare(node_cores=8, memory_bytes=16 * 1024**3)

    def test_turns_a_knob_at_a_time(self) -> None:
        changes = [each for theme in themes(self.ONE) for each in theme.values()]
        assert all(len(each) == 1 and Knobs(**each).turned() for each in changes)

    def test_has_labels_of_its_own(self) -> None:
        labels = [label for theme in themes(self.ONE) for label in theme]
        assert len(labels) == len(set(labels))
