"""Questions to a ledger, and the meaning of its answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from airflow_provider_chs3.core.ledger.partition_state import PARTITION, PartitionState
from airflow_provider_chs3.core.ledger.queries import look_up, periods_on_node
from airflow_provider_chs3.core.ledger.recording import Values, add_records
from airflow_provider_chs3.core.ledger.records import PeriodOnNode, Record
from airflow_provider_chs3.core.ledger.table import LedgerKey, create_ledger
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import literal
from airflow_provider_chs3.core.target.node_facts import NodeFacts, RecordTable
from airflow_provider_chs3.core.target.period_partitions import PeriodPartitions
from airflow_provider_chs3.core.target.topology import LEDGER_TABLE
from tests.core.surroundings import FACTS, ONE, RECORD, surroundings

AS_PUBLISHED = PartitionState(
    rows=10, parts=3, size_bytes=1, min_block=5, max_block=7, data_version=7, partition_id="202610"
)
LOADED = PeriodOnNode(RECORD, AS_PUBLISHED)
EMPTY = PeriodOnNode(None, PartitionState(partition_id="202610"))
UNKNOWN = PeriodOnNode(None, AS_PUBLISHED)
HOSTILE = LedgerKey(TableName("d'b", "t; DROP TABLE y --"), "uu'id", Period.of_month(2026, 10), "20'2610")
OWNS = {HOSTILE.period: PeriodPartitions(HOSTILE.partition_id)}
LEDGER = TableName("st`aging", LEDGER_TABLE)
LOOK_UP = look_up(LEDGER, HOSTILE, OWNS, with_records=True).text


def with_names(text: str) -> str:
    """A look-up with the names of what it computes of a record."""
    for name, sql in {
        "age_seconds": "dateDiff('millisecond', recorded_at, now64(3)) / 1000",
        "structure": "hex(cityHash64(structure))",
    }.items():
        text = text.replace(sql, name)
    return text


class TestStatements:
    def test_the_ledger_is_made_only_where_it_is_missing(self):
        assert "CREATE TABLE IF NOT EXISTS `st\\`aging`.`chs3_ledger`" in create_ledger(LEDGER).text

    def test_the_look_up_reads_no_ledger_that_is_not_there(self):
        assert LEDGER_TABLE not in look_up(LEDGER, HOSTILE, OWNS, with_records=False).text

    @pytest.mark.parametrize("with_records", [True, False])
    def test_the_look_up_counts_the_periods_active_parts(self, with_records):
        text = look_up(LEDGER, HOSTILE, OWNS, with_records=with_records).text
        assert f" AND {PARTITION} IN ({literal(HOSTILE.partition_id)}) AND active GROUP BY id" in text

    def test_the_look_up_reads_the_newest_record_by_its_number(self):
        text = LOOK_UP
        assert "(event, attempt, " in text
        assert "sequence) IN (SELECT period, target_uuid, arrayJoin([maxIf(sequence, event IN (" in text

    def test_records_of_loads_are_not_records_of_nodes(self):
        assert "event IN ('intent', 'published', 'forgotten')" in LOOK_UP

    @pytest.mark.parametrize("value", ["d'b", "t; DROP TABLE y --", "uu'id", "2026-10"])
    def test_records_are_found_by_table_uuid_and_period(self, value):
        assert f"= {literal(value)}" in HOSTILE.condition

    def test_every_column_is_one_of_the_ledgers(self):
        known = set(re.findall(r"`(\w+)` ", create_ledger(LEDGER).text))
        named = re.search(r"period, \(([^()]*)\), partitions", with_names(LOOK_UP))
        assert set(re.split(r",\s*", named[1])) <= {*known, "age_seconds"}


class TestRecords:
    @staticmethod
    def added(event: str, *values: Values, facts: NodeFacts = FACTS, keys: Sequence[LedgerKey] = (HOSTILE,)) -> str:
        around = replace(surroundings(facts), ledger=LEDGER)
        keys = [replace(HOSTILE, partition_id=f"{number}") for number in range(len(values))] if values[1:] else keys
        records = [(ONE, key, each) for key, each in zip(keys, values, strict=True)]
        return add_records(around, event, records, name="Record").sql[ONE].text

    @pytest.mark.parametrize("event", ["intent", "load"])
    def test_a_record_is_numbered_after_those_of_its_period_on_that_node(self, event):
        """Claims and loads have their numbers in common, where a node has both."""
        numbers = [
            f"SELECT period, sequence FROM `st\\`aging`.`chs3_{name}` WHERE {HOSTILE.table_condition}"
            for name in ("ledger", "loads")
        ]
        known = self.added(event, {}, facts=replace(FACTS, ledger=RecordTable(), loads=RecordTable()))
        assert [number in known for number in numbers] == [True, True]
        one = self.added(event, {}, facts=FACTS)
        assert [number in one for number in numbers] == [event == "intent", event == "load"]

    def test_values_go_in_under_their_names(self):
        text = self.added("published", {"rows": 7, "attempt": "a'b"})
        names = re.search(r"chs3_ledger` \((.*?)\) WITH", text)[1].replace("`", "").split(", ")
        assert names[:2] + names[-3:] == ["sequence", "event", "rows", "attempt", "partitions"]
        assert r", toInt64(7), 'a\'b', CAST([" in text

    @pytest.mark.parametrize(
        ("value", "sql"),
        [
            (True, "toInt64(1)"),
            (1.5, "toFloat64(1.5)"),
            (None, "CAST(NULL AS Nullable(Int64))"),
            ({"a'": 2, "b": 0.5}, r"CAST((['a\'', 'b'], [toFloat64(2), toFloat64(0.5)]) AS Map(String, Float64))"),
            (("x", "y'"), r"CAST(['x', 'y\''] AS Array(String))"),
            ((), "CAST([] AS Array(String))"),
        ],
    )
    def test_values_have_one_type(self, value, sql):
        assert f", {sql} FROM (SELECT arrayJoin(" in self.added("load", {"v": value})

    def test_a_claim_names_all_partitions_of_its_period(self):
        assert "CAST(['0', '1'] AS Array(String))" in self.added("published", {}, {})


#: Why, since when and for how long: of records that hold nothing.
NOT_HELD = ("", "", 0.0)


class TestAnswer:
    PERIOD = Period.of_month(2026, 10)
    PARTITIONS = (("202610", (10, 3, 1, 5, 7, 7, [])),)

    def found(
        self, *records: tuple[Record, bool], known: bool = True, partitions: Sequence[object] = PARTITIONS
    ) -> PeriodOnNode:
        """Return an answer with these records, each with whether all partitions of its period have one."""
        names = Record.__dataclass_fields__
        rows = [
            ("2026-10", tuple(getattr(each, name) for name in names), [""] if is_whole else ["", "another"], *NOT_HELD)
            for each, is_whole in records
        ]
        row = ([(rows, [], ["2026-10"] * known)], partitions, [], bool(partitions), "u", [])
        (period,) = periods_on_node(row, {self.PERIOD: PeriodPartitions("202610")}).values()
        return period

    def test_with_a_record(self):
        expected = replace(LOADED, has_history=True, has_rows=True, table_uuid="u")
        assert self.found((RECORD, True)) == expected

    def test_without_one(self):
        assert self.found(known=False, partitions=()) == replace(EMPTY, table_uuid="u")

    def test_a_period_that_was_forgotten_has_none(self):
        expected = replace(UNKNOWN, has_history=True, has_rows=True, table_uuid="u")
        assert self.found((replace(RECORD, event="forgotten"), True)) == expected

    @pytest.mark.parametrize("event", ["published", "intent"])
    def test_of_a_period_that_lacks_the_record_of_a_partition_nobody_knows(self, event):
        assert self.found((replace(RECORD, event=event), False)).record == replace(RECORD, event="intent")

    def test_structures_are_sent_once(self):
        fields = [getattr(RECORD, name) for name in Record.__dataclass_fields__]
        rows = [(period, (*fields[:-1], "digest"), [""], *NOT_HELD) for period in ("2026-10", "2026-11")]
        owns = {self.PERIOD: PeriodPartitions("202610"), Period.of_month(2026, 11): PeriodPartitions("202611")}
        found = periods_on_node(([(rows, [("digest", "{}")], [])], [], [], False, "", []), owns)
        assert [each.record.structure for each in found.values() if each.record] == ["{}", "{}"]

    def test_the_record_is_asked_for_in_its_fields_order(self):
        asked = re.search(r"period, \(([^()]*)\), partitions", with_names(LOOK_UP))[1]
        assert re.split(r",\s*", asked) == list(Record.__dataclass_fields__)
