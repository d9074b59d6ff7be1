"""Items that go through phases side by side: one that fails leaves, and the others go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from airflow_provider_chs3.core.load.staging_tables import Command, alter_partitions
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.steps.driving import Batch, StepTimer, drive, start_timer
from airflow_provider_chs3.core.steps.operations import AnyStep, QueryNodes, ReadClock, Steps
from airflow_provider_chs3.exceptions import TransientError
from tests.core.surroundings import surroundings
from tests.support.driving import drive as drive_through

ONE = Node(1, 1, "ch-1", 9000)


class Servers:
    """Answers statements with their texts, and fails those that hold some text."""

    def __init__(self, *, failing: str = "nothing") -> None:
        self.failing = failing
        self.texts: list[str] = []

    def perform(self, step: AnyStep) -> Any:
        assert isinstance(step, QueryNodes)
        text = step.sql[ONE].text
        self.texts.append(text)
        if self.failing in text:
            raise TransientError(f"no {self.failing}")
        return text.removeprefix("SELECT ").split(", ")

    def ask(self, batch: Batch[int, str], *, is_repeatable: bool = True) -> dict[int, str]:
        return drive(batch.ask(ask, is_repeatable=is_repeatable), self.perform)


def ask(some: Sequence[str]) -> Steps[list[str]]:
    answer: Any = yield from QueryNodes(name="Ask", sql={ONE: Sql(f"SELECT {', '.join(some)}")})
    return list(answer)


def batch_of(*items: str) -> Batch[int, str]:
    return Batch(dict(enumerate(items)))


def test_one_statement_asks_for_all() -> None:
    servers, batch = Servers(), batch_of("a", "b", "c")
    assert servers.ask(batch) == {0: "a", 1: "b", 2: "c"}
    assert servers.texts == ["SELECT a, b, c"]


def test_it_has_a_hundred_items_at_most() -> None:
    servers, batch = Servers(), batch_of(*map(str, range(130)))
    assert servers.ask(batch) == {number: str(number) for number in range(130)}
    assert [text.count(",") + 1 for text in servers.texts] == [100, 30]


def test_after_an_error_each_is_asked_for_by_itself_and_the_error_is_its_own() -> None:
    servers, batch = Servers(failing="bb"), batch_of("a", "bb", "c")
    assert servers.ask(batch) == {0: "a", 2: "c"}
    assert servers.texts == ["SELECT a, bb, c", "SELECT a", "SELECT bb", "SELECT c"]
    assert (batch.items, [*map(str, batch.failed.values())]) == ({0: "a", 2: "c"}, ["no bb"])


def test_what_is_not_repeatable_is_not_sent_again_and_all_leave() -> None:
    servers, batch = Servers(failing="bb"), batch_of("a", "bb", "c")
    assert servers.ask(batch, is_repeatable=False) == {}
    assert servers.texts == ["SELECT a, bb, c"]
    assert ({*map(str, batch.failed.values())}, batch.items) == ({"no bb"}, {})


def test_one_item_is_asked_for_once() -> None:
    servers, batch = Servers(failing="bb"), batch_of("bb")
    assert servers.ask(batch) == {}
    assert servers.texts == ["SELECT bb"]
    with pytest.raises(TransientError, match="no bb"):
        batch.unwrap()


def test_nothing_is_asked_of_an_empty_batch() -> None:
    servers, batch = Servers(), batch_of()
    assert servers.ask(batch) == {}
    assert drive(batch.run_together(ask(["a"])), servers.perform) is None
    assert servers.texts == []


def test_a_judge_sets_aside_those_for_which_it_fails() -> None:
    def judge(item: str) -> int:
        if item == "b":
            raise TransientError("b is wrong")
        return len(item)

    batch = batch_of("a", "b", "ccc")
    assert batch.apply(judge) == {0: 1, 2: 3}
    batch.update(str.upper)
    assert (list(batch), str(batch.failed[1])) == (["A", "CCC"], "b is wrong")


def test_of_workflows_one_after_the_other_those_that_fail_leave() -> None:
    servers, batch = Servers(failing="bb"), batch_of("a", "bb", "c")

    def twice(item: str) -> Steps[str]:
        (answer,) = yield from ask([item])
        return answer * 2

    drive(batch.advance(twice), servers.perform)
    assert (batch.items, list(batch.failed)) == ({0: "aa", 2: "cc"}, [1])


def test_a_part_that_fails_leaves_and_may_come_back() -> None:
    servers, batch = Servers(failing="c"), batch_of("a", "bb", "c")
    part = batch.select(lambda item: item != "a")
    assert drive(part.run_together(ask(list(part))), servers.perform) is None
    batch.merge(part)
    assert (batch.items, [*batch.failed]) == ({0: "a"}, [1, 2])
    batch.merge(Batch({1: "bb"}))
    assert (batch.items, [*batch.failed]) == ({0: "a", 1: "bb"}, [2])
    assert batch.subset({1}).items == {1: "bb"}


TARGET = TableName("d", "t")


def test_one_alter_has_the_commands_of_all_partitions() -> None:
    commands = [Command(ONE, f"ATTACH {number}") for number in (1, 2, 3)]
    step = next(alter_partitions(surroundings(), TARGET, commands, name="Attach"))
    assert isinstance(step, QueryNodes)
    assert step.sql[ONE].text == "ALTER TABLE `d`.`t` ATTACH 1, ATTACH 2, ATTACH 3"


def test_commands_of_unlike_settings_are_never_in_one_statement() -> None:
    commands = [Command(ONE, "REPLACE 1", "x = 1"), Command(ONE, "REPLACE 2", "x = 0")]
    with pytest.raises(ValueError, match="too many values"):
        next(alter_partitions(surroundings(), TARGET, commands, name="Replace"))


def two_laps() -> Steps[StepTimer]:
    timer = yield from start_timer()
    timer = yield from timer.end("list")
    return (yield from timer.end("insert", at_least_seconds=5))


def test_laps_last_from_one_look_at_the_clock_to_the_next():
    driven = drive_through(two_laps(), 100.0, 102.5, 110.0)
    assert driven.result == StepTimer(110.0, {"list": 2.5, "insert": 7.5}, began_seconds=100.0)
    assert all(isinstance(step, ReadClock) for step in driven.steps)


def test_what_another_process_is_known_to_have_taken_counts():
    assert drive_through(two_laps(), 100.0, 102.5, 103.0).result.seconds["insert"] == 5


def test_what_takes_place_twice_counts_twice():
    timer = StepTimer(110.0, {"list": 2.5})
    assert drive_through(timer.end("list"), 111.0).result == StepTimer(111.0, {"list": 3.5})


def test_what_earlier_processes_took_is_added():
    assert StepTimer(7.0, {"verify": 1.0, "list": 1.0}).after({"list": 2.0, "stage": 3.0}) == StepTimer(
        7.0, {"list": 3.0, "stage": 3.0, "verify": 1.0}
    )


def test_a_try_begins_when_the_load_starts_over():
    timer = StepTimer(110.0, {"list": 2.5}, began_seconds=100.0)
    assert drive_through(timer.end("insert"), 111.0).result.of_this_try_seconds == 11
    again = drive_through(timer.end("start_over"), 111.0).result
    assert drive_through(again.end("list"), 113.0).result.of_this_try_seconds == 2
