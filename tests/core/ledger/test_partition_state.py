"""Parts that the recorded ones explain, and those that are a change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_chs3.core.ledger.partition_state import (
    Contents,
    Evidence,
    Mutation,
    Part,
    PartitionState,
    are_elsewhere,
    mutations_of,
    wait_for,
)
from airflow_provider_chs3.core.ledger.period_comparison import ComparisonStatus, ExpectedPeriod, compare, is_changed
from airflow_provider_chs3.core.ledger.records import PeriodOnNode, Record
from airflow_provider_chs3.core.model.models import Node
from tests.core.surroundings import TARGET

NODE = Node(1, 1, "127.0.0.1", 9000)
APRIL, OCTOBER = (f"(DELETE IN PARTITION ID '{period}' WHERE n = 3)" for period in ("202604", "202610"))
PUBLISHED = Record("published", "nonce", "f", "d", 100, 3, 30, 5, 9)
PARTS = tuple(Part(block, block, 0, block, 10, f"hash {block}") for block in (5, 6, 9))
RECORD = replace(PUBLISHED, rows=30, min_block=5, max_block=9, evidence=Evidence(rows=30, parts=PARTS).as_text())


def state_of(*parts: Part, **changes) -> PartitionState:
    found = PartitionState(
        rows=sum(part.rows for part in parts),
        parts=len(parts),
        min_block=min((part.min_block for part in parts), default=0),
        max_block=max((part.max_block for part in parts), default=0),
        each_part=parts,
        partition_id="202610",
    )
    return replace(found, **changes)


def changed(*parts: Part, engine: str = "MergeTree", ttl: str = "", record: Record | None = None, **changes) -> bool:
    period = PeriodOnNode(record or RECORD, state_of(*parts, **changes))
    return is_changed(period, table_facts=replace(TARGET, engine=engine, engine_full=f"{engine} ORDER BY id{ttl}"))


def test_the_recorded_parts_are_no_change():
    assert not changed(*PARTS)


@pytest.mark.parametrize("engine", ["MergeTree", "ReplacingMergeTree", "SummingMergeTree"])
@pytest.mark.parametrize(
    "part", [Part(5, 9, 1, 5, 30), Part(5, 9, 3, 5, 30, "new"), Part(2, 9, 2, 2, 30, "with the covering part")]
)
def test_what_merges_made_of_them_is_none(engine, part):
    assert not changed(part, engine=engine)


@pytest.mark.parametrize("left", [(), PARTS[:1], PARTS[1:], (PARTS[0], PARTS[2])])
def test_parts_may_go_where_rows_cancel_each_other_out_unless_the_server_lost_them(left):
    assert not changed(*left, engine="SummingMergeTree")
    older, elsewhere = ("202610", 1, 4), ("202604", 5, 9)
    assert not changed(*left, engine="SummingMergeTree", broken=(older, elsewhere))
    assert changed(*left, engine="SummingMergeTree", broken=(("202610", 5, 9),))
    gone = next(part for part in PARTS if part not in left)
    of_one = ("202610", gone.min_block, gone.max_block)
    assert changed(*left, engine="SummingMergeTree", broken=(older, of_one))
    assert not changed(*PARTS, engine="SummingMergeTree", broken=(of_one,))


def test_neither_is_what_they_made_of_some():
    assert not changed(Part(5, 6, 1, 5, 20, "new"), PARTS[2])


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ((PARTS[0], PARTS[2]), "a part in the middle is gone"),
        ((*PARTS, Part(10, 10, 0, 10, 10)), "an INSERT"),
        ((replace(PARTS[0], content="other"), *PARTS[1:]), "the same block with other rows"),
        ((replace(PARTS[0], data_version=12, content="other"), *PARTS[1:]), "a mutation"),
        ((Part(5, 10, 1, 5, 30),), "a merge with a part that is not recorded"),
        ((Part(5, 7, 1, 5, 20), PARTS[2]), "a merge with a part that is gone again"),
        ((Part(6, 9, 1, 6, 30),), "a merge without the first"),
        ((replace(PARTS[0], level=1, data_version=12), *PARTS[1:]), "a merge of what a mutation has changed"),
        ((Part(1, 3, 1, 1, 10), *PARTS), "old rows beside the new ones"),
        ((*PARTS, Part(12, 12, 0, 11, 1, "patch", "patch-1-202610")), "a lightweight update"),
    ],
)
@pytest.mark.parametrize("engine", ["MergeTree", "ReplacingMergeTree"])
def test_what_it_does_not_explain_is_a_change(parts, why, engine):
    assert changed(*parts, engine=engine), why


def test_fewer_rows_after_a_merge_are_a_change_where_every_row_is_kept():
    merged = Part(5, 9, 1, 5, 29)
    assert changed(merged)
    assert not changed(merged, engine="ReplacingMergeTree")


def test_more_rows_are_one_everywhere():
    assert changed(Part(5, 9, 1, 5, 31), engine="SummingMergeTree")


def test_rows_that_are_hidden_may_go():
    hiding = replace(PARTS[0], hides_rows=1)
    evidence = Evidence(rows=30, parts=(hiding, *PARTS[1:])).as_text()
    record = replace(RECORD, evidence=evidence)
    assert not changed(replace(hiding, level=1, rows=8, hides_rows=0), *PARTS[1:], record=record)


@pytest.mark.parametrize("known", [PARTS, None])
@pytest.mark.parametrize(
    ("parts", "ttl", "is_change"),
    [((), "", True), (PARTS[2:], "", False), ((), " TTL at + INTERVAL 1 DAY", False)],
)
def test_where_rows_last_not_all_parts_may_go_unless_rows_expire(known, parts, ttl, is_change):
    record = replace(RECORD, evidence=Evidence(rows=30, parts=known, lasts=True).as_text())
    assert changed(*parts, record=record, engine="SummingMergeTree", ttl=ttl) is is_change


def test_too_many_parts_are_known_by_blocks_and_rows():
    record = replace(RECORD, evidence=Evidence(rows=30, parts=None).as_text())
    assert not changed(*PARTS, record=record)
    assert changed(PARTS[0], PARTS[2], record=record)


@pytest.mark.parametrize(("command", "is_change"), [(APRIL, False), (OCTOBER, True), ("(DELETE WHERE 1)", True)])
def test_a_version_of_another_periods_mutation_is_no_change(command, is_change):
    mutations = (Mutation(12, "", command, is_done=True),)
    merged = Part(5, 9, 1, 12, 30, "new")
    assert changed(merged, mutations=mutations) == is_change


def test_parts_that_a_mutation_left_as_they_were_are_no_change():
    touched = tuple(replace(part, data_version=12) for part in PARTS)
    assert not changed(*touched, mutations=(Mutation(12, "", "(DELETE WHERE 1)", is_done=True),))


@pytest.mark.parametrize(("command", "is_change"), [(APRIL, False), (OCTOBER, True)])
def test_a_mutation_that_waits_for_this_period_is_a_change(command, is_change):
    mutations = (Mutation(12, "", command, is_done=False, waiting=("202610",)),)
    assert changed(*PARTS, mutations=mutations) == is_change


def test_where_lightweight_updates_are_taken_a_version_proves_nothing():
    table_facts = replace(TARGET, engine_full="MergeTree SETTINGS enable_block_number_column = 1")
    state = state_of(Part(5, 9, 1, 12, 30), mutations=(Mutation(12, "", APRIL, is_done=True),))
    assert is_changed(PeriodOnNode(RECORD, state), table_facts=table_facts)


def test_after_an_intent_either_version_is_no_change():
    staged = Contents(12, ("staged",))
    evidence = Evidence(rows=30, parts=PARTS, beside=staged)
    intent = replace(RECORD, event="intent", rows=12, evidence=evidence.as_text())
    assert not changed(*PARTS, record=intent)
    assert not changed(Part(11, 11, 0, 11, 12, "staged"), record=intent)
    assert changed(Part(11, 11, 0, 11, 12, "other"), record=intent)
    assert changed(Part(11, 11, 0, 12, 12, "mutated"), record=intent)


BEFORE = PARTS[:2]
STAGED = Contents(12, ("staged 1", "staged 2"))
NEW = (Part(11, 11, 0, 11, 7, "staged 1"), Part(12, 12, 0, 12, 5, "staged 2"))


MERGED = Part(5, 12, 1, 5, 32, "merged")
INTENT = replace(
    RECORD, event="intent", rows=12, evidence=Evidence(rows=20, parts=BEFORE, beside=STAGED).as_text(), nodes=1
)
DONE = replace(RECORD, rows=12, evidence=Evidence(rows=12, parts=NEW).as_text(), nodes=1)
REPLICATED = "ReplicatedMergeTree"
ENGINES = ["MergeTree", "ReplacingMergeTree", "SummingMergeTree", REPLICATED, "ReplicatedReplacingMergeTree"]
OF_OTHERS = Part(11, 11, 0, 11, 12, "of others")


@pytest.mark.parametrize(
    ("parts", "broken"),
    [
        pytest.param((*BEFORE, *NEW), [], id="both"),
        pytest.param((*BEFORE, NEW[1]), [], id="a staged part is not there yet"),
        pytest.param((BEFORE[0], *NEW), [], id="a replaced part is gone"),
        pytest.param((BEFORE[0], NEW[1]), [("202610", 6, 6)], id="one that is gone was broken"),
        pytest.param((MERGED,), [], id="both, merged"),
    ],
)
def test_what_a_crash_left_of_both_is_no_change_and_not_published(parts, broken):
    state = state_of(*parts, broken=tuple(broken), sources=(*BEFORE, *NEW))
    found = compare({NODE: PeriodOnNode(INTENT, state)}, ExpectedPeriod(), TARGET)
    assert found.status is ComparisonStatus.UNFINISHED
    # Keeper knows which parts were replaced.
    facts = replace(TARGET, engine=REPLICATED)
    assert is_changed(PeriodOnNode(INTENT, state), table_facts=facts)
    # A load removes what it has replaced before it records that it is published.
    assert is_changed(PeriodOnNode(DONE, state), table_facts=TARGET)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("parts", "sources"),
    [
        pytest.param(NEW, (), id="replaced"),
        pytest.param((Part(11, 12, 1, 11, 12, "merged"),), NEW, id="replaced and merged"),
        pytest.param((Part(4, 12, 1, 4, 12, "merged"),), (Part(4, 10, 9, 4, 0), *BEFORE, *NEW), id="with what covers"),
        pytest.param((Part(5, 6, 1, 5, 20, "merged"),), (), id="as before, and merged"),
        pytest.param(
            (Part(11, 12, 2, 11, 12, "again"),),
            (Part(11, 12, 1, 11, 12, "merged"), *NEW),
            id="merged twice",
        ),
    ],
)
def test_what_a_dead_load_left_is_no_change(parts, sources, engine):
    assert not changed(*parts, engine=engine, record=INTENT, sources=sources)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("parts", "sources"),
    [
        pytest.param((*BEFORE, *NEW, Part(13, 13, 0, 13, 1, "of others")), (), id="an INSERT after it"),
        pytest.param((*BEFORE, Part(11, 11, 0, 11, 7, "of others")), (), id="an INSERT in its place"),
        pytest.param((*BEFORE, Part(11, 11, 0, 14, 7, "erased")), (), id="a mutation after it"),
        pytest.param((Part(5, 13, 1, 5, 33, "merged"),), (), id="more rows than both"),
        pytest.param((MERGED,), (), id="as many rows as both, of which nobody knows whose"),
        pytest.param((Part(5, 11, 1, 5, 32, "merged"),), (*BEFORE, OF_OTHERS), id="as many rows of others"),
        pytest.param((Part(5, 11, 1, 5, 32, "merged"),), (BEFORE[0], OF_OTHERS), id="some are not shown any more"),
        pytest.param((Part(11, 12, 1, 11, 12, "merged"),), (), id="as many rows as staged"),
        pytest.param((Part(11, 12, 1, 11, 12, "merged"),), (OF_OTHERS, NEW[1]), id="one is of others"),
        pytest.param((*BEFORE, *NEW, replace(NEW[0], min_block=14, max_block=14)), (), id="a staged part twice"),
        pytest.param((*BEFORE, replace(BEFORE[0], min_block=11, max_block=11)), (), id="a part from before again"),
    ],
)
def test_what_somebody_else_did_after_a_crash_is_a_change(parts, sources, engine):
    assert changed(*parts, engine=engine, record=INTENT, sources=sources)


@pytest.mark.parametrize("parts", [(BEFORE[0], NEW[1]), BEFORE[:1], NEW[:1], ()])
def test_a_part_that_somebody_dropped_after_a_crash_is_a_change(parts):
    assert changed(*parts, record=INTENT)
    assert changed(*parts, record=DONE)


@pytest.mark.parametrize("merged", [1, 2])
def test_an_insert_of_as_many_rows_into_a_published_partition_is_a_change(merged):
    """Whatever merges do: no crash shows what was replaced once a period is published."""
    parts = (*NEW[: 2 - merged], Part(NEW[2 - merged].min_block, 13, 1, 11, 20, "merged"))
    for engine in ENGINES:
        assert changed(*parts, engine=engine, record=DONE, sources=(*NEW, replace(OF_OTHERS, min_block=13)))


def test_old_rows_that_somebody_attached_again_are_a_change():
    again = tuple(replace(part, min_block=20 + number, max_block=20 + number) for number, part in enumerate(BEFORE))
    assert changed(*again, record=DONE)


class TestUndone:
    """A mutation between the last look and REPLACE PARTITION, by the intent of a load that died after it."""

    STAGED = Contents(30, ("a", "b"))
    NEW = (Part(12, 12, 0, 12, 20, "a"), Part(13, 13, 0, 13, 10, "b"))

    def is_changed(
        self, *parts: Part, rows: int = 30, command: str = OCTOBER, number: int = 11, known: int = 10
    ) -> bool:
        evidence = Evidence(rows=rows, parts=PARTS if rows else (), beside=self.STAGED, last_mutation=known)
        intent = replace(RECORD, event="intent", evidence=evidence.as_text())
        return changed(*parts, record=intent, mutations=(Mutation(number, "", command, True),))

    def test_it_is_a_change(self):
        assert self.is_changed(*self.NEW)
        assert self.is_changed(Part(12, 13, 1, 12, 30, "merged"))

    @pytest.mark.parametrize(
        "given",
        [{"known": 11}, {"number": 14}, {"command": APRIL}, {"rows": 0}],
        ids=["known", "later", "april", "empty"],
    )
    def test_others_are_none(self, given):
        assert not self.is_changed(*self.NEW, **given)

    def test_neither_is_one_of_a_partition_that_was_not_replaced(self):
        assert not self.is_changed(*PARTS)

    def test_only_an_intent_records_the_newest_mutation(self):
        state = state_of(*PARTS, mutations=(Mutation(8, "", OCTOBER, True), Mutation(9, "202604", APRIL, True)))
        assert state.evidence().last_mutation == 8
        assert Evidence.of_text(state.evidence().as_text()) == state.evidence()
        assert state.evidence({1: 30}).last_mutation == 0


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
