"""Obstacles to a load: each finding names the node, the fact and the way out."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Period
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.period_partitions import period_of_partition
from airflow_provider_chs3.core.target.table_facts import Column
from airflow_provider_chs3.core.target.target_checks import check_target, zone_findings
from airflow_provider_chs3.core.target.topology import ONLY_NODE
from airflow_provider_chs3.exceptions import PreflightError
from tests.core.surroundings import FACTS, ONE, TARGET, THREE, TWO, WITHOUT_TABLE, surroundings, with_target

ID, AT = TARGET.columns


def findings(context: Target, *required: str) -> tuple[str, ...]:
    with pytest.raises(PreflightError) as raised:
        check_target(context, required_settings=required)
    return raised.value.findings


def test_nothing_is_in_the_way_of_a_good_target():
    check_target(surroundings(), required_settings=["insert_deduplicate"])


def test_all_findings_are_told_at_once():
    context = surroundings(with_target(engine="Log"), replace(FACTS, known_settings={}), FACTS)
    assert len(findings(context, "insert_deduplicate")) == 2


class TestMissing:
    def test_a_table_on_some_nodes_only(self):
        assert findings(surroundings(FACTS, WITHOUT_TABLE, FACTS)) == (
            "Table db.trips exists on ch-1:9000, ch-3:9000 but not on ch-2:9000: create it on every node of 'c'.",
        )

    def test_a_table_nowhere(self):
        assert findings(surroundings(*[WITHOUT_TABLE] * 3)) == (
            "Table db.trips does not exist on ch-1:9000, ch-2:9000, ch-3:9000: create it (chs3 ddl writes its "
            "statement, and create_table='if_missing' lets a load create it), or check the name.",
        )

    def test_a_table_on_the_only_server(self):
        context = surroundings(WITHOUT_TABLE, nodes=(ONLY_NODE,), cluster=None)
        (finding,) = findings(context)
        assert finding.startswith("Table db.trips does not exist on the server: create it (chs3 ddl ")

    def test_its_database(self):
        context = surroundings(FACTS, replace(WITHOUT_TABLE, databases={}), FACTS)
        assert findings(context) == ("Database 'db' does not exist on ch-2:9000: create it, or check the name.",)

    def test_the_staging_database(self):
        with_staging = replace(FACTS, databases=dict.fromkeys(("db", "st")))
        context = surroundings(with_staging, FACTS, with_staging, staging="st")
        assert findings(context) == ("staging_database='st' does not exist on ch-2:9000: create it there.",)


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
            ({"columns": (AT, ID)}, "its columns are in another order"),
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
        (finding,) = findings(surroundings(replace(unproven, is_rehearsed=True), unproven))
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
        assert found[0].endswith("Name a cluster with one replica per shard.")


class TestSettings:
    def test_a_node_that_does_not_know_a_needed_one_is_too_old(self):
        old = replace(FACTS, known_settings={"insert_deduplicate": None})
        assert findings(surroundings(FACTS, old, FACTS), "insert_deduplicate", "optimize_on_insert", "b") == (
            "Node ch-1:9000 does not know b, which a load depends on: upgrade it.",
            "Node ch-2:9000 does not know b, optimize_on_insert, which a load depends on: upgrade it.",
            "Node ch-3:9000 does not know b, which a load depends on: upgrade it.",
        )


def test_nodes_are_named_in_order_of_shards():
    assert tuple(surroundings().nodes) == (ONE, TWO, THREE)


@pytest.mark.parametrize(
    ("partition_id", "key", "period"),
    [
        ("202610", "toYYYYMM(at)", Period.of_month(2026, 10)),
        ("20261001", "at", None),
        ("202610", "intDiv(number, 10)", None),
        ("20261001", "toYYYYMMDD(at)", Period.parse("2026-10-01")),
        ("20261005", "toDate(at, 'Asia/Kolkata')", Period.parse("2026-10-05")),
        ("20261005", "toMonday(at)", Period.parse("2026-W41")),
        ("20261004", "toStartOfWeek(at)", None),
        ("20261001", "toStartOfQuarter(at)", Period.parse("2026-Q4")),
        ("2026", "toYear(at)", Period.parse("2026")),
        ("20260101", "toStartOfYear(at)", Period.parse("2026")),
        ("20742", "toStartOfMonth(day)", None),
        ("20261001", "toStartOfMonth(at)", Period.of_month(2026, 10)),
        ("202601", "toStartOfMonth(at)", None),
        ("202613", "toYYYYMM(at)", None),
        ("1793487600", "toStartOfHour(at)", Period.parse("2026-10-31T23Z")),
        ("1793489400", "toStartOfHour(at)", None),
        ("99999999999999", "toStartOfHour(at)", None),
        ("0123abc", "formatDateTime(at, '%Y-%m')", None),
        ("202610-42", "toYYYYMM(at), number", None),
        ("all", "", WHOLE_TABLE),
    ],
)
def test_an_id_is_a_period_if_the_key_says_so(partition_id, key, period):
    assert period_of_partition(partition_id, key=key) == period


ZONED = with_target(columns=(Column("at", "DateTime('UTC')", in_partition_key=True),), sorting_key="at")


def in_zones(*zones: str, facts=ZONED):
    return surroundings(*(replace(facts, time_zone=zone) for zone in zones))


def test_nodes_of_one_zone_pass():
    check_target(in_zones("Asia/Tokyo", "Asia/Tokyo"), settings={})
    check_target(in_zones("Asia/Tokyo", "Asia/Tokyo", facts=with_target()), settings={"session_timezone": "UTC"})


def test_others_are_named_with_the_setting():
    with pytest.raises(PreflightError) as error:
        check_target(in_zones("UTC", "Asia/Tokyo", "UTC"), settings={})
    (finding,) = error.value.findings
    assert f"(Asia/Tokyo on {TWO}; UTC on {ONE}, " in finding
    assert "settings={'session_timezone': " in finding


def test_they_pass_where_it_is_given():
    check_target(in_zones("UTC", "Asia/Tokyo"), settings={"session_timezone": "Europe/Berlin"})


def test_but_not_where_a_key_goes_by_each():
    (finding,) = zone_findings(in_zones("UTC", "Asia/Tokyo", facts=with_target()), {"session_timezone": "UTC"})
    assert "computes its partition key 'toYYYYMM(at)' in the zone of each node" in finding


def test_an_empty_zone_is_none():
    assert len(list(zone_findings(in_zones("UTC", "UTC"), {"session_timezone": ""}))) == 1


@pytest.mark.parametrize(("given", "zone"), [({}, "Asia/Tokyo"), ({"session_timezone": "Etc/UTC"}, "UTC")])
def test_the_zone_of_a_load(given, zone):
    assert in_zones("Asia/Tokyo", "Asia/Tokyo").zone_of(given) == zone
