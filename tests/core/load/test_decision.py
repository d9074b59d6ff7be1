"""The decision on a period: one table, whose answers every asker gives."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import pytest

from airflow_provider_chs3.core.ledger.period_comparison import Comparison, ComparisonStatus
from airflow_provider_chs3.core.load.decision import (
    Add,
    Decision,
    Finish,
    LoadResult,
    PeriodFacts,
    Refusal,
    Refuse,
    Skip,
    Whole,
    decide,
)
from airflow_provider_chs3.core.load.load_request import Policies
from airflow_provider_chs3.core.load.retry_policy import ASKED_FOR
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.watch.health import Health
from airflow_provider_chs3.plugin.observation.period_state import LastLoad, PeriodState, state_of

WHY = "why"
WHOLE = Whole(WHY)
NO_OBJECTS, SKIPPED = Refuse("no objects", Refusal.NO_OBJECTS), Skip("no objects", has_no_objects=True)

#: Each status: what a load without policies does, what the policies in its way are, and what the page shows.
STATUSES: dict[ComparisonStatus, tuple[Decision, Policies, PeriodState]] = {
    ComparisonStatus.UNCHANGED: (Skip(WHY), Policies(), PeriodState.PUBLISHED),
    ComparisonStatus.NEW: (WHOLE, Policies(), PeriodState.NEVER_LOADED),
    ComparisonStatus.OBJECTS_CHANGED: (WHOLE, Policies(), PeriodState.UNFINISHED),
    ComparisonStatus.DEFINITION_CHANGED: (WHOLE, Policies(), PeriodState.UNFINISHED),
    ComparisonStatus.UNFINISHED: (WHOLE, Policies(), PeriodState.UNFINISHED),
    ComparisonStatus.RESTORED: (WHOLE, Policies(), PeriodState.UNFINISHED),
    ComparisonStatus.PINNED: (Skip(WHY), Policies(), PeriodState.PINNED),
    ComparisonStatus.MORE_NODES: (WHOLE, Policies(), PeriodState.UNFINISHED),
    ComparisonStatus.LEDGER_LOST: (WHOLE, Policies(), PeriodState.UNFINISHED),
    ComparisonStatus.FEWER_NODES: (
        Refuse(WHY, Refusal.FEWER_NODES),
        Policies(on_target_changed="reload"),
        PeriodState.CHANGED,
    ),
    ComparisonStatus.TARGET_CHANGED: (
        Refuse(WHY, Refusal.TARGET_CHANGED),
        Policies(on_target_changed="reload"),
        PeriodState.CHANGED,
    ),
    ComparisonStatus.ROWS_UNKNOWN: (
        Refuse(WHY, Refusal.ROWS_UNKNOWN),
        Policies(replace_unknown=True),
        PeriodState.CHANGED,
    ),
}


def facts(status: ComparisonStatus, **known: object) -> PeriodFacts:
    return replace(PeriodFacts(comparison=Comparison(status, (), WHY), objects=3, size_bytes=100), **known)


@pytest.mark.parametrize("status", ComparisonStatus)
class TestEachStatus:
    def test_has_one_answer_without_policies_whether_objects_were_listed_or_not(self, status):
        known = facts(status)
        assert decide(known) == decide(replace(known, objects=None)) == STATUSES[status][0]

    def test_is_loaded_where_its_policy_says_so(self, status):
        decision, policies, _ = STATUSES[status]
        assert decide(facts(status), policies) == (decision if isinstance(decision, Skip) else WHOLE)

    def test_is_shown_by_the_page_as_a_load_takes_it(self, status):
        assert state_of(Comparison(status, (), WHY), LastLoad.NONE, Health.HEALTHY) is STATUSES[status][2]

    @pytest.mark.parametrize(("on_no_objects", "expected"), [("fail", NO_OBJECTS), ("skip", SKIPPED)])
    @pytest.mark.parametrize("is_reload", [False, True])
    def test_without_objects_stays_as_it_is_or_is_refused(self, status, on_no_objects, expected, is_reload):
        stays = status is ComparisonStatus.PINNED or (status is ComparisonStatus.UNCHANGED and not is_reload)
        known = facts(status, objects=0, size_bytes=0, published_bytes=100, is_reload=is_reload)
        assert decide(known, Policies(on_no_objects=on_no_objects)) == (Skip(WHY) if stays else expected)

    def test_without_objects_is_published_empty_where_that_is_asked_for(self, status):
        decision, policies, _ = STATUSES[status]
        known = facts(status, objects=0, size_bytes=0, published_bytes=100)
        assert decide(known, replace(policies, on_no_objects="empty")) == decide(facts(status), policies)
        assert decide(known, Policies(on_no_objects="empty")) == decision

    @pytest.mark.parametrize("is_open", [False, True])
    def test_that_shrank_is_refused_unless_it_may(self, status, is_open):
        known = facts(status, size_bytes=49, published_bytes=100)
        policies = replace(STATUSES[status][1], max_shrink_fraction=0.6 if is_open else 0.5)
        is_taken = is_open or isinstance(STATUSES[status][0], Skip)
        why = "its objects shrank from 100 bytes to 49 bytes since they were published"
        expected = decide(facts(status), policies) if is_taken else Refuse(why, Refusal.SHRANK)
        assert decide(known, policies) == expected

    @pytest.mark.parametrize("replace_unknown", [False, True])
    def test_that_a_replica_may_explain_waits_for_it(self, status, replace_unknown):
        known, policies = facts(status, lacks_replica=True), Policies(replace_unknown=replace_unknown)
        is_doubtful = status in (ComparisonStatus.ROWS_UNKNOWN, ComparisonStatus.TARGET_CHANGED)
        expected = Refuse(WHY, Refusal.REPLICA_DOWN) if is_doubtful else decide(facts(status), policies)
        assert decide(known, policies) == expected

    @pytest.mark.parametrize("why_whole", [None, "", "a node is down"])
    def test_is_added_to_only_if_objects_changed_and_nothing_speaks_against_it(self, status, why_whole):
        adds = status is ComparisonStatus.OBJECTS_CHANGED and why_whole == ""
        assert decide(facts(status, why_whole=why_whole)) == (Add(WHY) if adds else STATUSES[status][0])


@pytest.mark.parametrize("known", [{"objects": 0}, {"objects": 1, "size_bytes": 1}])
def test_an_approval_that_died_is_completed_whatever_the_policies_of_who_repeats_it(known):
    killed = facts(ComparisonStatus.UNFINISHED, is_approval=True, intended="a", **{"published_bytes": 100, **known})
    assert decide(killed) == Finish(WHY)


def test_what_would_be_refused_is_held_where_that_is_asked_for():
    held, holds = Whole(WHY, held_because=WHY), Policies(on_target_changed="hold")
    shrinks = {"size_bytes": 49, "published_bytes": 100}
    why = "its objects shrank from 100 bytes to 49 bytes since they were published"
    for status in (ComparisonStatus.TARGET_CHANGED, ComparisonStatus.ROWS_UNKNOWN):
        assert decide(facts(status), holds) == held
        assert decide(facts(status, is_reload=True), holds) == held
        assert decide(facts(status, lacks_replica=True), holds) == Refuse(WHY, Refusal.REPLICA_DOWN)
        assert decide(facts(status, **shrinks), holds) == Refuse(why, Refusal.SHRANK)
    assert decide(facts(ComparisonStatus.ROWS_UNKNOWN), replace(holds, replace_unknown=True)) == WHOLE
    fewer = facts(ComparisonStatus.FEWER_NODES)
    assert decide(fewer, holds) == decide(fewer) == Refuse(WHY, Refusal.FEWER_NODES)
    shrank, holds = facts(ComparisonStatus.OBJECTS_CHANGED, **shrinks), Policies(on_shrink="hold")
    assert decide(shrank, holds) == Whole(WHY, held_because=why)
    assert decide(replace(shrank, why_whole=""), holds) == Add(WHY, held_because=why)
    assert decide(replace(shrank, size_bytes=50), holds) == WHOLE
    both = replace(shrank, comparison=Comparison(ComparisonStatus.TARGET_CHANGED, (), WHY))
    assert decide(both, Policies(on_shrink="hold", on_target_changed="hold")).held_because == f"{WHY}; {why}"


def test_a_reload_loads_what_is_as_published_and_nothing_that_is_refused():
    answers = {status: decide(facts(status, is_reload=True)) for status in ComparisonStatus}
    expected = {status: decision for status, (decision, *_) in STATUSES.items()}
    assert answers == expected | {ComparisonStatus.UNCHANGED: Whole(ASKED_FOR)}


def test_what_is_as_published_is_left_alone_by_every_policy():
    choices = product(("fail", "skip", "empty"), ("fail", "reload"), (False, True), (0, 3))
    for on_no_objects, on_target_changed, replace_unknown, objects in choices:
        policies = Policies(
            on_no_objects=on_no_objects, on_target_changed=on_target_changed, replace_unknown=replace_unknown
        )
        assert decide(facts(ComparisonStatus.UNCHANGED, objects=objects), policies) == Skip(WHY)


@pytest.mark.parametrize("is_reload", [False, True])
def test_what_a_dead_attempt_was_publishing_is_completed_unless_all_is_to_be_loaded_again(is_reload):
    known = facts(ComparisonStatus.UNFINISHED, intended="nonce", is_reload=is_reload)
    assert decide(known) == (WHOLE if is_reload else Finish(WHY))


#: Where nobody allows it otherwise, and not for the first time.
RELOADS = {
    ComparisonStatus.DEFINITION_CHANGED,
    ComparisonStatus.UNFINISHED,
    ComparisonStatus.RESTORED,
    ComparisonStatus.MORE_NODES,
    ComparisonStatus.LEDGER_LOST,
}


@pytest.mark.parametrize("status", ComparisonStatus)
class TestWholeTables:
    def test_are_not_read_whole_again_without_permission(self, status):
        known, policies = facts(status, is_published_table=True), STATUSES[status][1]
        expected = Refuse(WHY, Refusal.WHOLE_TABLE) if status in RELOADS else decide(facts(status), policies)
        assert decide(known, policies) == expected
        assert decide(known, replace(policies, reload_whole_table=True)) == decide(facts(status), policies)

    def test_are_read_whole_if_the_run_asks_for_it_or_if_nothing_is_left(self, status):
        for some in ({"is_reload": True}, {"objects": 0, "size_bytes": 0}):
            policies = replace(STATUSES[status][1], on_no_objects="empty")
            assert decide(facts(status, is_published_table=True, **some), policies) == decide(
                facts(status, **some), policies
            )


def test_a_whole_table_takes_what_is_new_and_no_more():
    known = facts(ComparisonStatus.OBJECTS_CHANGED, is_published_table=True)
    refused = Refuse("1 object was overwritten", Refusal.WHOLE_TABLE)
    assert decide(known) == WHOLE  # nobody has looked
    assert decide(replace(known, why_whole="")) == Add(WHY)
    assert decide(replace(known, why_whole="1 object was overwritten")) == refused
    assert decide(replace(known, why_whole="1 object was overwritten"), Policies(reload_whole_table=True)) == WHOLE


class TestLoadResult:
    RESULT = LoadResult(
        status="published",
        period=Period.of_month(2026, 10),
        target=TableName("db", "trips"),
        reason="never loaded",
        objects=2,
        rows=3_000_000,
        loaded_objects=2,
        loaded_rows=3_000_000,
        rows_by_node={"a:9000": 1_000_000, "b:9000": 2_000_000},
        parts=2,
        insert_seconds=1.5,
        query_ids=("q1",),
        settings={"max_insert_threads": 4},
    )

    def test_survives_json(self):
        values = self.RESULT.as_json()
        assert json.loads(json.dumps(values)) == values

    def test_names_period_and_table_as_text(self):
        values = self.RESULT.as_json()
        assert (values["period"], values["target"]) == ("2026-10", "db.trips")

    def test_is_told_in_one_line(self):
        assert self.RESULT.summary() == (
            "db.trips 2026-10 published (never loaded): 3,000,000 rows from 2 objects in 1.5 s (2,000,000 rows/s), "
            "2 parts on 2 nodes."
        )

    def test_rows_of_a_database_are_not_of_objects(self):
        assert replace(self.RESULT, objects=0, loaded_objects=0).summary() == (
            "db.trips 2026-10 published (never loaded): 3,000,000 rows in 1.5 s (2,000,000 rows/s), 2 parts on 2 nodes."
        )

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"status": "skipped", "reason": "no objects"}, "skipped: no objects."),
            ({"status": "unchanged", "reason": "as published"}, "unchanged (as published): 3,000,000 rows"),
            ({"insert_seconds": 0.0}, "(nothing to insert)"),
            ({"loaded_objects": 1, "loaded_rows": 3}, "rows from 2 objects, 3 of them new, in 1.5 s (2 rows/s)"),
            ({"other_period_rows": 7}, "; 7 rows of other periods left out."),
        ],
    )
    def test_the_line_says_what_is_special(self, change, text):
        assert text in replace(self.RESULT, **change).summary()
