"""Which periods a mutation is about, by what the server shows of it."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.ledger.mutations import Mutation, are_elsewhere, mutations_of, wait_for


def mutation(command: str, *, number: int = 12, partition_id: str = "", **changes) -> Mutation:
    return Mutation(number, partition_id, command, changes.pop("is_done", True), **changes)


@pytest.mark.parametrize(
    ("command", "concerns"),
    [
        ("(DELETE IN PARTITION ID '202604' WHERE n = 3)", False),
        ("(DELETE IN PARTITION 202604 WHERE n = 3)", False),
        ("(DELETE IN PARTITION '2026-04-01' WHERE n = 3)", True),
        ("(APPLY PATCHES IN PARTITION 202604)", False),
        ("(UPDATE s = 'x' IN PARTITION ID '202604' WHERE 1)", False),
        (r"(UPDATE s = ' IN PARTITION ID \'202604\'' IN PARTITION 202604 WHERE (n = 5) AND (s != 'x'))", False),
        ("(DELETE IN PARTITION ID '202605' WHERE n = 3)", True),
        ("(DELETE IN PARTITION 202605 WHERE n = 3)", True),
        ("(DELETE WHERE n = 3)", True),
        (r"(DELETE WHERE s = ' IN PARTITION ID \'202604\' WHERE 1)')", True),
        ("(DELETE WHERE `x IN PARTITION 202604 WHERE` = 1)", True),
        ("(DELETE WHERE n IN PARTITION IN PARTITION 202604)", True),
        ("(DELETE IN PARTITION tuple(202604) WHERE n = 3)", True),
        ("(DELETE IN PARTITION 202604 + 1 WHERE n = 3)", True),
        ("(DELETE IN PARTITION ID '2026\\'04' WHERE n = 3)", True),
        ("(MATERIALIZE COLUMN i)", True),
    ],
)
def test_a_command_is_of_another_period_only_where_it_says_so(command, concerns):
    assert mutation(command).concerns("202605") is concerns


def test_a_day_that_names_a_partition_is_its_id_without_dashes():
    assert not mutation("(DELETE IN PARTITION '2026-04-01' WHERE 1)").concerns("20260501")
    assert mutation("(DELETE IN PARTITION '2026-05-01' WHERE 1)").concerns("20260501")


def test_a_replicated_table_tells_the_partition_itself():
    assert not mutation("(DELETE WHERE 1)", partition_id="202604").concerns("202605")
    assert mutation("(DELETE WHERE 1)", partition_id="202605").concerns("202605")


ELSEWHERE, HERE = "(DELETE IN PARTITION ID '202604' WHERE 1)", "(DELETE WHERE 1)"


class TestElsewhere:
    def test_a_version_is_of_elsewhere_where_all_since_were(self):
        every = [mutation(ELSEWHERE, number=11), mutation(ELSEWHERE, number=12), mutation(HERE, number=9)]
        assert are_elsewhere(every, "202605", after=10, version=12)

    def test_one_of_several_commands_is_enough_against_it(self):
        assert not are_elsewhere([mutation(ELSEWHERE), mutation(HERE)], "202605", after=10, version=12)

    def test_one_between_is_enough_against_it(self):
        every = [mutation(HERE, number=11), mutation(ELSEWHERE, number=12)]
        assert not are_elsewhere(every, "202605", after=10, version=12)

    def test_a_version_that_no_mutation_has_is_not_known(self):
        assert not are_elsewhere([mutation(ELSEWHERE, number=11)], "202605", after=10, version=12)


class TestWaiting:
    @pytest.mark.parametrize(("command", "waits"), [(HERE, True), (ELSEWHERE, False)])
    def test_a_period_waits_for_what_concerns_it(self, command, waits):
        assert wait_for([mutation(command, is_done=False, waiting=("202605",))], "202605") is waits

    def test_parts_that_came_later_wait_for_nothing(self):
        assert not wait_for([mutation(HERE, is_done=False, waiting=("202604",))], "202605")


@pytest.mark.parametrize(
    ("command", "column"),
    [
        ("(DROP COLUMN note)", "note"),
        ("(DROP COLUMN IF EXISTS `a (note)`)", "a (note)"),
        ("DROP COLUMN n.x", "n.x"),
        (r"(DROP COLUMN `a\`b`)", "a`b"),
        ("(CLEAR COLUMN note)", ""),
        ("(DROP COLUMN note IN PARTITION 202605)", ""),
        ("(DROP INDEX note)", ""),
    ],
)
def test_a_column_that_was_dropped_is_read_from_its_command(command, column):
    assert mutation(command).dropped_column == column
    assert mutation(command, is_done=False).dropped_column == ""


@pytest.mark.parametrize(
    ("command", "leaves"),
    [
        ("(DROP INDEX note)", True),
        ("MATERIALIZE PROJECTION `by (note)` IN PARTITION '2026'", True),
        ("DROP STATISTICS IF EXISTS note, kind", True),
        ("(DROP INDEX note, DELETE WHERE note = 1)", False),
        ("(MATERIALIZE COLUMN note)", False),
        ("(MATERIALIZE TTL)", False),
    ],
)
def test_what_leaves_rows_is_read_from_its_command(command, leaves):
    assert mutation(command).leaves_rows is leaves


def test_answers_become_mutations():
    assert mutations_of([(12, "", HERE, 0, ["202605"])]) == (Mutation(12, "", HERE, False, ("202605",)),)
