"""The evidence of what is unchanged."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from airflow_provider_chs3.core.files.loaded_columns import Selection
from airflow_provider_chs3.core.ledger.partition_state import Evidence, Part, PartitionState
from airflow_provider_chs3.core.ledger.records import PeriodOnNode, Record
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.load.renew_records import renew_records
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.steps.operations import QueryNodes
from airflow_provider_chs3.core.target.node_facts import RecordTable
from airflow_provider_chs3.core.target.topology import LEDGER_TABLE
from airflow_provider_chs3.exceptions import PreflightError
from tests.core.surroundings import FACTS, ONE, TWO, surroundings
from tests.support.driving import drive

KNOWING = replace(FACTS, ledger=RecordTable())
PARTS = (Part(5, 5, 0, 5, 10, "hash"),)
STATE = PartitionState(10, 1, 99, 5, 5, 5, PARTS)
SHARDS = {1: 10, 2: 10}
STRUCTURE = '{"loaded":["n"],"columns":["n"]}'
RECORD = Record(
    "published",
    "nonce",
    *("f", "d", 100, 2, 10, 5, 5, 5),
    evidence=Evidence(rows=10, parts=None).as_text(),
    structure=STRUCTURE,
)
CURRENT = replace(RECORD, evidence=STATE.evidence(SHARDS).as_text())


def load(before, facts=KNOWING):
    context = surroundings(facts, facts, nodes=(ONE, TWO))
    key = LedgerKey(context.target, "uuid", Period.of_month(2026, 10), "202610")
    return SimpleNamespace(
        context=context,
        period=key.period,
        before=before,
        key_on=lambda node, partition_id="": key,
        request=SimpleNamespace(selection=Selection(), structure=lambda context, shard_num: {"columns": ["n"]}),
    )


def renewed(first: Record, second: Record, *answers, facts=KNOWING):
    periods = {node: PeriodOnNode(record, STATE, has_history=True) for node, record in ((ONE, first), (TWO, second))}
    return drive(renew_records([load(periods, facts)]), *answers).steps


def test_what_is_known_already_is_not_recorded_again():
    assert renewed(CURRENT, CURRENT) == []


@pytest.mark.parametrize(
    "record", [RECORD, replace(CURRENT, evidence=Evidence(rows=10, parts=(), rows_of_shards=SHARDS).as_text())]
)
def test_a_record_that_lacks_the_parts_of_now_is_renewed_on_its_node_alone(record):
    (step,) = renewed(CURRENT, record, {})
    assert isinstance(step, QueryNodes)
    assert list(step.sql) == [TWO]
    ledger = TableName("db", LEDGER_TABLE)
    assert f"INSERT INTO `{ledger.database}`.`{ledger.table}` " in step.sql[TWO].text
    assert step.sql[TWO].text.endswith("WHERE event = 'published' AND attempt = 'nonce'")


@pytest.mark.parametrize("lasts", [False, True])
def test_what_lasts_is_known_of_merged_parts_too(lasts):
    current = replace(CURRENT, evidence=replace(STATE, lasts=lasts).evidence(SHARDS).as_text())
    older = replace(current, evidence=replace(STATE, parts=2, lasts=lasts, each_part=()).evidence(SHARDS).as_text())
    (step,) = renewed(current, older, {})
    assert list(step.sql) == [TWO]
    assert ('"lasts":true' in step.sql[TWO].text) is lasts


def test_a_record_gets_the_table_of_now_and_keeps_what_it_has_of_the_files():
    (step,) = renewed(CURRENT, replace(CURRENT, structure='{"loaded":["n"],"columns":[]}'), {})
    assert list(step.sql) == [TWO]
    assert f"'{STRUCTURE}'" in step.sql[TWO].text


def test_a_replica_that_goes_by_the_record_of_another_gets_none():
    periods = {ONE: PeriodOnNode(CURRENT, STATE, has_history=True), TWO: PeriodOnNode(RECORD, STATE)}
    assert drive(renew_records([load(periods)])).steps == []


def test_an_error_of_another_kind_is_no_error_of_the_period():
    _, said = renewed(RECORD, RECORD, PreflightError("it did not work"), None)
    assert said.name.startswith("The period is as published, but its current parts could not be recorded: ")


def test_evidence_is_compact_and_comes_back_as_it_was():
    many = Evidence(rows=30, parts=(PARTS[0], Part(6, 9, 2, 12, 20, "", "patch-1-202610", 1)), rows_of_shards={2: 5})
    assert Evidence.of_text(many.as_text()) == many
    assert STATE.evidence().as_text() == '{"rows":10,"parts":[[5,5,0,5,10,"hash"]]}'
