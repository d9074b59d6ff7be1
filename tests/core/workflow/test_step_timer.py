"""Where the time of a load goes."""

from __future__ import annotations

from airflow_provider_chs3.core.workflow.operations import Now, Steps
from airflow_provider_chs3.core.workflow.step_timer import Laps, begin_laps
from tests.core.driving import drive


def two_laps() -> Steps[Laps]:
    laps = yield from begin_laps()
    laps = yield from laps.end("list")
    return (yield from laps.end("insert", at_least_seconds=5))


def test_laps_last_from_one_look_at_the_clock_to_the_next():
    driven = drive(two_laps(), 100.0, 102.5, 110.0)
    assert driven.result == Laps(110.0, {"list": 2.5, "insert": 7.5})
    assert all(isinstance(step, Now) for step in driven.steps)


def test_what_another_process_is_known_to_have_taken_counts():
    assert drive(two_laps(), 100.0, 102.5, 103.0).result.seconds["insert"] == 5


def test_what_takes_place_twice_counts_twice():
    laps = Laps(110.0, {"list": 2.5})
    assert drive(laps.end("list"), 111.0).result == Laps(111.0, {"list": 3.5})


def test_what_earlier_processes_took_is_added():
    assert Laps(7.0, {"verify": 1.0, "list": 1.0}).after({"list": 2.0, "stage": 3.0}) == Laps(
        7.0, {"list": 3.0, "stage": 3.0, "verify": 1.0}
    )
