"""Which loads are slow, and what explains it."""

from __future__ import annotations

from airflow_provider_chs3.plugin.observation.speed.slow_loads import LoadTiming, judge


def load(rows: int = 1000, **seconds: float) -> LoadTiming:
    return LoadTiming(rows=rows, seconds={"list": 1.0, "insert": 10.0, "verify": 1.0, "publish": 1.0} | seconds)


def judged(odd: LoadTiming, *, others: int = 4) -> str:
    """Why one load is slow beside others that are all alike."""
    return judge([odd, *[load()] * others])[0]


def test_a_load_like_the_others_is_not_slow() -> None:
    assert not judged(load(insert=20.0))


def test_one_that_took_more_than_twice_the_usual_time_is() -> None:
    assert (
        judged(load(insert=40.0))
        == "It took 43.0 s instead of the usual 13.0 s: the insert took 40.0 s instead of the usual 10.0 s."
    )


def test_the_others_are_not_slow_for_it() -> None:
    assert judge([load(insert=40.0), *[load()] * 3])[1:] == [""] * 3


def test_more_rows_may_take_longer() -> None:
    assert not judged(load(rows=4000, insert=40.0, verify=4.0))


def test_few_rows_may_take_as_long_as_many() -> None:
    # The fixed cost of a load: a small late period has a low rate, and nobody waited for it.
    assert not judged(load(rows=10))


def test_a_second_more_is_nothing() -> None:
    small = LoadTiming(rows=10, seconds={"list": 0.1, "insert": 0.5})
    assert not judge([LoadTiming(rows=10, seconds={"list": 0.1, "insert": 2.0}), small, small])[0]


def test_below_three_loads_nothing_is_usual() -> None:
    assert not judged(load(insert=1000.0), others=1)
    assert judged(load(insert=1000.0), others=2)


def test_every_step_that_took_more_than_usual_is_named_the_worst_first() -> None:
    assert judged(load(verify=30.0, publish=20.0)).partition(": ")[2] == (
        "verifying took 30.0 s instead of the usual 1.0 s; publishing took 20.0 s instead of the usual 1.0 s."
    )


def test_what_an_insert_waited_for_the_storage_explains_it() -> None:
    alike = [load(storage=20.0)] * 3
    insert = "the insert took 40.0 s instead of the usual 10.0 s."
    assert judge([load(insert=40.0, storage=90.0), *alike])[0].partition(": ")[2] == (
        "reading from the storage, summed over all threads of the insert, took 90.0 s instead of the usual 20.0 s; "
        + insert
    )
    # Its processor was slow, not the storage.
    assert judge([load(insert=40.0, storage=20.0), *alike])[0].partition(": ")[2] == insert


def test_where_no_step_is_slow_by_itself_the_one_that_took_the_most_of_it_is_named() -> None:
    even = {"list": 3.0, "inspect": 3.0, "plan": 3.0, "stage": 3.0}
    odd = LoadTiming(rows=1, seconds={step: seconds + 1.9 for step, seconds in even.items()} | {"insert": 3.0})
    usual = LoadTiming(rows=1, seconds=dict.fromkeys(even, 0.0) | {"insert": 1.5})
    assert judge([odd, usual, usual])[0]
    nearly = {"list": 1.9, "plan": 1.8}
    usual = LoadTiming(rows=1, seconds={"list": 0.0, "plan": 0.0, "insert": 0.5})
    reason = judge([LoadTiming(rows=1, seconds=nearly | {"insert": 0.5}), usual, usual])[0]
    assert reason.partition(": ")[2] == "listing took 1.9 s instead of the usual 0.0 s."


def test_attempts_in_vain_are_never_usual() -> None:
    assert judged(load(start_over=60.0)).partition(": ")[2] == (
        "failed work before it started over took 60.0 s instead of the usual 0.0 s."
    )


def test_slow_merges_make_a_load_slow_though_it_published_in_time() -> None:
    alike = [load(merges=30.0)] * 3
    assert judge([load(merges=90.0), *alike])[0] == "Merges after it took 90.0 s instead of the usual 30.0 s."
