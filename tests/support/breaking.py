"""Loads that break off after any of their steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pytest

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.steps.operations import Step
from airflow_provider_chs3.exceptions import TransientError
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.killing import writes
from tests.support.lake import Lake


class Failed(TransientError):
    """An error that the load may clean up after."""


class Breaker:
    """Counts the steps of a load that write, and breaks it off after one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        self.break_after: int | None = None
        perform = Runner.__dict__["perform"]

        def counted(runner: Runner, step: Step) -> Any:
            outcome = perform.__get__(runner, Runner)(step)
            if writes(step):
                self.steps.append(step.name)
                if len(self.steps) - 1 == self.break_after:
                    raise Failed(step.name)
            return outcome

        monkeypatch.setattr(Runner, "perform", counted)

    def set(self, *, break_after: int | None = None) -> None:
        self.steps, self.break_after = [], break_after


@pytest.fixture
def breaker(monkeypatch: pytest.MonkeyPatch) -> Breaker:
    return Breaker(monkeypatch)


def broken_at_each_step(lake: Lake, breaker: Breaker, versions: Sequence[Trips]) -> Iterator[tuple[int, Trips]]:
    """Load other objects each time, broken off one step later each time, and again; yields the step and the objects."""
    for number in count():
        trips = versions[number % len(versions)]
        lake.upload(trips)
        breaker.set(break_after=number)
        try:
            lake.load()
        except Failed:
            breaker.set()
            lake.load()
        else:
            break
        yield number, trips
