"""Why a period is stuck: said once for all nodes, with the statement that helps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_chs3.core.arguments.merge_arguments import Thresholds
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.watch.merge_observation import MergeState
from airflow_provider_chs3.plugin.observation.merge_reasons import (
    have_to_wait,
    reasons_by_node,
    unchanged_since,
    way_out,
)
from tests.core.surroundings import ONE, TWO
from tests.support.merge_states import FAILED, FEW, MANY, MERGE, REPLICA, verdict

TABLE = TableName("d", "it's")
STUCK = [verdict(replace(FEW, mutations=(FAILED,), node=node)) for node in (ONE, TWO)]
STOPPED = verdict(MANY)


def test_a_reason_that_nodes_share_is_said_once_with_both_named() -> None:
    text = reasons_by_node(STUCK)
    assert text.count("KILL MUTATION") == 1
    assert text.endswith(f"({ONE}: 3 parts; {TWO}: 3 parts)")


def test_nodes_that_are_well_are_not_named() -> None:
    assert str(TWO) not in reasons_by_node([STUCK[0], verdict(replace(FEW, node=TWO))])


def test_a_failed_mutation_is_killed_by_its_command_and_dates_the_trouble() -> None:
    assert way_out(STUCK, TABLE) == (
        "KILL MUTATION WHERE database = 'd' AND table = 'it\\'s' AND command IN ('DELETE WHERE x')"
    )
    assert unchanged_since(STUCK) == "2027-01-15 07:00:00"


def test_merges_that_were_stopped_are_started() -> None:
    assert way_out([STOPPED], TABLE) == "SYSTEM START MERGES `d`.`it's`"


def test_without_a_failed_mutation_it_is_so_since_the_worst_nodes_parts_changed_last() -> None:
    assert unchanged_since([STOPPED, verdict(replace(FEW, node=TWO, unchanged_seconds=9))]) == "2027-01-15 07:00:00"
    assert unchanged_since([]) == ""


def test_running_merges_are_told_with_their_parts_and_the_time_left() -> None:
    text = reasons_by_node([verdict(replace(MANY, merges=(MERGE,)))])
    assert text == f"merging, 25% done ({ONE}: 501 parts, 10.0 MiB/s, at least about 30 s left)"


def test_a_full_disk_has_no_statement() -> None:
    assert way_out([verdict(replace(FEW, parts=50, free_bytes=0))], TABLE) == ""


BUSY = replace(MANY, pool_is_busy=True)
BEHIND = replace(FEW, unchanged_seconds=10, replica=replace(REPLICA, delay_seconds=301))


@pytest.mark.parametrize(
    ("state", "waits"),
    [
        pytest.param(BUSY, True, id="no free thread for an hour"),
        pytest.param(replace(BUSY, unchanged_seconds=599), False, id="no free thread for some minutes"),
        pytest.param(replace(BUSY, merges=(MERGE,)), False, id="its own merge is one of those that run"),
        pytest.param(BEHIND, True, id="a replica that lags"),
        pytest.param(replace(FEW, replica=replace(REPLICA, queue=2)), False, id="a replica that fetches what is new"),
        pytest.param(FEW, False, id="healthy"),
        pytest.param(MANY, False, id="stuck"),
    ],
)
def test_merges_wait_where_others_take_all_threads_or_a_replica_lags(state: MergeState, waits: bool) -> None:
    assert have_to_wait([verdict(state), verdict(FEW)], Thresholds()) is waits
