"""What is asked of a ledger, and what its answers mean."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from airflow_provider_chs3.core.values.period import Period

from airflow_provider_chs3.core.cluster.topology import LEDGER_TABLE
from airflow_provider_chs3.core.ledger.partition_state import PartitionState
from airflow_provider_chs3.core.ledger.parts import PARTITION
from airflow_provider_chs3.core.ledger.queries import look_up
from airflow_provider_chs3.core.ledger.records import (
    PeriodOnNode,
    Record,
    period_on_node,
    record,
)
from airflow_provider_chs3.core.ledger.table import LedgerKey, create_ledger
from airflow_provider_chs3.core.sql.quoting import literal
from airflow_provider_chs3.core.values.models import TableName

PUBLISHED = Record(
    event="published",
    attempt="nonce",
    fingerprint="f",
    definition="d",
    source_bytes=100,
    nodes=3,
    rows=10,
    min_block=5,
    max_block=7,
)
AS_PUBLISHED = PartitionState(
    rows=10, parts=3, size_bytes=1, min_block=5, max_block=7, data_version=7, partition_id="202610"
)
LOADED = PeriodOnNode(PUBLISHED, AS_PUBLISHED)
EMPTY = PeriodOnNode(None, PartitionState(partition_id="202610"))
UNKNOWN = PeriodOnNode(None, AS_PUBLISHED)
HOSTILE = LedgerKey(TableName("d'b", "t; DROP TABLE y --"), "uu'id", Period.of_month(2026, 10), "20'2610")
LEDGER = TableName("st`aging", LEDGER_TABLE)


def with_names(text: str) -> str:
    """A look-up with the name of what it computes of a record."""
    return text.replace("dateDiff('millisecond', recorded_at, now64(3)) / 1000", "age_seconds")


class TestStatements:
    def test_the_ledger_is_made_only_where_it_is_missing(self):
        assert "CREATE TABLE IF NOT EXISTS `st\\`aging`.`chs3_ledger`" in create_ledger(LEDGER).text

    def test_the_look_up_reads_no_ledger_that_is_not_there(self):
        assert LEDGER_TABLE not in look_up(LEDGER, [HOSTILE], with_records=False).text

    @pytest.mark.parametrize("with_records", [True, False])
    def test_the_look_up_counts_the_periods_active_parts(self, with_records):
        text = look_up(LEDGER, [HOSTILE], with_records=with_records).text
        assert f" AND {PARTITION} IN ({literal(HOSTILE.partition_id)}) AND active GROUP BY partition" in text

    def test_the_look_up_reads_the_newest_record_by_its_number(self):
        text = look_up(LEDGER, [HOSTILE], with_records=True).text
        assert "argMaxIf((event, " in text
        assert "), (sequence, recorded_at), event IN (" in text

    def test_records_of_loads_are_not_records_of_nodes(self):
        assert "event IN ('intent', 'published', 'forgotten')" in look_up(LEDGER, [HOSTILE], with_records=True).text

    @pytest.mark.parametrize("value", ["d'b", "t; DROP TABLE y --", "uu'id", "2026-10"])
    def test_records_are_found_by_table_uuid_and_period(self, value):
        assert f"= {literal(value)}" in HOSTILE.condition

    def test_a_record_is_numbered_after_those_of_its_period_on_that_node(self):
        text = record(LEDGER, HOSTILE, "intent", {}).text
        assert re.search(r"SELECT greatest\(max\(sequence\) \+ 1, 0\), .* FROM .*chs3_ledger` WHERE ", text)
        assert text.endswith(HOSTILE.condition)

    def test_values_go_in_under_their_names(self):
        text = record(LEDGER, HOSTILE, "published", {"rows": 7, "attempt": "a'b"}).text
        names = re.search(r"chs3_ledger` \((.*?)\) SELECT", text)[1].replace("`", "").split(", ")
        assert names[:2] + names[-2:] == ["sequence", "event", "rows", "attempt"]
        assert r", toInt64(7), 'a\'b' FROM" in text

    def test_details_go_in_as_json(self):
        details = {"settings": {"x": 1}, "note": 'it\'s "ü"\n'}
        text = record(LEDGER, HOSTILE, "load", {"details": details}).text
        assert literal(json.dumps(details, sort_keys=True, ensure_ascii=False)) in text

    @pytest.mark.parametrize(
        "sql", [record(LEDGER, HOSTILE, "intent", {}), look_up(LEDGER, [HOSTILE], with_records=True)]
    )
    def test_every_column_is_one_of_the_ledgers(self, sql):
        known = set(re.findall(r"`(\w+)` ", create_ledger(LEDGER).text))
        named = re.search(r"chs3_ledger` \((.*?)\) SELECT|argMaxIf\(\(([^()]*)\), ", with_names(sql.text))
        assert set(re.split(r",\s*", (named[1] or named[2]).replace("`", ""))) <= {*known, "age_seconds"}


class TestAnswer:
    def test_with_a_record(self):
        fields = tuple(getattr(PUBLISHED, name) for name in Record.__dataclass_fields__)
        assert period_on_node(
            ("202610", [([fields], 1)], 1, [], [("202610", (10, 3, 1, 5, 7, 7, []))], "u")
        ) == replace(LOADED, has_history=True, has_rows=True, table_uuid="u")

    def test_without_one(self):
        assert period_on_node(("202610", [([], 0)], 0, [], [], "")) == EMPTY

    def test_a_period_that_was_forgotten_has_none(self):
        fields = tuple(getattr(replace(PUBLISHED, event="forgotten"), name) for name in Record.__dataclass_fields__)
        assert period_on_node(
            ("202610", [([fields], 1)], 1, [], [("202610", (10, 3, 1, 5, 7, 7, []))], "u")
        ) == replace(UNKNOWN, has_history=True, has_rows=True, table_uuid="u")

    def test_the_record_is_asked_for_in_its_fields_order(self):
        asked = re.search(r"argMaxIf\(\(([^()]*)\), ", with_names(look_up(LEDGER, [HOSTILE], with_records=True).text))[
            1
        ]
        assert re.split(r",\s*", asked) == list(Record.__dataclass_fields__)
