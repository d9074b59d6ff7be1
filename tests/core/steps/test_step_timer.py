"""Where the time of a load goes."""

from __future__ import annotations

from airflow_provider_chs3.core.steps.operations import ReadClock, Steps
from airflow_provider_chs3.core.steps.step_timer import StepTimer, start_timer
from tests.core.driving import drive


def two_laps() -> Steps[StepTimer]:
    timer = yield from start_timer()
    timer = yield from timer.end("list")
    return (yield from timer.end("insert", at_least_seconds=5))


def test_laps_last_from_one_look_at_the_clock_to_the_next():
    driven = drive(two_laps(), 100.0, 102.5, 110.0)
    assert driven.result == StepTimer(110.0, {"list": 2.5, "insert": 7.5}, began_seconds=100.0)
    assert all(isinstance(step, ReadClock) for step in driven.steps)


def test_what_another_process_is_known_to_have_taken_counts():
    assert drive(two_laps(), 100.0, 102.5, 103.0).result.seconds["insert"] == 5


def test_what_takes_place_twice_counts_twice():
    timer = StepTimer(110.0, {"list": 2.5})
    assert drive(timer.end("list"), 111.0).result == StepTimer(111.0, {"list": 3.5})


def test_what_earlier_processes_took_is_added():
    assert StepTimer(7.0, {"verify": 1.0, "list": 1.0}).after({"list": 2.0, "stage": 3.0}) == StepTimer(
        7.0, {"list": 3.0, "stage": 3.0, "verify": 1.0}
    )


def test_a_try_begins_when_the_load_starts_over():
    timer = StepTimer(110.0, {"list": 2.5}, began_seconds=100.0)
    assert drive(timer.end("insert"), 111.0).result.of_this_try_seconds == 11
    again = drive(timer.end("start_over"), 111.0).result
    assert drive(again.end("list"), 113.0).result.of_this_try_seconds == 2
