"""Room on disk, the target's parts, and what hangs on it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from airflow_provider_chs3.core.load.load_request import Policies
from airflow_provider_chs3.core.load.warnings import warn_of_risks
from airflow_provider_chs3.core.model.merge_tree_limits import Limits
from airflow_provider_chs3.core.model.models import Manifest, Unit
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.steps.operations import Log
from airflow_provider_chs3.core.target.node_capacity import Disk, NodeNow, OtherParts
from airflow_provider_chs3.core.target.period_partitions import PeriodPartitions
from airflow_provider_chs3.exceptions import PreflightError, TransientError
from tests.core.surroundings import ONE, THREE, TWO, surroundings

LIMITS = Limits(
    parts_to_delay_insert=10,
    parts_to_throw_insert=30,
    max_parts_in_total=100,
    max_bytes_to_merge_at_max_space_in_pool=1,
    max_avg_part_size_for_too_many_parts=1_000,
)
CALM = OtherParts(parts=5, fullest_parts=5, fullest_bytes=50, limits=LIMITS)
ROOMY = NodeNow(disks=(Disk("default", "Local", 10**9),), others=CALM)


def with_parts(**changes):
    return replace(ROOMY, others=replace(CALM, **changes))


def said(one=ROOMY, *, two=ROOMY, three=ROOMY, size_bytes=3_000, views=(), period_bytes=0):
    objects = (Unit("b/k", size_bytes, "e", datetime(2026, 10, 1, tzinfo=UTC)),) if size_bytes else ()
    load = SimpleNamespace(
        context=surroundings(),
        files=SimpleNamespace(manifest=Manifest(objects)),
        # An increment that removes rows, which rewrites the period.
        increment=SimpleNamespace(removed=("b/k",)) if period_bytes else None,
        manifest=SimpleNamespace(size_bytes=period_bytes),
        period_partitions=PeriodPartitions("202610"),
        request=SimpleNamespace(policies=Policies(), follows_views=False),
        periods=Period.of_month(2026, 10),
        group=None,
    )
    steps, sent = [], None
    workflow = warn_of_risks(load, {ONE: one, TWO: two, THREE: three})
    while True:
        try:
            steps.append(workflow.send(sent))
        except StopIteration:
            return [step.name for step in steps if isinstance(step, Log)]
        sent = None if isinstance(steps[-1], Log) else {ONE: views}


def test_with_room_and_nothing_special_nothing_is_said():
    assert said() == []


class TestRoom:
    @pytest.mark.parametrize("free", [0, 999])
    def test_a_node_without_room_for_its_part_is_refused_with_disk_and_bytes(self, free):
        tight = replace(ROOMY, disks=(Disk("fast", "Local", free),))
        with pytest.raises(
            PreflightError, match=rf"ch-2:9000 has only {free} bytes free on fast, .* about 1,000 bytes"
        ):
            said(two=tight)

    def test_where_rows_are_removed_there_must_be_room_for_the_period(self):
        with pytest.raises(PreflightError, match=r"about 2\.0 KiB"):
            said(two=replace(ROOMY, disks=(Disk("fast", "Local", 1_500),)), period_bytes=6_000)

    def test_the_disks_of_a_node_are_added_up(self):
        assert said(replace(ROOMY, disks=(Disk("a", "Local", 600), Disk("b", "Local", 600)))) == []

    def test_what_else_is_in_the_way_is_told_with_it(self):
        tight = replace(ROOMY, disks=(Disk("fast", "Local", 0),))
        with pytest.raises(PreflightError) as raised:
            said(tight, two=with_parts(fullest_parts=30))
        room, parts = raised.value.findings
        assert "ch-1:9000 has only 0 bytes free on fast" in room
        assert "db.trips on ch-2:9000 refuses INSERTs" in parts


class TestParts:
    def test_a_full_partition_stops_the_load_as_it_refuses_inserts_into_the_whole_table(self):
        with pytest.raises(TransientError, match=r"ch-2:9000 .*30 parts in one partition \(parts_to_throw_insert=30\)"):
            said(two=with_parts(fullest_parts=30))

    def test_a_full_table_stops_the_load_which_would_add_a_part(self):
        with pytest.raises(TransientError, match=r"ch-1:9000 .*99 parts \(max_parts_in_total=100\)"):
            said(with_parts(parts=99))

    def test_one_part_less_does_not(self):
        assert said(with_parts(parts=98)) == []

    def test_a_partition_that_slows_inserts_down_is_told(self):
        (remark,) = said(with_parts(fullest_parts=10))
        assert "db.trips on ch-1:9000 slows down INSERTs, as it has 10 parts" in remark

    def test_large_parts_may_be_many(self):
        assert said(with_parts(fullest_parts=40, fullest_bytes=40 * 1_001)) == []

    def test_a_period_without_objects_only_takes_parts_away(self):
        assert said(with_parts(fullest_parts=9, parts=100), size_bytes=0) == []


class TestWhatHangsOnTheTarget:
    VIEWED = replace(ROOMY, views=("db.v",))
    SELECT = "SELECT zone, count() AS trips FROM db.trips GROUP BY zone"

    def told(self, definition):
        rows = [("db", "v", definition, self.SELECT, [(2, "trips"), (1, "zone")])]
        (remark,) = said(self.VIEWED, two=self.VIEWED, views=rows)
        return remark

    def test_views_are_named_once(self):
        remark = self.told("CREATE MATERIALIZED VIEW db.v (`zone` String) ENGINE = SummingMergeTree AS …")
        assert remark.startswith("db.v will not see the rows of 2026-10 in db.trips")

    @pytest.mark.parametrize(
        ("definition", "to"),
        [
            ("CREATE MATERIALIZED VIEW db.v (`zone` String) ENGINE = SummingMergeTree AS …", "`db`.`v`"),
            ("CREATE MATERIALIZED VIEW db.v TO db.by_zone (`zone` String) AS …", "db.by_zone"),
            ("CREATE MATERIALIZED VIEW db.`a TO b` TO `x y`.`z` (`zone` String) AS …", "`x y`.`z`"),
        ],
    )
    def test_a_view_is_told_with_what_fills_it(self, definition, to):
        assert self.told(definition).splitlines()[1:] == [
            f"  INSERT INTO {to} (`zone`, `trips`) SELECT * FROM ({self.SELECT}) "
            r"SETTINGS additional_table_filters = {'db.trips': '_partition_id = \'202610\''}"
        ]

    def test_a_view_whose_definition_may_not_be_seen_is_told_all_the_same(self):
        (remark,) = said(self.VIEWED, views=())
        assert remark.endswith("Fill such views from the table afterwards.")

    def test_disks_that_are_not_local_are_told(self):
        (remark,) = said(replace(ROOMY, disks=(Disk("s3disk", "ObjectStorage", 10**15),)))
        assert "is stored on s3disk" in remark
