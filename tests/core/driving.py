"""Driving a workflow by hand: each step it asks for gets the next of the given answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.core.steps import Step, Steps
from airflow_provider_chs3.exceptions import ClickHouseServerError


@dataclass
class Driven:
    """What a workflow asked for, and what it returned."""

    steps: list[Step]
    result: Any


def drive(workflow: Steps[Any], *answers: Any) -> Driven:
    """Give the answers in order: an exception is thrown in, a function is called with the step, all else is sent."""
    left = list(answers)
    steps: list[Step] = []
    try:
        step = next(workflow)
        while True:
            steps.append(step)
            if not left:
                raise AssertionError(f"asked for more than expected: {step}")
            answer = left.pop(0)
            if isinstance(answer, Exception):
                step = workflow.throw(answer)
            else:
                step = workflow.send(answer(step) if isinstance(answer, Callable) else answer)
    except StopIteration as done:
        assert left == [], "asked for less than expected"
        return Driven(steps, done.value)


def server_error(code: int, message: str = "it did not work") -> ClickHouseServerError:
    return ClickHouseServerError(code, "", message, "node1:9000")
