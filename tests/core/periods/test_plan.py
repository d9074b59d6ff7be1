"""Which periods are to be loaded: manifests in one pass, and what the ledgers say of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from airflow_provider_chs3.core.files.key_template import KeyTemplate
from airflow_provider_chs3.core.ledger.partition_state import PartitionState, mutations_of
from airflow_provider_chs3.core.ledger.queries import look_up_periods
from airflow_provider_chs3.core.ledger.records import PeriodOnNode, Record
from airflow_provider_chs3.core.model.models import Manifest, PeriodObjects, TableName, Unit
from airflow_provider_chs3.core.model.period import Grain, Period
from airflow_provider_chs3.core.periods.plan import PlannedPeriod, group_periods
from airflow_provider_chs3.core.steps.driving import drive as carry_out
from airflow_provider_chs3.core.steps.operations import ListObjects, Query, QueryNodes
from airflow_provider_chs3.core.target.node_facts import RecordTable
from airflow_provider_chs3.core.target.period_partitions import PeriodPartitions
from airflow_provider_chs3.exceptions import SourceError
from airflow_provider_chs3.sources.s3.reading import Credentials, S3Source
from tests.core.surroundings import FACTS, ONE, THREE, TWO, surroundings
from tests.support.driving import drive, listed

SEPTEMBER, OCTOBER = Period.of_month(2026, 9), Period.of_month(2026, 10)
GIB = 1024**3
FIRST = Period(datetime(2022, 10, 1), Grain.DAY)


def source(key: str = "trips/{YYYY-MM}/*.parquet") -> S3Source:
    return S3Source(bucket="taxi", template=KeyTemplate(key), endpoint_url="http://s3", credentials=Credentials())


def written(*keys: str, size_bytes: int = 10) -> list[Unit]:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    return [Unit(f"taxi/{key}", size_bytes, f"etag of {key}", at) for key in keys]


def objects_of(*objects: Unit) -> PeriodObjects:
    manifest = Manifest.of(objects)
    return PeriodObjects(len(objects), manifest.size_bytes, manifest.fingerprint)


class TestListing:
    def test_a_period_has_the_fingerprint_of_its_manifest(self):
        found = written("trips/2026-10/a.parquet", "trips/2026-10/b.parquet")
        assert drive(source().summarize_periods([OCTOBER]), listed(found)).result == {OCTOBER: objects_of(*found)}

    def test_periods_with_prefixes_of_their_own_are_listed_by_them(self):
        driven = drive(source().summarize_periods([SEPTEMBER, OCTOBER]), listed([]), listed([]))
        assert [step.prefix for step in driven.steps] == ["trips/2026-09/", "trips/2026-10/"]

    def test_periods_that_share_a_prefix_are_listed_in_one_pass(self):
        september, october = written("a/2026-09.csv"), written("a/2026-10.csv", "b/2026-10.csv")
        found = [september[0], *october]
        driven = drive(source("*/{YYYY-MM}.csv").summarize_periods([SEPTEMBER, OCTOBER]), listed(found))
        assert driven.result == {SEPTEMBER: objects_of(*september), OCTOBER: objects_of(*october)}

    def test_a_prefix_that_another_periods_keys_begin_with_takes_none_of_them(self):
        january, october = written("t20261.csv"), written("t202610.csv")
        driven = drive(
            source("t{YYYY}{M}.csv").summarize_periods([Period.of_month(2026, 1), OCTOBER]),
            listed([*january, *october]),
            listed(october),
        )
        assert driven.result == {Period.of_month(2026, 1): objects_of(*january), OCTOBER: objects_of(*october)}

    def test_all_periods_of_a_bucket_are_found_in_one_pass(self):
        september, october = written("trips/2026-09/a.parquet"), written("trips/2026-10/a.parquet")
        driven = drive(source().summarize_periods(Grain.MONTH), listed([*september, *october]))
        assert driven.result == {SEPTEMBER: objects_of(*september), OCTOBER: objects_of(*october)}
        assert [step.prefix for step in driven.steps if isinstance(step, ListObjects)] == ["trips/"]

    def test_all_periods_may_be_cut_by_what_periods_are_called_and_given_ones_are(self):
        step, *_ = drive(source().summarize_periods(Grain.MONTH), listed(written("trips/2026-10/a.parquet"))).steps
        assert "trips/202" in step.narrower("trips/")
        assert drive(source().summarize_periods([OCTOBER]), listed([])).steps[0].narrower is None

    def test_a_few_prefixes_are_listed_at_the_same_time(self):
        periods, sizes = [OCTOBER.shifted(-number) for number in range(4)], []

        def perform(step):
            sizes.append(len(step.workflows))
            return [drive(workflow, listed(written("trips/2026-10/a.parquet"))).result for workflow in step.workflows]

        found = carry_out(source().summarize_periods(periods), perform)
        assert sizes == [4]
        assert [period for period in periods if found[period].count] == [OCTOBER]

    def test_many_prefixes_are_listed_as_what_they_have_in_common_and_cut_into_theirs(self):
        periods = [OCTOBER.shifted(-number) for number in range(20)]
        found = written("trips/2026-10/a.parquet", "trips/2020-01/a.parquet")
        driven = drive(source().summarize_periods(periods), listed(found))
        (step,) = driven.steps
        assert step.prefix == "trips/202"
        assert step.narrower("trips/2025-0") == tuple(f"trips/2025-0{number}/" for number in range(3, 10))
        assert {period for period, each in driven.result.items() if each.count} == {OCTOBER}

    def test_many_prefixes_are_listed_one_by_one_where_clickhouse_lists(self):
        periods = [OCTOBER.shifted(-number) for number in range(6)]
        collection = replace(source(), credentials=Credentials(named_collection="trips"))
        driven = drive(collection.summarize_periods(periods), *[[] for _ in periods])
        assert [type(step) for step in driven.steps] == [Query] * 6

    def test_what_is_no_data_does_not_count(self):
        markers = written("trips/2026-10/_x.parquet", "trips/2026-13/a.parquet", "trips/x", "trips/2026-10/a.csv")
        empty = written("trips/2026-10/b.parquet", size_bytes=0)
        found = written("trips/2026-10/a.parquet")
        driven = drive(source().summarize_periods(Grain.MONTH), listed([*markers, *empty, *found]))
        assert driven.result == {OCTOBER: objects_of(*found)}

    def test_a_period_that_does_not_come_in_order_is_listed_once_more(self):
        found = written("trips/2026-10/b.parquet", "trips/2026-10/a.parquet")
        driven = drive(source().summarize_periods([OCTOBER]), listed(found), listed(found))
        assert driven.result == {OCTOBER: objects_of(*found)}

    def test_a_period_without_objects_has_the_fingerprint_of_an_empty_manifest(self):
        assert drive(source().summarize_periods([OCTOBER]), listed([])).result == {OCTOBER: objects_of()}

    def test_a_bucket_without_any_period_is_told(self):
        with pytest.raises(SourceError, match=r"No object of any period under taxi/trips/\{YYYY-MM\}"):
            drive(source().summarize_periods(Grain.MONTH), listed(written("other/a.parquet")))


RECORD = Record("published", "nonce", "f", "d", 100, 3, 10, 5, 7, structure="{}")
STRUCTURES = [("hash", "{}")]
FIELDS = tuple(getattr(replace(RECORD, structure="hash"), name) for name in RECORD.__slots__)
PARTS = [(5, 7, 1, 5, 10, "hash", "", 0)]
MUTATION = (8, "", "(DELETE WHERE 1)", 1, [])
STATE = PartitionState.of("202610", (10, 1, 99, 5, 7, 7, PARTS), mutations_of([MUTATION]))
STATE_FIELDS = (10, 1, 99, 5, 7, 7, PARTS)
RECORDED = ("2026-10", FIELDS, [""], "", "", 0.0)
PARTS_OF_OCTOBER = [("202610", STATE_FIELDS)]
KNOWING = replace(FACTS, ledger=RecordTable())


class TestLookUp:
    def test_each_node_is_asked_once_for_all_periods(self):
        context = surroundings(KNOWING, FACTS, KNOWING)
        answer = {
            ONE: [([([RECORDED], STRUCTURES, ["2026-10"])], PARTS_OF_OCTOBER, [MUTATION], 1, "u", [])],
            TWO: [([], PARTS_OF_OCTOBER, [MUTATION], 1, "u", [])],
            THREE: [([], [], [], 0, "u", [])],
        }
        driven = drive(
            look_up_periods(context, {SEPTEMBER: PeriodPartitions("202609"), OCTOBER: PeriodPartitions("202610")}),
            answer,
        )
        (step,) = driven.steps
        assert isinstance(step, QueryNodes)
        assert ["chs3_ledger" in sql.text for sql in step.sql.values()] == [True, False, True]
        there, gone = {"has_rows": True, "table_uuid": "u"}, {"has_rows": False, "table_uuid": "u"}
        assert driven.result[OCTOBER] == {
            ONE: PeriodOnNode(RECORD, STATE, has_history=True, **there),
            TWO: PeriodOnNode(None, STATE, **there),
            THREE: PeriodOnNode(None, PartitionState(partition_id="202610"), **gone),
        }
        nothing = PartitionState(partition_id="202609")
        assert driven.result[SEPTEMBER] == {
            **{node: PeriodOnNode(None, replace(nothing, mutations=STATE.mutations), **there) for node in (ONE, TWO)},
            THREE: PeriodOnNode(None, nothing, **gone),
        }

    def test_for_no_periods_nobody_is_asked(self):
        driven = drive(look_up_periods(surroundings(KNOWING), {}))
        assert (driven.result, driven.steps) == ({}, [])


def test_a_planned_period_says_what_why_and_how_much():
    planned = PlannedPeriod(
        OCTOBER, PeriodObjects(2, 12_345, "f"), "never loaded", is_to_load=True, target=TableName("db", "trips")
    )
    assert str(planned) == "2026-10 to load: never loaded (2 objects, 12.1 KiB)"


def sizes(days: int, size_bytes: int, *, most_periods: int = 60, most_groups: int = 1_024) -> list[int]:
    """Group days of a size, none of which is lost or moved, and return the number of days in each group."""
    planned = [
        PlannedPeriod(
            FIRST.shifted(day), PeriodObjects(1, size_bytes, ""), "new", is_to_load=True, target=TableName("d", "t")
        )
        for day in range(days)
    ]
    groups = group_periods(planned, most_periods=most_periods, most_groups=most_groups)
    assert [each for group in groups for each in group] == [each.period for each in planned]
    return [len(group) for group in groups]


def test_small_days_share_tasks() -> None:
    assert sizes(1_500, 1_000) == [60] * 25


def test_large_days_have_tasks_of_their_own() -> None:
    assert sizes(100, 2 * GIB) == [1] * 100


@pytest.mark.parametrize("size_bytes", [GIB, 2 * GIB, 100 * GIB])
def test_more_large_days_than_tasks_share_them(size_bytes: int) -> None:
    assert sizes(1_500, size_bytes) == [2] * 750


def test_of_some_days_in_a_task_there_may_be_more_tasks() -> None:
    assert sizes(10, GIB, most_periods=2, most_groups=3) == [2] * 5
    assert sizes(0, GIB) == []
