"""Holds, approvals and discards that die at any step, or meet each other: the old rows, or exactly the decided ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowSkipException

from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.operators.ledger import ListLedgerOperator
from tests.faults.interposing import interposed
from tests.support.checked_trips import NO_NULLS, Trips, trips
from tests.support.holds import HOLDS, approve, decide, discard, hold, load, tables
from tests.support.killing import ALL, ONLY_THE_FIRST, Strike, steps_of, strikes_after, strikes_amid
from tests.support.lake import PERIOD

#: A fixture.
__all__ = ["trips"]

#: They kill, or interpose, at each of some twenty steps.
pytestmark = pytest.mark.timeout(1800)

_NUMBERS = count()


def publish(trips: Trips) -> list[int]:
    """Publish a new version, and return its rows."""
    first = 1000 * next(_NUMBERS)
    trips.put("a", rows := range(first, first + 40))
    load(trips)
    return [*rows]


def put_bad(trips: Trips) -> list[int]:
    """Put a version that fails a check, and return its rows."""
    first = 1000 * next(_NUMBERS)
    trips.put("a", rows := range(first, first + 50), fare="\\N")
    return [*rows]


def put_held(trips: Trips) -> list[int]:
    rows = put_bad(trips)
    hold(trips)
    return rows


def strikes(run: Callable[[], Any]) -> list[Strike]:
    steps = steps_of(run)
    return [*strikes_after(steps), *strikes_amid(steps)]


def held(trips: Trips) -> None:
    """Load what is held afterwards, or already."""
    with pytest.raises(AirflowSkipException, match="held"):
        load(trips)


def check_approval(trips: Trips, strike: Strike, mend: str) -> None:
    before = publish(trips)
    rows = put_held(trips)
    strike.kill_in(lambda: approve(trips))
    try:
        load(trips) if mend == "load" else approve(trips)
    except (AirflowException, Chs3Error):
        # It is held still; or again, if the approval had told some nodes only.
        assert trips.ids() == before
        held(trips)
        approve(trips)
    assert trips.ids() == rows
    assert load(trips)["status"] == "unchanged"
    assert tables(trips) == []


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("step", ["Record the intent to publish", "Publish"])
def test_an_approval_that_died_is_completed(trips: Trips, step: str) -> None:
    check_approval(trips, Strike(0, ALL, f"{step} {PERIOD}"), "load")


@pytest.mark.three_nodes
@pytest.mark.thorough
@pytest.mark.parametrize("mend", ["approve", "discard"])
def test_an_approval_that_only_some_nodes_know_of_is_repeated_or_discarded(trips: Trips, mend: str) -> None:
    before = publish(trips)
    rows = put_held(trips)
    Strike(0, ONLY_THE_FIRST, f"Record the intent to publish {PERIOD}").kill_in(lambda: approve(trips))
    held(trips)
    assert trips.ids() == before
    if mend == "discard":
        assert discard(trips)[0]["was_held"]
        held(trips)
        assert trips.ids() == before
    assert approve(trips)["status"] == "published"
    assert (trips.ids(), tables(trips)) == (rows, [])


@pytest.mark.three_nodes
@pytest.mark.thorough
@pytest.mark.parametrize("mend", ["retry", "load"])
def test_an_approval_may_die_at_any_step(trips: Trips, mend: str) -> None:
    publish(trips)
    put_held(trips)
    for strike in strikes(lambda: approve(trips)):
        print(f"Killed at {strike}")  # shown where it fails
        check_approval(trips, strike, mend)


@pytest.mark.three_nodes
@pytest.mark.thorough
@pytest.mark.parametrize("mended", [False, True])
def test_a_hold_may_die_at_any_step(trips: Trips, mended: bool) -> None:
    """The next night holds the version, or publishes the mended one."""
    publish(trips)
    put_bad(trips)
    for strike in strikes(lambda: held(trips)):
        print(f"Killed at {strike}")  # shown where it fails
        before = publish(trips)
        rows = put_bad(trips)
        strike.kill_in(lambda: load(trips))
        assert trips.ids() == before
        if mended:
            rows = publish(trips)
        else:
            held(trips)
            # Who finds it held leaves its staging to the approval, or to `chs3 clean`.
            assert len(tables(trips, "chs3_held_")) == 1
            assert trips.ids() == before
            approve(trips)
        assert trips.ids() == rows
        assert tables(trips) == []


@pytest.mark.three_nodes
@pytest.mark.thorough
def test_a_discard_may_die_at_any_step(trips: Trips) -> None:
    publish(trips)
    put_held(trips)
    for strike in strikes(lambda: discard(trips)):
        print(f"Killed at {strike}")  # shown where it fails
        before = publish(trips)
        put_held(trips)
        strike.kill_in(lambda: discard(trips))
        assert trips.ids() == before
        discard(trips)
        assert (trips.ids(), tables(trips)) == (before, [])


ENDED = "started later and took over, or somebody ended this one"


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("meets", "step", "says"),
    [
        pytest.param("approve", "Create staging", ENDED, marks=pytest.mark.thorough),
        ("approve", "Take the rows", ENDED),
        pytest.param("approve", "Take staging over", ENDED, marks=pytest.mark.thorough),
        ("load", "Publish", "cannot be approved: a load of other rows is publishing it"),
    ],
)
def test_an_approval_that_loses_says_to_whom(
    trips: Trips, capsys: pytest.CaptureFixture[str], meets: str, step: str, says: str
) -> None:
    """The other one publishes exactly its rows."""
    rows = put_held(trips)
    one = partial(decide, trips)
    if meets == "load":
        rows = [*range(first := 1000 * next(_NUMBERS), first + 30)]
        one = partial(_load_other, trips, rows)
    done = interposed(one, partial(decide, trips), step)
    assert [bool(each) for each in done] == [meets == "approve", meets == "load"]
    assert says in capsys.readouterr().out
    assert (trips.ids(), tables(trips)) == (rows, [])


@pytest.mark.thorough
@pytest.mark.parametrize("outer", ["approve", "other"])
@pytest.mark.parametrize("kind", ["approve", "load", "discard"])
def test_an_approval_meets_another_act(trips: Trips, capsys: pytest.CaptureFixture[str], kind: str, outer: str) -> None:
    """Another approval, a load of other objects, or a discard, before each step: one wins, or both of them in turn."""
    for number in count():
        before = publish(trips)
        rows = put_held(trips)
        new = range(first := 1000 * next(_NUMBERS), first + 30)
        others = {
            "approve": partial(decide, trips),
            "load": partial(_load_other, trips, new),
            "discard": partial(discard, trips),
        }
        acts = (partial(decide, trips), others[kind])
        done = interposed(*(acts if outer == "approve" else acts[::-1]), number)
        if len(done) == 1:
            break
        approval, other = done[::-1] if outer == "approve" else done
        assert approval or other
        now = trips.ids()
        print(said := capsys.readouterr().out)
        assert not re.search(r"^\w+: ClickHouse error", said, re.MULTILINE)
        if kind == "discard" and other and other[0]["was_held"]:
            assert now == before, done
        elif kind == "load" and other:
            assert now == [*new], done
        else:
            assert now == rows, done
        (listed,) = decide(trips, ListLedgerOperator)
        assert listed["is_as_published"]
        if now == before:
            publish(trips)
        assert tables(trips) == []
    assert number > 1


def _load_other(trips: Trips, rows: Iterable[int]) -> Any:
    trips.put("a", rows)
    return trips.load(NO_NULLS, policies=HOLDS)
