"""Workers that are struck at a point of the protocol.

The points come from the steps that a load takes, so that a new step is struck without anyone remembering.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_chs3 import hooks
from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.load import insert, outcome
from airflow_provider_chs3.core.steps.driving import StepTimer
from airflow_provider_chs3.core.steps.operations import (
    Gather,
    ListObjects,
    Log,
    Query,
    QueryNodes,
    ReadClock,
    Sleep,
    Step,
)

_PERFORM = Runner.__dict__["perform"]


def perform(runner: Runner, step: Step) -> Any:
    """Carry a step out, whatever stands in for the runner's own way."""
    return _PERFORM.__get__(runner, Runner)(step)


def perform_once_done(runner: Runner, step: Step) -> Any:
    """Carry a step out. A look at a DELETE is taken when the DELETE is done: it would be repeated until then."""
    answer = perform(runner, step)
    while step.name == "Look at the DELETE in staging" and not all(is_done for ((is_done, *_),) in answer.values()):
        time.sleep(0.05)
        answer = perform(runner, step)
    return answer


@contextmanager
def performing(instead: Callable[[Runner, Step], Any]) -> Iterator[None]:
    """Have steps carried out by this."""
    Runner.perform = instead  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Runner.perform = _PERFORM  # type: ignore[method-assign]


@contextmanager
def on_no_clock() -> Iterator[None]:
    """Have loads take the same steps however long the machine takes for them."""
    with pytest.MonkeyPatch.context() as patch:
        # An insert of a second records its end, too.
        patch.setattr(insert, "_RECORDED_FROM_SECONDS", 600)
        # A load that lists within one look-up of another's end cannot know which came first, and starts over.
        patch.setattr(StepTimer, "of_this_try_seconds", -1.0)
        # A slow load asks how long earlier ones took.
        patch.setattr(outcome, "SLOW_SECONDS", 600)
        yield


def steps_of(load: Callable[[], Any]) -> list[Step]:
    """Run a load, and give the steps that it took."""
    steps: list[Step] = []

    def noted(runner: Runner, step: Step) -> Any:
        steps.append(step)
        return perform_once_done(runner, step)

    with performing(noted), on_no_clock():
        load()
    return steps


def writes(step: Step) -> bool:
    """Whether a step may change something on a server; what is not known to read does."""
    match step:
        case Log() | Sleep() | ReadClock() | ListObjects() | Gather():
            return False
        case Query():
            return not _reads(step.sql.text)
        case QueryNodes():
            return not all(_reads(sql.text) for sql in step.sql.values())
    return True


def kind_of(step: Step) -> str:
    """A step's name without the name of staging, which each attempt has of its own."""
    return re.sub(r"chs3_\w*[0-9a-f]{16}\w*", "…", step.name)


def numbered(steps: list[Step]) -> Iterator[tuple[int, Step]]:
    """The steps that write, each with its number among those of its kind."""
    seen: Counter[str] = Counter()
    for step in filter(writes, steps):
        yield seen[kind_of(step)], step
        seen[kind_of(step)] += 1


def _reads(text: str) -> bool:
    return text.split(maxsplit=1)[0] in ("SELECT", "WITH", "DESCRIBE", "EXPLAIN", "CHECK")


@dataclass(frozen=True)
class Strike:
    """Where a worker is killed: once it carried a step out, or had only some of the nodes carry it out."""

    number: int
    told: slice
    name: str

    def kill_in(self, load: Callable[[], Any]) -> None:
        """Run a load in a worker that is killed here."""
        ended = Worker(lambda: self._run(load)).wait()
        assert ended == -signal.SIGKILL, f"the worker ended by itself ({ended}), not {self}"

    def _run(self, load: Callable[[], Any]) -> None:
        if self.number < 0:
            _die()
        taken = count()

        def struck(runner: Runner, step: Step) -> Any:
            if kind_of(step) == self.name and next(taken) == self.number:
                perform(runner, self._of(step))
                _die()
            return perform(runner, step)

        with performing(struck), on_no_clock():
            load()

    def _of(self, step: Step) -> Step:
        return replace(step, sql=dict(list(step.sql.items())[self.told])) if isinstance(step, QueryNodes) else step


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


#: Which of a step's nodes are told before the worker dies.
NONE, ALL, ONLY_THE_FIRST, ALL_BUT_THE_FIRST = slice(0), slice(None), slice(1), slice(1, None)


def strikes_after(steps: list[Step]) -> Iterator[Strike]:
    """Before the first step, and after each one that writes."""
    yield Strike(-1, ALL, "the start")
    for number, step in numbered(steps):
        yield Strike(number, ALL, kind_of(step))


def strikes_amid(steps: list[Step]) -> Iterator[Strike]:
    """In the midst of each step that writes to several nodes: the coordinator, which is the first, is told or not."""
    for number, step in numbered(steps):
        if isinstance(step, QueryNodes) and len(step.sql) > 1:
            yield Strike(number, ONLY_THE_FIRST, kind_of(step))
            if step.name.startswith("Publish"):
                yield Strike(number, ALL_BUT_THE_FIRST, kind_of(step))


def import_hooks() -> None:
    """Import what loads import when they begin, so that each worker is spared a third of its time."""
    for module in pkgutil.iter_modules(hooks.__path__):
        importlib.import_module(f"{hooks.__name__}.{module.name}")


class Worker:
    """A process that does one thing, and may be killed at it. A fork: imports would take seconds."""

    def __init__(self, work: Callable[[], Any], *, log: Path | None = None) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            self._work(work, log)

    @staticmethod
    def _work(work: Callable[[], Any], log: Path | None) -> None:
        exit_code = 1
        try:
            if log is not None:
                file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(file, 1)
                os.dup2(file, 2)
            work()
            exit_code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(exit_code)  # what the tests have open is not this process's to close

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """Wait for its end, and give its exit code; or, negative, the signal that ended it."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def wait_or_kill(self, *, timeout_seconds: float) -> int:
        """Wait for its end, or kill it when the time is over; and give its exit code as `wait` does."""
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        self.signal(signal.SIGKILL)
        return self.wait()
