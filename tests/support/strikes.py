"""Strikes at steps of a load."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count
from typing import Any

import pytest

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.steps.operations import Sleep, Step

_RECOVERY = re.compile(r"Wait \d+ s")


class Strikes:
    """Sees every step of every load, and can strike at one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reset()
        perform = Runner.__dict__["perform"]

        def struck(runner: Runner, step: Step) -> Any:
            self.steps.append(step.name)
            with self._around(step):
                if isinstance(step, Sleep) and _RECOVERY.fullmatch(step.name):
                    self.pauses_seconds.append(step.seconds)
                    return None
                return perform.__get__(runner, Runner)(step)

        monkeypatch.setattr(Runner, "perform", struck)

    def reset(self) -> None:
        """Forget, and leave loads alone."""
        self.steps: list[str] = []
        self.struck: list[str] = []
        self.pauses_seconds: list[float] = []
        self._around: Callable[[Step], AbstractContextManager[None]] = lambda step: nullcontext()

    def around_one(
        self, number: int, chosen: Callable[[Step], bool], fault: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """Have a fault last for one step: of those chosen the one of this number, from 0."""
        seen = count()

        def context(step: Step) -> AbstractContextManager[None]:
            if not chosen(step) or next(seen) != number:
                return nullcontext()
            self.struck.append(step.name)
            return fault()

        self._around = context

    def before(self, name: str, act: Callable[[], object], *, times: int = 1) -> None:
        """Act before the first steps whose names begin so."""

        @contextmanager
        def fault() -> Iterator[None]:
            act()
            yield

        self.around(name, fault, times=times)

    def after(self, name: str, act: Callable[[], object], *, times: int = 1) -> None:
        """Act after them, if they do not fail."""

        @contextmanager
        def fault() -> Iterator[None]:
            yield
            act()

        self.around(name, fault, times=times)

    def die(self, when: str, name: str, load: Callable[[], object]) -> None:
        """Kill the worker of a load `before` or `after` the step whose name begins so; later loads live."""

        def die() -> None:
            raise KeyboardInterrupt

        getattr(self, when)(name, die)
        with pytest.raises(KeyboardInterrupt):
            load()
        assert self.struck
        self.reset()

    def around(self, name: str, fault: Callable[[], AbstractContextManager[None]], *, times: int = 1) -> None:
        """Have a fault last for them."""

        def context(step: Step) -> AbstractContextManager[None]:
            if not step.name.startswith(name) or len(self.struck) == times:
                return nullcontext()
            self.struck.append(step.name)
            return fault()

        self._around = context


@pytest.fixture
def strikes(monkeypatch: pytest.MonkeyPatch) -> Strikes:
    """Strikes at the loads of one test."""
    return Strikes(monkeypatch)
