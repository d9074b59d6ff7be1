"""Workflows side by side, whose alike statements become one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.staging.partitions import Command, alter_partition
from airflow_provider_chs3.core.values.models import Node, TableName
from airflow_provider_chs3.core.workflow.lockstep import in_lockstep
from airflow_provider_chs3.core.workflow.operations import (
    AnyStep,
    Gather,
    Log,
    QueryNodes,
    QueryOneOfSeveral,
    Sleep,
    Steps,
)
from airflow_provider_chs3.exceptions import TransientError

ONE, TWO = Node(1, 1, "ch-1", 9000), Node(2, 1, "ch-2", 9000)
NAME = "chs3_0123456789abcdef_n"


class Servers:
    """Answers statements of `SELECT <number>` and UNIONs of them, and fails those that hold some text."""

    def __init__(self, *, failing: str = "nothing") -> None:
        self.failing = failing
        self.steps: list[AnyStep] = []

    def perform(self, step: AnyStep) -> Any:
        self.steps.append(step)
        if not isinstance(step, QueryNodes):
            return None
        return {node: self._rows(sql.text) for node, sql in step.sql.items()}

    def _rows(self, text: str) -> list[tuple[Any, ...]]:
        if self.failing in text:
            raise TransientError(f"no {self.failing}")
        if text.startswith(("INSERT", "ALTER")):
            return []
        found = re.findall(r"SELECT toUInt32\((\d+)\), \* FROM \(SELECT (\w+)\)", text)
        return [(int(number), rest) for number, rest in found] or [(text.removeprefix("SELECT "),)]

    def run(self, *workflows: Steps[Any]) -> list[Any]:
        steps, answer = in_lockstep(workflows, name=NAME), None
        error: Exception | None = None
        while True:
            try:
                step = steps.throw(error) if error else steps.send(answer)
            except StopIteration as done:
                return list(done.value)
            answer, error = None, None
            try:
                answer = self.perform(step)
            except TransientError as raised:
                error = raised


def asking(what: str, *, nodes: tuple[Node, ...] = (ONE, TWO), query_id: str | None = None) -> Steps[Any]:
    step = QueryNodes(name=f"Ask 2026-0{len(what)}", sql=dict.fromkeys(nodes, Sql(what)), query_id=query_id)
    return (yield from step)


def test_alike_selects_are_sent_as_one_and_each_gets_its_rows() -> None:
    servers = Servers()
    assert servers.run(asking("SELECT a"), asking("SELECT bb"), asking("SELECT ccc", nodes=(TWO,))) == [
        {ONE: [("a",)], TWO: [("a",)]},
        {ONE: [("bb",)], TWO: [("bb",)]},
        {TWO: [("ccc",)]},
    ]
    (step,) = servers.steps
    assert isinstance(step, QueryNodes)
    assert step.sql[ONE].text.count("UNION ALL") == 1
    assert step.sql[TWO].text.count("UNION ALL") == 2


def test_alike_inserts_are_sent_as_one_under_the_groups_name() -> None:
    servers = Servers()
    inserts = [f"INSERT INTO `d`.`chs3_ledger` (`a`) SELECT {number}" for number in (1, 2)]
    servers.run(*(asking(each, query_id=f"chs3_x_{number}_intent") for number, each in enumerate(inserts)))
    (step,) = servers.steps
    assert isinstance(step, QueryNodes)
    assert step.sql[ONE].text == "INSERT INTO `d`.`chs3_ledger` (`a`) SELECT 1 UNION ALL SELECT 2"
    assert step.query_id == f"{NAME}_intent"


@pytest.mark.parametrize("statement", ["ALTER TABLE t REPLACE PARTITION ID '{}' FROM s", "DROP TABLE t{}"])
def test_what_changes_tables_is_sent_one_by_one(statement: str) -> None:
    servers = Servers()
    servers.run(*(asking(statement.format(number)) for number in (1, 2)))
    assert [step.sql[ONE].text for step in servers.steps if isinstance(step, QueryNodes)] == [
        statement.format(1),
        statement.format(2),
    ]


def test_statements_with_secrets_are_not_joined() -> None:
    def secretive(key: str) -> Steps[Any]:
        return (yield from QueryNodes(name="Read", sql={ONE: Sql(f"SELECT '{key}'", (key,))}))

    servers = Servers()
    servers.run(secretive("k1"), secretive("k2"))
    assert len(servers.steps) == 2


def test_an_error_of_one_is_its_own() -> None:
    servers = Servers(failing="bb")
    first, second, third = servers.run(asking("SELECT a"), asking("SELECT bb"), asking("SELECT c"))
    assert (first[ONE], third[ONE]) == ([("a",)], [("c",)])
    assert isinstance(second, TransientError)


def test_a_workflow_may_go_on_after_its_error() -> None:
    def patient() -> Steps[Any]:
        try:
            yield from asking("SELECT bb")
        except TransientError:
            return (yield from asking("SELECT d"))

    found = Servers(failing="bb").run(asking("SELECT a"), patient())
    assert found[1] == {ONE: [("d",)], TWO: [("d",)]}


def test_what_is_gathered_is_joined_across_workflows() -> None:
    def gathering(what: str) -> Steps[Any]:
        workflows = (asking(f"SELECT {what}"), asking(f"SELECT {what * 2}"))
        return (yield from Gather(name="Look", workflows=workflows))

    servers = Servers()
    found = servers.run(gathering("a"), gathering("b"))
    assert [[each[ONE] for each in some] for some in found] == [[[("a",)], [("aa",)]], [[("b",)], [("bb",)]]]
    assert len(servers.steps) == 1


def union_of(subjects: Sequence[str]) -> Sql:
    numbered = enumerate(subjects)
    return Sql(" UNION ALL ".join(f"SELECT toUInt32({number}), * FROM (SELECT {each})" for number, each in numbered))


def test_several_of_one_kind_may_have_a_statement_of_their_own() -> None:
    def looking(subject: str) -> Steps[Any]:
        step = QueryOneOfSeveral(
            name=f"Look up {len(subject)}",
            sql={ONE: Sql(f"SELECT {subject}")},
            subject=subject,
            of_several=lambda subjects: {ONE: union_of(subjects)},
        )
        return (yield from step)

    servers = Servers()
    assert servers.run(looking("a"), looking("bb")) == [{ONE: [("a",)]}, {ONE: [("bb",)]}]
    assert servers.run(looking("ccc")) == [{ONE: [("ccc",)]}]
    assert len(servers.steps) == 2


def test_logs_and_their_order_stay() -> None:
    def saying(*texts: str) -> Steps[None]:
        for text in texts:
            yield from Log(name=text)

    servers = Servers()
    servers.run(saying("one 1", "two"), saying("one 2", "two"))
    assert [step.name for step in servers.steps] == ["one 1", "one 2", "two", "two"]


class TestOfSeveral:
    """Steps that know how to ask for several at once."""

    @staticmethod
    def alter(month: str, *, is_repeatable: bool) -> Steps[Any]:
        step = alter_partition(
            TableName("d", "t"),
            {ONE: Command(f"ATTACH {month}")},
            name=f"Attach 2026-0{month}",
            settings={},
            query_id="chs3_x_fill",
            is_repeatable=is_repeatable,
        )
        return (yield from step)

    def test_one_statement_has_the_commands_of_all(self) -> None:
        servers = Servers()
        assert servers.run(*(self.alter(each, is_repeatable=False) for each in "123")) == [{ONE: []}] * 3
        (step,) = servers.steps
        assert isinstance(step, QueryNodes)
        assert step.sql[ONE].text == "ALTER TABLE `d`.`t` ATTACH 1, ATTACH 2, ATTACH 3"
        assert step.query_id == f"{NAME}_fill"

    def test_after_an_error_what_is_not_repeatable_is_not_sent_again(self) -> None:
        servers = Servers(failing="ATTACH 2")
        outcomes = servers.run(*(self.alter(each, is_repeatable=False) for each in "123"))
        assert [str(each) for each in outcomes] == ["no ATTACH 2"] * 3
        assert len(servers.steps) == 1

    def test_after_an_error_what_is_repeatable_is_sent_one_by_one(self) -> None:
        servers = Servers(failing="ATTACH 2")
        outcomes = servers.run(*(self.alter(each, is_repeatable=True) for each in "123"))
        assert [isinstance(each, TransientError) for each in outcomes] == [False, True, False]
        assert len(servers.steps) == 4


def test_one_answer_is_that_of_all_who_ask_the_same() -> None:
    servers = Servers()
    assert servers.run(*(asking("SELECT a") for _ in range(3))) == [{ONE: [("a",)], TWO: [("a",)]}] * 3
    assert len(servers.steps) == 1


def test_those_who_sleep_sleep_at_the_same_time() -> None:
    def sleeping(seconds: int) -> Steps[None]:
        yield from Sleep(name="Wait", seconds=seconds)

    servers = Servers()
    servers.run(sleeping(1), sleeping(2))
    assert [step.seconds for step in servers.steps if isinstance(step, Sleep)] == [2]
