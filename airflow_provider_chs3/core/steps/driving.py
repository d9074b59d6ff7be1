"""Run a workflow: perform each step it yields, and send back the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Generic, TypeVar

from airflow_provider_chs3.core.steps.operations import AnyStep, Steps

T = TypeVar("T")


def drive(steps: Steps[T], perform: Callable[[AnyStep], Any]) -> T:
    """Run a workflow.

    Returns:
        The workflow's result.
    """
    running = Running(steps)
    while (step := running.step) is not None:
        try:
            answer = perform(step)
        except Exception as error:
            running.throw(error)
        else:
            running.send(answer)
    return running.result


async def drive_async(steps: Steps[T], perform: Callable[[AnyStep], Awaitable[Any]]) -> T:
    """Run a workflow on an event loop, with the arguments of `drive`."""
    running = Running(steps)
    while (step := running.step) is not None:
        try:
            answer = await perform(step)
        except Exception as error:
            running.throw(error)
        else:
            running.send(answer)
    return running.result


def interpose(steps: Steps[T], perform: Callable[[AnyStep], Steps[Any]]) -> Steps[T]:
    """Run a workflow inside another one, which may perform its steps differently."""
    running = Running(steps)
    while (step := running.step) is not None:
        try:
            answer = yield from perform(step)
        except Exception as error:
            running.throw(error)
        else:
            running.send(answer)
    return running.result


class Running(Generic[T]):
    """A workflow that waits for the answer to a step; without a step, it has ended with a result.

    Attributes:
        step: The step that waits for its answer; None once the workflow has ended.
        result: The result of a workflow that has ended.
    """

    step: AnyStep | None
    result: T

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps
        self.send(None)

    def send(self, answer: Any) -> None:
        """Answer the step."""
        self._advance(partial(self._steps.send, answer))

    def throw(self, error: Exception) -> None:
        """Have the step fail."""
        self._advance(partial(self._steps.throw, error))

    def _advance(self, go_on: Callable[[], AnyStep]) -> None:
        try:
            self.step = go_on()
        except StopIteration as done:
            self.step, self.result = None, done.value
