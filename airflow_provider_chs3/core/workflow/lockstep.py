"""Run alike workflows side by side, and send what is alike of their statements as one.

Sixty months need sixty look-ups of a month and sixty records of it, each a few milliseconds of a server's time, most of
which it takes to begin. Joined, they are a few statements. The workflows do not know of each other.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Generic, TypeVar

from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.values.models import Node
from airflow_provider_chs3.core.workflow.driving import Running
from airflow_provider_chs3.core.workflow.operations import (
    AnyStep,
    Gather,
    QueryNodes,
    QueryOneOfSeveral,
    Row,
    Sleep,
    Steps,
)
from airflow_provider_chs3.exceptions import Chs3Error

T = TypeVar("T")

#: Statements that become one: more make the server's analysis slow.
_JOINED = 60
#: What differs between names of alike steps: months, numbers, names of attempts.
_OWN = re.compile(r"[0-9a-f]{16}|\d+")
#: Beginnings of statements whose answer is that of all who send the same.
_OF_ALL = ("SELECT ", "SYSTEM SYNC REPLICA ")
_INSERT = re.compile(r"INSERT INTO \S+ \([^()]*\) (?=SELECT )")


def in_lockstep(workflows: Sequence[Steps[T]], *, name: str) -> Steps[list[T | Chs3Error]]:
    """Run workflows side by side, one step of each at a time. One that fails does not stop the others.

    SELECTs and INSERTs of alike steps are sent as one statement; if it fails, each is sent by itself, so that the
    error is that of its own workflow. An INSERT may so come twice: it must bear that, as records of the ledger do.

    Args:
        workflows: The workflows.
        name: Beginning of the query ids of joined statements.

    Returns:
        The result of each workflow, or its error, in their order.
    """
    running = [_Workflow(each) for each in workflows]
    while waiting := [each for each in running if each.step is not None]:
        alike = defaultdict[tuple[object, str], list[_Workflow[T]]](list)
        for each in waiting:
            alike[type(each.step), _OWN.sub("#", each.step.name if each.step else "")].append(each)
        for some in alike.values():
            yield from _perform(some, name)
    return [each.outcome for each in running]


class _Workflow(Generic[T]):
    """A workflow of which an error is an outcome, too."""

    def __init__(self, steps: Steps[T]) -> None:
        self._running: Running[T] | None = None
        self._error: Chs3Error | None = None
        self._advance(lambda: Running(steps))

    @property
    def step(self) -> AnyStep | None:
        return self._running.step if self._running and not self._error else None

    @property
    def outcome(self) -> T | Chs3Error:
        if self._error:
            return self._error
        assert self._running
        return self._running.result

    def go_on(self, answer: Any) -> None:
        """Send the answer to the step, or throw the error that it is."""
        running = self._running
        assert running
        if isinstance(answer, Exception):
            self._advance(lambda: running.throw(answer))
        else:
            self._advance(lambda: running.send(answer))

    def _advance(self, go_on: Callable[[], Running[T] | None]) -> None:
        try:
            self._running = go_on() or self._running
        except Chs3Error as error:
            self._error = error


def _perform(some: Sequence[_Workflow[T]], name: str) -> Steps[None]:
    steps = [each.step for each in some if each.step]
    answers: Iterable[Any]
    if isinstance(steps[0], Gather):
        answers = yield from _gather([step for step in steps if isinstance(step, Gather)], name)
    elif isinstance(steps[0], QueryNodes):
        answers = yield from _query([step for step in steps if isinstance(step, QueryNodes)], name)
    elif isinstance(steps[0], Sleep):
        yield from max((step for step in steps if isinstance(step, Sleep)), key=lambda step: step.seconds)
        answers = [None] * len(steps)
    else:
        answers = []
        for step in steps:
            answers.append((yield from _one(step)))
    for each, answer in zip(some, answers, strict=True):
        each.go_on(answer)


def _one(step: AnyStep) -> Steps[Any]:
    try:
        answer = yield from step
        return answer
    except Chs3Error as error:
        return error


def _gather(steps: Sequence[Gather], name: str) -> Steps[list[Any]]:
    """Run the workflows of all of them in lockstep; as of one, the first error counts."""
    outcomes = yield from in_lockstep(tuple(chain.from_iterable(step.workflows for step in steps)), name=name)
    remaining = iter(outcomes)
    answers: list[Any] = []
    for step in steps:
        own = [next(remaining) for _ in step.workflows]
        answers.append(next((each for each in own if isinstance(each, Chs3Error)), own))
    return answers


def _query(steps: Sequence[QueryNodes], name: str) -> Steps[list[Any]]:
    answers: list[Any] = []
    for first in range(0, len(steps), _JOINED):
        some = steps[first : first + _JOINED]
        if _are_same(some):
            answers += [(yield from _one(some[0]))] * len(some)
            continue
        joined = _of_several(some, name) or _joined(some, name)
        answer: Any = (yield from _one(joined)) if joined else None
        if isinstance(answer, Chs3Error) and isinstance(some[0], QueryOneOfSeveral) and not some[0].is_repeatable:
            answers += [answer] * len(some)
        elif answer is None or isinstance(answer, Chs3Error):
            for step in some:
                answers.append((yield from _one(step)))
        else:
            answers += _separated(some, answer)
    return answers


def _are_same(steps: Sequence[QueryNodes]) -> bool:
    """Check whether all ask the same, so that one answer is that of all."""
    first = steps[0]
    return all(sql.text.startswith(_OF_ALL) for sql in first.sql.values()) and all(
        (step.sql, step.settings, step.is_under_profile) == (first.sql, first.settings, first.is_under_profile)
        for step in steps
    )


def _of_several(steps: Sequence[QueryNodes], name: str) -> QueryNodes | None:
    one = steps[0]
    if len(steps) == 1 or not isinstance(one, QueryOneOfSeveral):
        return None
    subjects = [step.subject for step in steps if isinstance(step, QueryOneOfSeveral)]
    statements = one.of_several(subjects)
    return QueryNodes(name=_of_all(steps), sql=statements, settings=one.settings, query_id=_of_group(one, name))


def _of_group(step: QueryNodes, name: str) -> str | None:
    return step.query_id and f"{name}_{step.query_id.rsplit('_', 1)[1]}"


def _of_all(steps: Sequence[QueryNodes]) -> str:
    return f"{steps[0].name}, and of {len(steps) - 1} more"


def _joined(steps: Sequence[QueryNodes], name: str) -> QueryNodes | None:
    """Return one step for all; None if their statements cannot be joined."""
    first = steps[0]
    if len(steps) == 1 or any(
        (step.settings, step.is_under_profile) != (first.settings, first.is_under_profile) for step in steps
    ):
        return None
    by_node = defaultdict[Node, dict[int, Sql]](dict)
    for number, step in enumerate(steps):
        for node, sql in step.sql.items():
            by_node[node][number] = sql
    statements = {node: _one_statement(some) for node, some in by_node.items()}
    if not statements or None in statements.values():
        return None
    return QueryNodes(
        name=_of_all(steps),
        sql={node: sql for node, sql in statements.items() if sql},
        settings=first.settings,
        is_under_profile=first.is_under_profile,
        query_id=_of_group(first, name),
    )


def _one_statement(numbered: Mapping[int, Sql]) -> Sql | None:
    texts = [sql.text for sql in numbered.values()]
    if any(sql.secrets for sql in numbered.values()):
        return None
    if all(text.startswith("SELECT ") for text in texts):
        selects = (f"SELECT toUInt32({number}), * FROM ({sql.text})" for number, sql in numbered.items())
        return Sql(" UNION ALL ".join(selects))
    heads = {matched[0] if (matched := _INSERT.match(text)) else "" for text in texts}
    if len(heads) > 1 or "" in heads:
        return None
    (head,) = heads
    return Sql(head + " UNION ALL ".join(text.removeprefix(head) for text in texts))


def _separated(steps: Sequence[QueryNodes], answer: Mapping[Node, Sequence[Row]]) -> list[dict[Node, list[Row]]]:
    """Give each step its rows."""
    found: list[dict[Node, list[Row]]] = [{node: [] for node in step.sql} for step in steps]
    for node, rows in answer.items():
        for number, *row in rows:
            found[number][node].append(tuple(row))
    return found
