"""Where a period stands, from what was recorded on each node and what is there now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_chs3.core.ledger.partition_state import Contents, Evidence, Part, PartitionState
from airflow_provider_chs3.core.ledger.period_comparison import (
    ComparisonStatus,
    ExpectedPeriod,
    compare,
    holds_recorded,
    intended,
    is_changed,
    was_published,
)
from airflow_provider_chs3.core.ledger.records import PeriodOnNode
from airflow_provider_chs3.core.model.models import Node
from tests.core.surroundings import ONE, RECORD, TARGET, THREE, TWO

# Evidence of more parts than are recorded.
PUBLISHED = replace(RECORD, evidence=Evidence(rows=10, parts=None).as_text())
NO_ROWS = Evidence(rows=0, parts=None).as_text()
STAGED = Evidence(rows=0, parts=(), beside=Contents(10, ("staged",))).as_text()
INTENT = replace(PUBLISHED, event="intent", min_block=0, max_block=0, evidence=STAGED)
AS_PUBLISHED = PartitionState(rows=10, parts=3, size_bytes=1, min_block=5, max_block=7, data_version=7, each_part=None)
REPLACED = replace(AS_PUBLISHED, parts=1, each_part=(Part(5, 5, 0, 5, 10, "staged"),))
NOTHING = PartitionState()
PUBLISHED_EMPTY = replace(PUBLISHED, rows=0, min_block=0, max_block=0, evidence=NO_ROWS)

LOADED = PeriodOnNode(PUBLISHED, AS_PUBLISHED)
EMPTY = PeriodOnNode(None, NOTHING)
VANISHING = "SummingMergeTree"
UNKNOWN = PeriodOnNode(None, AS_PUBLISHED)


def find(*periods: PeriodOnNode, fingerprint: str = "f", definition: str = "d"):
    """The status of periods that were spread over as many nodes as are given."""
    spread = [
        replace(period, record=period.record and replace(period.record, nodes=len(periods))) for period in periods
    ]
    nodes = dict(zip((ONE, TWO, THREE), spread, strict=False))
    return stands(nodes, fingerprint=fingerprint, definition=definition)


def stands(nodes: dict[Node, PeriodOnNode], *, fingerprint: str = "f", definition: str = "d"):
    found = compare(nodes, ExpectedPeriod(fingerprint=fingerprint, definition=definition), TARGET)
    return found.status, found.nodes


def changed(period: PeriodOnNode, *, may_lose_all: bool = False, keeps_every_row: bool = True) -> bool:
    engines = {(False, True): "MergeTree", (False, False): "ReplacingMergeTree"}
    return is_changed(
        period, table_facts=replace(TARGET, engine=engines.get((may_lose_all, keeps_every_row), VANISHING))
    )


class TestWasPublished:
    @pytest.mark.parametrize(
        ("first", "second", "expected"),
        [
            (EMPTY, EMPTY, False),
            (UNKNOWN, EMPTY, False),
            (LOADED, LOADED, True),
            (LOADED, EMPTY, True),
            (replace(LOADED, record=PUBLISHED_EMPTY), EMPTY, True),
            # The first load of all died, on one node after it had published there.
            (replace(LOADED, record=INTENT), replace(EMPTY, record=INTENT), False),
            (LOADED, replace(EMPTY, record=INTENT), False),
            (LOADED, replace(LOADED, record=replace(PUBLISHED, event="intent")), True),
            (LOADED, replace(EMPTY, record=replace(INTENT, increments=1)), True),
        ],
    )
    def test_not_by_a_load_that_died_at_the_first_of_all(self, first, second, expected):
        assert was_published({ONE: first, TWO: second}) is expected
        assert was_published({ONE: second, TWO: first}) is expected


class TestStanding:
    def test_a_period_as_published_on_every_node_is_unchanged(self):
        assert find(LOADED, LOADED, LOADED) == (ComparisonStatus.UNCHANGED, ())

    def test_a_first_block_of_replicas_which_is_number_0_is_one_too(self):
        first = replace(AS_PUBLISHED, parts=1, min_block=0, max_block=0, data_version=0)
        assert not changed(PeriodOnNode(replace(PUBLISHED, min_block=0, max_block=0), first))

    def test_a_node_without_rows_of_the_period_is_published_too(self):
        assert find(LOADED, PeriodOnNode(PUBLISHED_EMPTY, NOTHING)) == (ComparisonStatus.UNCHANGED, ())

    def test_a_period_without_rows_anywhere_is_unchanged_too(self):
        empty = PeriodOnNode(PUBLISHED_EMPTY, NOTHING)
        assert find(empty, empty) == (ComparisonStatus.UNCHANGED, ())

    def test_without_records_and_rows_a_period_is_new(self):
        assert find(EMPTY, EMPTY) == (ComparisonStatus.NEW, (ONE, TWO))

    def test_rows_without_a_record_are_unknown(self):
        assert find(EMPTY, UNKNOWN, EMPTY) == (ComparisonStatus.ROWS_UNKNOWN, (TWO,))

    def test_rows_without_a_record_are_unknown_even_where_other_nodes_are_published(self):
        assert find(LOADED, replace(UNKNOWN, has_history=True)) == (ComparisonStatus.ROWS_UNKNOWN, (TWO,))

    def test_a_node_that_lost_its_records_is_told_by_those_of_the_others(self):
        assert find(LOADED, UNKNOWN, LOADED) == (ComparisonStatus.LEDGER_LOST, (TWO,))

    def test_one_node_is_enough_to_tell(self):
        assert find(LOADED, UNKNOWN, EMPTY) == (ComparisonStatus.LEDGER_LOST, (TWO,))

    @pytest.mark.parametrize("other", [PeriodOnNode(INTENT, NOTHING), replace(EMPTY, has_history=True)])
    def test_records_that_tell_of_no_load_on_all_nodes_vouch_for_no_rows(self, other):
        assert find(LOADED, UNKNOWN, other)[0] is ComparisonStatus.ROWS_UNKNOWN

    def test_a_node_that_was_not_there_when_the_period_was_published_has_lost_nothing(self):
        periods = {ONE: LOADED, TWO: LOADED, THREE: LOADED, Node(4, 1, "ch-4", 9000): UNKNOWN}
        found, _ = stands(periods)
        assert found is ComparisonStatus.ROWS_UNKNOWN

    def test_without_any_record_nobody_vouches(self):
        assert find(UNKNOWN, UNKNOWN) == (ComparisonStatus.ROWS_UNKNOWN, (ONE, TWO))

    @pytest.mark.parametrize("fingerprint", ["f", "other"])
    def test_a_changed_partition_is_told_with_its_nodes(self, fingerprint):
        changed = PeriodOnNode(PUBLISHED, replace(AS_PUBLISHED, max_block=8))
        assert find(changed, LOADED, changed, fingerprint=fingerprint) == (
            ComparisonStatus.TARGET_CHANGED,
            (ONE, THREE),
        )

    def test_a_changed_partition_goes_before_an_unfinished_load(self):
        changed = PeriodOnNode(PUBLISHED, replace(AS_PUBLISHED, data_version=9))
        assert find(changed, PeriodOnNode(INTENT, NOTHING))[0] is ComparisonStatus.TARGET_CHANGED

    def test_an_intent_without_its_publication_is_unfinished(self):
        assert find(LOADED, PeriodOnNode(INTENT, REPLACED)) == (ComparisonStatus.UNFINISHED, (TWO,))

    def test_an_intent_everywhere_is_unfinished(self):
        assert find(PeriodOnNode(INTENT, NOTHING), PeriodOnNode(INTENT, REPLACED))[0] is ComparisonStatus.UNFINISHED

    def test_a_period_that_was_spread_over_more_nodes_is_not_all_here(self):
        periods = {ONE: LOADED, TWO: LOADED}
        found, _ = stands(periods)
        assert found is ComparisonStatus.FEWER_NODES

    def test_an_unfinished_period_may_be_on_more_nodes_too(self):
        assert stands({ONE: PeriodOnNode(INTENT, NOTHING)})[0] is ComparisonStatus.FEWER_NODES

    def test_a_period_from_before_a_node_came_is_loaded_on_it(self):
        periods = {ONE: LOADED, TWO: LOADED, THREE: LOADED, Node(4, 1, "ch-4", 9000): LOADED}
        assert stands(periods)[0] is ComparisonStatus.MORE_NODES

    def test_a_node_that_has_not_got_the_period_is_unfinished(self):
        assert find(LOADED, EMPTY) == (ComparisonStatus.UNFINISHED, (TWO,))

    def test_nodes_that_disagree_are_unfinished(self):
        other = PeriodOnNode(replace(PUBLISHED, attempt="older"), AS_PUBLISHED)
        assert find(LOADED, other)[0] is ComparisonStatus.UNFINISHED

    def test_other_objects_are_told(self):
        assert find(LOADED, LOADED, fingerprint="other") == (ComparisonStatus.OBJECTS_CHANGED, (ONE, TWO))

    def test_another_definition_is_told(self):
        assert find(LOADED, LOADED, definition="other") == (ComparisonStatus.DEFINITION_CHANGED, (ONE, TWO))

    def test_another_definition_on_one_node_is_told(self):
        other = PeriodOnNode(replace(PUBLISHED, definition="older"), AS_PUBLISHED)
        assert find(LOADED, other)[0] is ComparisonStatus.DEFINITION_CHANGED

    def test_a_single_server_is_a_cluster_of_one(self):
        assert find(LOADED)[0] is ComparisonStatus.UNCHANGED

    def test_every_standing_is_told_in_words(self):
        assert all(" " in each.value for each in ComparisonStatus)


class TestIsChanged:
    @pytest.mark.parametrize(
        ("state", "why"),
        [
            (replace(AS_PUBLISHED, max_block=8, data_version=8, rows=11, parts=4), "an INSERT"),
            (replace(AS_PUBLISHED, data_version=8), "a mutation"),
            (replace(AS_PUBLISHED, min_block=9, max_block=9, data_version=9), "somebody's REPLACE PARTITION"),
            (replace(AS_PUBLISHED, min_block=6), "the first part dropped"),
            (replace(AS_PUBLISHED, max_block=6, data_version=6), "the last part dropped"),
            (NOTHING, "the partition dropped"),
        ],
    )
    def test_somebody_changed_it(self, state, why):
        assert changed(PeriodOnNode(PUBLISHED, state)), why

    @pytest.mark.parametrize(
        ("state", "why"),
        [
            (AS_PUBLISHED, "nothing happened"),
            (replace(AS_PUBLISHED, parts=1), "a merge"),
            (replace(AS_PUBLISHED, parts=1, min_block=2), "a merge with the covering part that a restart brought back"),
        ],
    )
    def test_what_merges_do_is_no_change(self, state, why):
        assert not changed(PeriodOnNode(PUBLISHED, state)), why

    @pytest.mark.parametrize("is_kept", [True, False])
    def test_only_engines_that_merge_rows_away_may_have_fewer(self, is_kept):
        state = replace(AS_PUBLISHED, parts=1, rows=4, size_bytes=0)
        assert changed(PeriodOnNode(PUBLISHED, state), keeps_every_row=is_kept) is is_kept

    def test_a_mutation_from_before_the_record_is_no_change(self):
        record = replace(PUBLISHED, data_version=9)
        assert not changed(PeriodOnNode(record, replace(AS_PUBLISHED, data_version=9)))
        assert changed(PeriodOnNode(record, replace(AS_PUBLISHED, data_version=10)))

    @pytest.mark.parametrize(
        "state",
        [NOTHING, replace(AS_PUBLISHED, min_block=6), replace(AS_PUBLISHED, max_block=6, data_version=6), AS_PUBLISHED],
    )
    def test_with_a_ttl_parts_may_go_by_themselves(self, state):
        assert not changed(PeriodOnNode(PUBLISHED, state), may_lose_all=True)

    @pytest.mark.parametrize(
        "state",
        [
            replace(AS_PUBLISHED, max_block=8),
            replace(AS_PUBLISHED, data_version=8),
            replace(AS_PUBLISHED, min_block=8, max_block=8),
        ],
    )
    def test_with_a_ttl_parts_do_not_come_by_themselves(self, state):
        assert changed(PeriodOnNode(PUBLISHED, state), may_lose_all=True)

    @pytest.mark.parametrize("may_lose_all", [False, True])
    def test_rows_where_none_were_published_are_a_change(self, may_lose_all):
        assert changed(PeriodOnNode(PUBLISHED_EMPTY, AS_PUBLISHED), may_lose_all=may_lose_all)

    @pytest.mark.parametrize("may_lose_all", [False, True])
    def test_still_no_rows_are_none(self, may_lose_all):
        assert not changed(PeriodOnNode(PUBLISHED_EMPTY, NOTHING), may_lose_all=may_lose_all)

    def test_without_a_record_nothing_can_have_changed(self):
        assert not changed(PeriodOnNode(None, AS_PUBLISHED))


class TestIsChangedAfterAnIntent:
    """An attempt died around its REPLACE: the partition is as before, or holds what was staged."""

    STAGED = Contents(12, ("one", "two"))
    BEFORE = replace(
        PUBLISHED, event="intent", rows=12, evidence=Evidence(rows=10, parts=None, beside=STAGED).as_text()
    )
    NEW = (Part(8, 8, 0, 8, 5, "one"), Part(9, 9, 0, 9, 7, "two"))
    REPLACED = PartitionState(rows=12, parts=2, size_bytes=1, min_block=8, max_block=9, data_version=8, each_part=NEW)

    @pytest.mark.parametrize(("state", "why"), [(AS_PUBLISHED, "not replaced yet"), (REPLACED, "replaced")])
    def test_what_the_attempt_left_is_no_change(self, state, why):
        assert not changed(PeriodOnNode(self.BEFORE, state)), why

    @pytest.mark.parametrize(
        ("state", "why"),
        [
            (replace(AS_PUBLISHED, max_block=8), "an INSERT before it was replaced"),
            (replace(AS_PUBLISHED, data_version=8), "a mutation before it was replaced"),
            (
                replace(REPLACED, rows=13, max_block=10, each_part=(*NEW, Part(10, 10, 0, 10, 1, "three"))),
                "an INSERT after it was replaced",
            ),
            (replace(REPLACED, parts=3_001, each_part=None), "more parts than anybody compares"),
            (NOTHING, "DROP PARTITION"),
        ],
    )
    def test_what_somebody_else_did_is_one(self, state, why):
        assert changed(PeriodOnNode(self.BEFORE, state)), why

    def test_engines_that_merge_rows_away_may_hold_fewer_than_staged(self):
        merged = replace(self.REPLACED, rows=9, parts=1, each_part=(Part(8, 9, 1, 8, 9, "merged"),), sources=self.NEW)
        assert not changed(PeriodOnNode(self.BEFORE, merged), keeps_every_row=False)

    def test_rows_that_came_after_the_intent_of_a_first_load_are_somebody_elses(self):
        assert changed(PeriodOnNode(INTENT, replace(self.REPLACED, rows=1)))

    @pytest.mark.parametrize("state", [NOTHING, AS_PUBLISHED])
    def test_an_intent_to_publish_no_rows_ends_in_none_or_in_those_before(self, state):
        evidence = Evidence(rows=10, parts=None).as_text()
        assert not changed(PeriodOnNode(replace(self.BEFORE, rows=0, evidence=evidence), state))


class TestNodeWithoutLedger:
    """A node has neither records nor history of a period that the others have published."""

    RECORD = replace(
        PUBLISHED, evidence=Evidence(rows=10, parts=None, rows_of_shards={1: 10, 2: 10, 3: 0}).as_text(), nodes=3
    )

    def find(self, state: PartitionState, *, engine: str = "MergeTree", has_rows: bool = True):
        told = PeriodOnNode(self.RECORD, AS_PUBLISHED)
        periods = {ONE: told, TWO: PeriodOnNode(None, state, has_rows=has_rows), THREE: told}
        found = compare(periods, ExpectedPeriod(fingerprint="f", definition="d"), replace(TARGET, engine=engine))
        return found.status, found.nodes

    def test_with_its_rows_it_has_lost_its_ledger_alone(self):
        assert self.find(AS_PUBLISHED) == (ComparisonStatus.LEDGER_LOST, (TWO,))

    @pytest.mark.parametrize("rows", [0, 9, 11])
    def test_with_others_its_rows_were_changed(self, rows):
        assert self.find(replace(AS_PUBLISHED, rows=rows)) == (ComparisonStatus.TARGET_CHANGED, (TWO,))

    def test_without_a_row_of_the_table_it_is_a_new_node(self):
        assert self.find(NOTHING, has_rows=False) == (ComparisonStatus.UNFINISHED, (TWO,))

    def test_where_rows_are_merged_away_it_may_have_fewer_but_not_none(self):
        assert self.find(replace(AS_PUBLISHED, rows=9), engine="ReplacingMergeTree")[0] is ComparisonStatus.LEDGER_LOST
        assert self.find(NOTHING, engine="ReplacingMergeTree")[0] is ComparisonStatus.TARGET_CHANGED
        assert self.find(NOTHING, engine="SummingMergeTree")[0] is ComparisonStatus.UNFINISHED


class TestIntended:
    """Which attempt was publishing what is expected."""

    WANTED = ExpectedPeriod(fingerprint="f", definition="d")
    OPEN = PeriodOnNode(replace(INTENT, nodes=2), NOTHING)
    DONE = PeriodOnNode(replace(PUBLISHED, nodes=2), AS_PUBLISHED)

    @pytest.mark.parametrize("second", [OPEN, DONE])
    def test_is_that_of_which_every_node_has_a_record_and_some_its_intent_alone(self, second):
        assert intended({ONE: self.OPEN, TWO: second}, self.WANTED, TARGET) == "nonce"

    @pytest.mark.parametrize(
        "second",
        [
            EMPTY,
            replace(DONE, record=replace(DONE.record, attempt="other")),
            replace(OPEN, record=replace(OPEN.record, fingerprint="other")),
            replace(OPEN, record=replace(OPEN.record, definition="other")),
            replace(OPEN, record=replace(OPEN.record, nodes=3)),
            replace(OPEN, state=replace(AS_PUBLISHED, rows=11)),
            replace(DONE, state=replace(AS_PUBLISHED, max_block=9)),
        ],
    )
    def test_is_none_if_a_node_has_anything_else(self, second):
        assert intended({ONE: self.OPEN, TWO: second}, self.WANTED, TARGET) == ""

    def test_is_none_once_every_node_is_published(self):
        assert intended({ONE: self.DONE, TWO: self.DONE}, self.WANTED, TARGET) == ""


class TestHoldsRecorded:
    PARTS = (Part(5, 5, 0, 5, 4, "a"), Part(6, 6, 0, 6, 3, "b"), Part(7, 7, 0, 7, 3, "c"))
    WITH_PARTS = replace(RECORD, evidence=Evidence(rows=10, parts=PARTS).as_text())

    @pytest.mark.parametrize(
        ("part", "expected"),
        [
            (PARTS[2], True),
            # Mutated, or merged.
            (Part(7, 7, 0, 9, 2, "d"), True),
            (Part(5, 7, 1, 7, 10, "d"), True),
            # Merged with the part that covers the replaced ones.
            (Part(5, 9, 2, 9, 3, "d"), False),
            # Of another load, with new numbers; or with the same ones, after Keeper has lost its data.
            (Part(9, 9, 0, 9, 3, "c"), False),
            (Part(7, 7, 0, 7, 3, "d"), False),
            (Part(7, 7, 0, 7, 3, "c", patches="patch-1-all"), False),
        ],
    )
    def test_no_load_has_replaced_parts_of_the_record(self, part, expected):
        state = replace(AS_PUBLISHED, rows=13, each_part=(Part(10, 10, 0, 10, 10, "e"), part))
        assert is_changed(PeriodOnNode(self.WITH_PARTS, state), table_facts=TARGET)
        assert holds_recorded(PeriodOnNode(self.WITH_PARTS, state), TARGET) is expected

    def test_nobody_knows_without_records_or_parts(self):
        assert not holds_recorded(UNKNOWN, TARGET)
        assert not holds_recorded(PeriodOnNode(self.WITH_PARTS, NOTHING), TARGET)
        assert not holds_recorded(PeriodOnNode.of_several([], [], nothing=NOTHING), TARGET)
        assert holds_recorded(LOADED, TARGET)
