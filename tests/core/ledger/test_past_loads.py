"""Forecasts of loads from past ones."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.ledger.past_loads import Forecast, Pace, PastLoad

MIB = 1024**2


def load(size_mib: int, insert_seconds: float, *, publish_seconds: float = 2.0, list_seconds: float = 1.0) -> PastLoad:
    steps = {"list": list_seconds, "insert": insert_seconds, "publish": publish_seconds}
    return PastLoad(size_mib * MIB, 2 * size_mib * MIB, size_mib * MIB, steps)


#: 10 MiB a second, and 3 seconds beside.
PACE = Pace([load(100 * number, 10.0 * number) for number in range(1, 6)])


def test_the_insert_takes_time_by_size_and_the_rest_a_fixed_time() -> None:
    assert PACE.forecast(1_000 * MIB) == Forecast(pytest.approx(103.0), 500 * MIB)


def test_one_odd_load_does_not_change_the_fixed_time() -> None:
    odd = Pace([*PACE.loads, load(100, 10.0, publish_seconds=500.0)])
    assert odd.seconds_by_step(0) == {"insert": 0.0, "list": 1.0, "publish": 2.0}


@pytest.mark.parametrize("loads", [(), PACE.loads[:4], [PastLoad(0, 0, 0, {"insert": 1.0})] * 9])
def test_few_loads_or_loads_of_nothing_say_nothing(loads: list[PastLoad]) -> None:
    pace = Pace(loads)
    assert pace.forecast(MIB) is None
    assert pace.why_slow({"insert": 1e6}, MIB) == ""


@pytest.mark.parametrize(("size_mib", "insert_seconds"), [(100, 19.0), (1_000, 200.0), (1, 10.0)])
def test_a_load_within_twice_its_time_or_ten_seconds_is_not_slow(size_mib: int, insert_seconds: float) -> None:
    assert PACE.why_slow({"list": 1.0, "insert": insert_seconds, "publish": 2.0}, size_mib * MIB) == ""


def test_a_slow_load_names_the_step_to_blame() -> None:
    why = PACE.why_slow({"list": 1.0, "insert": 110.0, "publish": 300.0, "start_over": 20.0}, 1_000 * MIB)
    assert why == (
        "It took 7 min; the last 5 loads suggest 103 s for as many bytes. Most of the difference is publish: 5 min "
        "instead of 2 s."
    )


def test_a_step_that_others_do_not_have_may_be_to_blame() -> None:
    why = PACE.why_slow({"list": 1.0, "insert": 10.0, "start_over": 600.0}, 100 * MIB)
    assert why.endswith("Most of the difference is start over: 10 min instead of 0 s.")
