"""What is in the way of a load: each finding names the node, the fact and the way out."""

from __future__ import annotations

import calendar
import re
from dataclasses import replace

import pytest

from airflow_provider_chs3.core.models import Month, Node
from airflow_provider_chs3.core.place import ONLY_NODE
from airflow_provider_chs3.core.preflight import check_target, partition_id_of
from airflow_provider_chs3.core.steps import AskNodes
from airflow_provider_chs3.core.target import Surroundings
from airflow_provider_chs3.core.target_facts import Column
from airflow_provider_chs3.exceptions import PreflightError
from tests.core.driving import drive
from tests.core.surroundings import FACTS, ONE, TARGET, THREE, TWO, WITHOUT_TABLE, surroundings, with_target

ID, AT = TARGET.columns


def findings(around: Surroundings, *required: str) -> tuple[str, ...]:
    with pytest.raises(PreflightError) as raised:
        check_target(around, required_settings=required)
    return raised.value.findings


def test_nothing_is_in_the_way_of_a_good_target():
    check_target(surroundings(), required_settings=["insert_deduplicate"])


def test_all_findings_are_told_at_once():
    around = surroundings(with_target(engine="Log"), replace(FACTS, known_settings={}), FACTS)
    assert len(findings(around, "insert_deduplicate")) == 2


class TestMissing:
    def test_a_table_on_some_nodes_only(self):
        assert findings(surroundings(FACTS, WITHOUT_TABLE, FACTS)) == (
            "Table db.trips exists on ch-1:9000, ch-3:9000 but not on ch-2:9000: create it on every node of 'c'.",
        )

    def test_a_table_nowhere(self):
        assert findings(surroundings(*[WITHOUT_TABLE] * 3)) == (
            "Table db.trips does not exist on ch-1:9000, ch-2:9000, ch-3:9000: create it, or check the name.",
        )

    def test_a_table_on_the_only_server(self):
        around = surroundings(WITHOUT_TABLE, nodes=(ONLY_NODE,), cluster=None)
        assert findings(around) == ("Table db.trips does not exist on the server: create it, or check the name.",)

    def test_its_database(self):
        around = surroundings(FACTS, replace(WITHOUT_TABLE, databases=frozenset()), FACTS)
        assert findings(around) == ("Database 'db' does not exist on ch-2:9000: create it, or check the name.",)

    def test_the_staging_database(self):
        with_staging = replace(FACTS, databases=frozenset({"db", "st"}))
        around = surroundings(with_staging, FACTS, with_staging, staging="st")
        assert findings(around) == ("staging_database='st' does not exist on ch-2:9000: create it there.",)


class TestDifferences:
    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"partition_key": "at"}, "its partition key is 'at' there and 'toYYYYMM(at)' elsewhere"),
            ({"partition_key": ""}, "its partition key is 'none' there and 'toYYYYMM(at)' elsewhere"),
            ({"sorting_key": "id"}, "its sorting key is 'id' there and 'id, at' elsewhere"),
            ({"primary_key": "id"}, "its primary key is 'id' there"),
            ({"sampling_key": "id"}, "its sampling key is 'id' there and 'none' elsewhere"),
            ({"columns": (ID,)}, "its columns are missing there and at DateTime elsewhere"),
            ({"columns": (ID, AT, Column("x", "String"))}, "its columns are x String there and missing elsewhere"),
            ({"columns": (ID, replace(AT, type="Date"))}, "its columns are at Date there and at DateTime elsewhere"),
            (
                {"columns": (replace(ID, default_kind="DEFAULT", default_expression="5"), AT)},
                "its columns are id UInt64 DEFAULT 5 there and id UInt64 elsewhere",
            ),
            ({"columns": (AT, ID)}, "its columns stand in another order"),
            ({"indices": (("ix", "minmax", "id", 1),)}, "its indices are ('ix', 'minmax', 'id', 1) there and missing"),
            (
                {"projections": (("p", "Normal", "SELECT id"),)},
                "its projections are ('p', 'Normal', 'SELECT id') there",
            ),
        ],
    )
    def test_are_told_with_the_node_and_both_sides(self, change, told):
        (finding,) = findings(surroundings(FACTS, FACTS, with_target(**change)))
        assert finding.startswith(f"Table db.trips differs on ch-3:9000: {told}")
        assert finding.endswith("Make its structure the same on every node.")

    @pytest.mark.parametrize(
        "change",
        [
            {"uuid": "another"},
            {"engine": "ReplacingMergeTree"},
            {"engine_full": "MergeTree ORDER BY id TTL at + toIntervalDay(1)"},
        ],
    )
    def test_in_other_respects_are_fine(self, change):
        check_target(surroundings(FACTS, with_target(**change), FACTS), required_settings=[])

    def test_are_not_looked_for_where_the_table_is_missing(self):
        assert len(findings(surroundings(WITHOUT_TABLE, FACTS, WITHOUT_TABLE))) == 1


class TestEngine:
    @pytest.mark.parametrize(
        "engine", ["MergeTree", "ReplacingMergeTree", "AggregatingMergeTree", "CollapsingMergeTree"]
    )
    def test_of_the_merge_tree_family_is_fine(self, engine):
        check_target(surroundings(*[with_target(engine=engine)] * 3), required_settings=[])

    @pytest.mark.parametrize("engine", ["Log", "Memory", "View", "Distributed", "Buffer", "MaterializedView"])
    def test_without_partitions_is_refused(self, engine):
        (finding,) = findings(surroundings(FACTS, with_target(engine=engine), FACTS))
        assert finding == (f"Table db.trips on ch-2:9000 has engine {engine}: only MergeTree tables have partitions.")

    def test_that_nobody_has_tested_wants_a_rehearsal(self):
        unproven = replace(with_target(engine="SharedReplacingMergeTree"), is_rehearsed=False)
        (finding,) = findings(surroundings(FACTS, unproven, FACTS))
        assert "on ch-2:9000 is a SharedReplacingMergeTree" in finding

    def test_that_replicates_must_do_so_on_all_nodes(self):
        (finding,) = findings(surroundings(FACTS, with_target(engine="ReplicatedMergeTree"), FACTS))
        assert finding.startswith("Table db.trips is replicated on ch-2:9000, but not on the other nodes")

    def test_that_replicates_may_have_several_replicas_a_shard(self):
        replicated = with_target(engine="ReplicatedReplacingMergeTree")
        nodes = (ONE, Node(1, 2, "ch-1b", 9000), TWO)
        check_target(surroundings(replicated, replicated, replicated, nodes=nodes), required_settings=())

    def test_plain_on_two_replicas_of_a_shard_is_refused(self):
        nodes = (ONE, Node(1, 2, "ch-1b", 9000), TWO)
        found = findings(surroundings(FACTS, FACTS, FACTS, nodes=nodes))
        assert [re.search(r"on (ch-\w+:9000) is", finding)[1] for finding in found] == ["ch-1:9000", "ch-1b:9000"]
        assert found[0].startswith("Shard 1 of cluster 'c' has 2 replicas")
        assert found[0].endswith("Name a cluster with one replica a shard.")


class TestSettings:
    def test_a_node_that_does_not_know_a_needed_one_is_too_old(self):
        old = replace(FACTS, known_settings={"insert_deduplicate": None})
        assert findings(surroundings(FACTS, old, FACTS), "insert_deduplicate", "optimize_on_insert", "b") == (
            "Node ch-1:9000 does not know b, which a load depends on: upgrade it.",
            "Node ch-2:9000 does not know b, optimize_on_insert, which a load depends on: upgrade it.",
            "Node ch-3:9000 does not know b, which a load depends on: upgrade it.",
        )


def around_key(partition_key: str = "toYYYYMM(at)", *columns: Column) -> Surroundings:
    return surroundings(*[with_target(partition_key=partition_key, columns=columns or (ID, AT))] * 3)


def instants(step: AskNodes) -> list[str]:
    (listed,) = re.findall(r"'(\d[^']*)'", step.sql[ONE].text)
    return listed.split(",")


def monthly(step: AskNodes) -> dict[Node, list[tuple[str, str]]]:
    """What a server answers where the partition key is monthly."""
    return {ONE: [(instant, instant[:7]) for instant in instants(step)]}


OCTOBER = Month(2026, 10)


def by(function, *, month: Month = OCTOBER, around: Surroundings | None = None) -> str:
    """Drive the question, with a partition key that does `function` to an instant."""
    around = around or around_key()
    (column,) = (column for column in around.shape.columns if column.in_partition_key)
    types = [{ONE: [("UInt32",)]}] if column.type.startswith("Nullable(") else []
    return drive(
        partition_id_of(around, month),
        *types,
        lambda step: {ONE: [(instant, function(instant)) for instant in instants(step)]},
    ).result


class TestPartitionOfAMonth:
    def test_is_what_the_server_says(self):
        assert by(lambda instant: instant[:7].replace("-", "")) == "202610"

    def test_is_asked_of_one_node(self):
        (step,) = drive(partition_id_of(around_key(), Month(2026, 10)), monthly).steps
        assert list(step.sql) == [ONE]

    @pytest.mark.parametrize("column", ["Date", "Date32", "Nullable(Date)"])
    @pytest.mark.parametrize("number", range(1, 13))
    def test_every_day_and_the_months_of_ten_years_each_way_are_asked(self, number, column):
        month = Month(2026, number)
        around = around_key("toYYYYMM(at)", ID, Column("at", column, in_partition_key=True))
        asked = []
        by(lambda instant: asked.append(instant) or instant[:7], month=month, around=around)
        last_day = calendar.monthrange(2026, number)[1]
        assert asked[:last_day] == [f"{month}-{day:02d}" for day in range(1, last_day + 1)]
        others = {instant[:7] for instant in asked[last_day:]}
        assert others == {str(month.shifted(by)) for by in range(-120, 121) if by}

    def test_the_first_and_last_second_of_a_datetime_month_are_asked(self):
        asked = []
        by(lambda instant: asked.append(instant) or instant[:7])
        assert {"2026-10-01 00:00:00", "2026-10-31 23:59:59"} <= set(asked)

    @pytest.mark.parametrize("month", [Month(1971, 1), Month(2104, 12)])
    def test_the_first_and_the_last_month_can_be_asked_for(self, month):
        assert by(lambda instant: instant[:7], month=month) == str(month)

    def test_the_parts_of_a_tuple_are_asked_for_as_the_table_does(self):
        driven = drive(partition_id_of(around_key("(toYear(at), toMonth(at))"), Month(2026, 10)), monthly)
        assert "partitionId(toYear(at), toMonth(at))" in driven.steps[0].sql[ONE].text

    def test_parentheses_that_are_no_tuple_stay(self):
        driven = drive(partition_id_of(around_key("(toYear(at) * 100) + (toMonth(at))"), Month(2026, 10)), monthly)
        assert "partitionId((toYear(at) * 100) + (toMonth(at)))" in driven.steps[0].sql[ONE].text

    def test_is_asked_in_the_time_zone_of_the_column(self):
        around = around_key("toYYYYMM(at)", Column("at", "DateTime64(3, 'Asia/Tokyo')", in_partition_key=True))
        driven = drive(partition_id_of(around, Month(2026, 10)), monthly)
        assert "CAST(chs3_instant AS DateTime64(3, 'Asia/Tokyo')) AS `at`" in driven.steps[0].sql[ONE].text

    def test_is_asked_in_the_time_zone_that_the_key_names(self):
        around = around_key("toYYYYMM(at, 'Asia/Tokyo')")
        driven = drive(partition_id_of(around, OCTOBER), {ONE: [("Asia/Tokyo",)]}, monthly)
        assert [step.name for step in driven.steps] == [
            "Ask for the time zones of the partition key",
            "Ask for the partition of 2026-10",
        ]
        text = driven.steps[1].sql[ONE].text
        assert "CAST(toDateTime64(chs3_instant, 0, 'Asia/Tokyo') AS DateTime) AS `at`" in text

    def test_is_asked_in_that_of_the_column_where_the_key_is_not_monthly_in_its_own(self):
        def daily(step):
            return {ONE: [(instant, instant[:10]) for instant in instants(step)]}

        around = around_key("toYYYYMM(at + (toTimeZone(at, 'Asia/Tokyo') > 0))")
        driven = drive(partition_id_of(around, OCTOBER), {ONE: [("Asia/Tokyo",)]}, daily, monthly)
        assert "CAST(chs3_instant AS DateTime) AS `at`" in driven.steps[2].sql[ONE].text

    def test_a_text_in_the_key_that_is_no_time_zone_is_none(self):
        driven = drive(partition_id_of(around_key("dateTrunc('month', at)"), OCTOBER), {ONE: []}, monthly)
        assert "toDateTime64" not in driven.steps[1].sql[ONE].text

    @pytest.mark.parametrize("of", ["Nullable(Date)", "LowCardinality(Date)", "LowCardinality(Nullable(Date))"])
    def test_a_wrapped_date_is_the_number_of_its_day(self, of):
        around = around_key("(toYear(at), toStartOfMonth(at))", Column("at", of, in_partition_key=True))
        driven = drive(partition_id_of(around, OCTOBER), {ONE: [("Nullable(UInt16)", of)]}, monthly)
        assert "partitionId(toYear(at), toUInt16(toStartOfMonth(at)))" in driven.steps[1].sql[ONE].text

    @pytest.mark.parametrize(
        ("function", "why"),
        [
            (lambda instant: instant[:10], "2026-10 falls into 31 partitions"),
            (lambda instant: instant, "2026-10 falls into 62 partitions"),
            (lambda instant: instant[8] < "2", "2026-10 falls into 2 partitions"),
            (lambda instant: instant[:4], "2026-10 shares a partition with other months"),
            (lambda instant: "all", "2026-10 shares a partition with other months"),
            (lambda instant: instant[5:7] > "09", "2026-10 shares a partition with other months"),
            (lambda instant: instant[5:7] > "10", "2026-10 shares a partition with other months"),
            (lambda instant: instant[5:7], "2026-10 shares a partition with other months"),
        ],
        ids=["day", "second", "weeks", "year", "constant", "with the next", "with the one before", "of every year"],
    )
    def test_a_key_that_is_not_monthly_is_refused(self, function, why):
        with pytest.raises(PreflightError, match=why):
            by(function)

    @pytest.mark.parametrize(
        ("partition_key", "columns"),
        [
            ("", (ID, replace(AT, in_partition_key=False))),
            ("id % 10", (replace(ID, in_partition_key=True), replace(AT, in_partition_key=False))),
            ("toYYYYMM(at), id", (replace(ID, in_partition_key=True), AT)),
            ("month", (Column("month", "String", in_partition_key=True), Column("at", "Date"))),
        ],
    )
    def test_a_key_of_other_columns_is_refused_and_nothing_is_asked(self, partition_key, columns):
        with pytest.raises(PreflightError, match="it must depend on one Date or DateTime column and nothing else"):
            drive(partition_id_of(around_key(partition_key, *columns), Month(2026, 10)))

    def test_the_refusal_shows_the_key_and_what_to_use(self):
        with pytest.raises(PreflightError, match=r"its key is 'toYear\(at\)'; .* PARTITION BY toYYYYMM\(`at`\)"):
            by(lambda instant: instant[:4], around=around_key("toYear(at)"))

    def test_the_refusal_of_a_table_without_dates_says_so(self):
        around = around_key("id", replace(ID, in_partition_key=True))
        with pytest.raises(PreflightError, match="with a Date or DateTime column and PARTITION BY toYYYYMM of it"):
            drive(partition_id_of(around, Month(2026, 10)))

    def test_a_hostile_column_name_is_quoted(self):
        around = around_key("toYYYYMM(`a\\`t`)", Column("a`t", "DateTime", in_partition_key=True))
        driven = drive(partition_id_of(around, Month(2026, 10)), monthly)
        assert "AS `a\\`t`" in driven.steps[0].sql[ONE].text


def test_nodes_are_named_in_order_of_shards():
    assert tuple(surroundings().nodes) == (ONE, TWO, THREE)
