"""Driving a workflow by hand: each step it asks for gets the next of the given answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.core.model.models import ObjectPage, Unit
from airflow_provider_chs3.core.steps.operations import Gather, Step, Steps
from airflow_provider_chs3.exceptions import ClickHouseServerError


@dataclass
class Driven:
    """The operations of a workflow, and its result."""

    steps: list[Step]
    result: Any


def drive(workflow: Steps[Any], *answers: Any) -> Driven:
    """Give the answers in order: an exception is thrown in, a function is called with the step, all else is sent.

    Workflows that are carried out together are driven one after the other.
    """
    left = list(answers)
    steps: list[Step] = []
    result = _drive(workflow, steps, left)
    assert left == [], "asked for less than expected"
    return Driven(steps, result)


def _drive(workflow: Steps[Any], steps: list[Step], left: list[Any]) -> Any:
    answer: Any = None
    try:
        while True:
            step = workflow.throw(answer) if isinstance(answer, Exception) else workflow.send(answer)
            if isinstance(step, Gather):
                answer = [_drive(each, steps, left) for each in step.workflows]
                continue
            steps.append(step)
            if not left:
                raise AssertionError(f"asked for more than expected: {step}")
            answer = left.pop(0)
            if isinstance(answer, Callable):
                answer = answer(step)
    except StopIteration as done:
        return done.value


def server_error(code: int, message: str = "it did not work") -> ClickHouseServerError:
    return ClickHouseServerError(code, "", message, "node1:9000")


def listed(objects: Sequence[Unit], *, page_size: int = 2) -> Iterator[ObjectPage]:
    """The answer to `ListObjects`."""
    for first in range(0, len(objects), page_size):
        yield ObjectPage.of(objects[first : first + page_size])
