"""Why a period is stuck: said once for all nodes, with the statement that helps."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_chs3.core.values.models import TableName
from airflow_provider_chs3.plugin.observation.merge_reasons import reasons_by_node, unchanged_since, way_out
from tests.core.merges.test_health import FAILED, FEW, MANY, MERGE, ONE, TWO, verdict

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
