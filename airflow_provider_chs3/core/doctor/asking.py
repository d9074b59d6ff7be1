"""How the doctor asks: a node that does not answer keeps nobody from asking the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from airflow_provider_chs3.core.values.models import Node
from airflow_provider_chs3.core.workflow.fan_out import try_nodes
from airflow_provider_chs3.core.workflow.operations import AskNodes, Say, Step, Steps
from airflow_provider_chs3.exceptions import Chs3Error

T = TypeVar("T")


def leniently(steps: Steps[T], errors: dict[Node, Chs3Error]) -> Steps[T]:
    """Run a workflow that asks all nodes, so that it goes on with those that answer.

    Args:
        steps: The workflow; it must not need the answer of each node that it asks.
        errors: Gets the error of each node that did not answer.
    """

    def carry_out(step: Step) -> Steps[Any]:
        if isinstance(step, AskNodes):
            return (yield from try_nodes(step.name, step.sql, errors))
        return (yield step)

    return (yield from _driven(steps, carry_out))


def overhearing(steps: Steps[T], said: list[str]) -> Steps[T]:
    """Run a workflow, and keep to oneself what it tells the user.

    Args:
        steps: The workflow.
        said: Gets what it tells.
    """

    def carry_out(step: Step) -> Steps[Any]:
        if isinstance(step, Say):
            said.append(step.name)
            return None
        return (yield step)

    return (yield from _driven(steps, carry_out))


def _driven(steps: Steps[T], carry_out: Callable[[Step], Steps[Any]]) -> Steps[T]:
    outcome: Any = None
    error: Exception | None = None
    while True:
        try:
            step = steps.throw(error) if error else steps.send(outcome)
        except StopIteration as done:
            result: T = done.value
            return result
        outcome = error = None
        try:
            outcome = yield from carry_out(step)
        except Exception as raised:
            error = raised
