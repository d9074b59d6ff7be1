"""Query nodes, and continue with those that answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.steps.driving import interpose
from airflow_provider_chs3.core.steps.operations import AnyStep, Log, QueryNodes, Row, Steps, TryQueryNodes
from airflow_provider_chs3.exceptions import Chs3Error


def query_reachable(
    name: str, statements: Mapping[Node, Sql], errors: dict[Node, Chs3Error]
) -> Steps[dict[Node, list[Row]]]:
    """Query each node, and return the rows of those that answered."""
    answers = yield from TryQueryNodes(name=name, sql=statements)
    errors |= {node: answer for node, answer in answers.items() if isinstance(answer, Chs3Error)}
    return {node: answer for node, answer in answers.items() if not isinstance(answer, Chs3Error)}


def texts_of(errors: Mapping[Node, Chs3Error]) -> dict[Node, str]:
    """Return the messages of errors."""
    return {node: str(error) for node, error in errors.items()}


T = TypeVar("T")


def tolerating_errors(steps: Steps[T], errors: dict[Node, Chs3Error]) -> Steps[T]:
    """Run a workflow that queries all nodes, continuing with those that answer."""

    def carry_out(step: AnyStep) -> Steps[Any]:
        if isinstance(step, QueryNodes):
            return (yield from query_reachable(step.name, step.sql, errors))
        return (yield step)

    return (yield from interpose(steps, carry_out))


def capturing_logs(steps: Steps[T], said: list[str]) -> Steps[T]:
    """Run a workflow and capture its log lines instead of showing them."""

    def carry_out(step: AnyStep) -> Steps[Any]:
        if isinstance(step, Log):
            said.append(step.name)
            return None
        return (yield step)

    return (yield from interpose(steps, carry_out))
