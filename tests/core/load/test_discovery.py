"""Listing a period: through the worker's AWS connection, or through ClickHouse; and whether it is ready."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_chs3.core.files.key_template import KeyTemplate
from airflow_provider_chs3.core.load.discovery import list_ready_period, warn_of_risks
from airflow_provider_chs3.core.load.load_request import LoadRequest, Policies
from airflow_provider_chs3.core.model.models import Manifest, TableName, Unit
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.steps.operations import ListObjects, Log, Query
from airflow_provider_chs3.core.target.node_capacity import Disk, Limits, NodeNow, OtherParts
from airflow_provider_chs3.core.target.period_partitions import PeriodPartitions
from airflow_provider_chs3.exceptions import NotReadyError, PreflightError, TransientError
from airflow_provider_chs3.sources.s3.reading import Credentials, S3Source
from tests.core.surroundings import ONE, THREE, TWO, surroundings
from tests.support.driving import drive, listed

OCTOBER = Period.of_month(2026, 10)
WRITTEN = datetime(2026, 11, 1, 0, 0, 0, tzinfo=UTC)
COLLECTION = Credentials(named_collection="nc")


def source(
    template: str = "t/{YYYY-MM}/*.csv", credentials: Credentials | None = None, bucket: str = "lake"
) -> S3Source:
    return S3Source(
        bucket=bucket,
        template=KeyTemplate(template),
        endpoint_url="http://s3",
        credentials=credentials or Credentials(access_key_id="A", secret_access_key="S"),
    )


def request(of: S3Source | None = None, *, now: datetime = WRITTEN + timedelta(days=1), **policies: Any) -> LoadRequest:
    return LoadRequest(
        period=OCTOBER,
        source=of or source(),
        target=TableName("db", "t"),
        cluster=None,
        default_cluster=None,
        staging_database=None,
        nonce="n",
        now=now,
        policies=Policies(**policies),
    )


def objects(*keys: str, size_bytes: int = 1) -> list[Unit]:
    return [Unit(f"lake/{key}", size_bytes, "e", WRITTEN) for key in keys]


def row(path: str, size_bytes: int = 1) -> tuple[Any, ...]:
    """What ClickHouse answers for an object."""
    return (path, size_bytes, '"etag"', int(WRITTEN.timestamp()))


class TestThroughTheWorker:
    def test_the_listing_starts_from_the_literal_beginning(self):
        (step,) = drive(source().list_period(OCTOBER), listed([])).steps
        assert isinstance(step, ListObjects)
        assert (step.bucket, step.prefix) == ("lake", "t/2026-10/")

    def test_the_manifest_holds_the_periods_objects_in_order(self):
        found = listed(objects("t/2026-10/b.csv", "t/2026-10/_SUCCESS", "t/2026-10/a.csv", "t/2026-10/a.txt"))
        _, manifest = drive(source().list_period(OCTOBER), found).result
        assert [unit.key for unit in manifest.objects] == ["t/2026-10/a.csv", "t/2026-10/b.csv"]

    def test_the_base_is_the_bucket(self):
        found, _ = drive(source().list_period(OCTOBER), listed([])).result
        assert found.base == "lake/"


class TestThroughClickHouse:
    @pytest.mark.parametrize("credentials", [COLLECTION, Credentials(role_arn="arn:x")])
    def test_lists_where_only_the_servers_hold_credentials(self, credentials):
        (step,) = drive(source(credentials=credentials).list_period(OCTOBER), []).steps
        assert isinstance(step, Query)
        assert "'One'" in step.sql.text

    @pytest.mark.parametrize(
        ("template", "glob"),
        [
            ("t/{YYYY-MM}/*.csv", "'t/2026-10/*'"),
            ("t/{YYYY-MM}/", "'t/2026-10/**'"),
            ("t/{YYYY-MM}/*/*.csv", "'t/2026-10/*/*'"),
            ("t b/{YYYY-MM}/*.csv", "'t*/*/*'"),
            ("t/{YYYY-MM}.csv", "'t/2026-10.csv*'"),
        ],
    )
    def test_the_glob_matches_the_template_and_maybe_more(self, template, glob):
        (step,) = drive(source(template, COLLECTION).list_period(OCTOBER), []).steps
        assert f"filename = {glob}," in step.sql.text

    def test_an_object_is_what_the_row_says(self):
        _, manifest = drive(
            source(credentials=COLLECTION).list_period(OCTOBER), [row("lake/t/2026-10/a.csv", 7)]
        ).result
        assert manifest.objects == (Unit("lake/t/2026-10/a.csv", 7, "etag", WRITTEN),)

    @pytest.mark.parametrize(
        ("paths", "base"),
        [
            (["lake/t/2026-10/a.csv"], "lake/"),
            (["lake/deep/er/t/2026-10/a.csv", "lake/deep/er/t/2026-10/b.csv"], "lake/deep/er/"),
            (["lake/t/t/2026-10/a.csv"], "lake/t/"),
            (["lake/xt/2026-10/t/2026-10/a.csv"], "lake/xt/2026-10/"),
            (["lake/t/2026-10/t/2026-10/a.csv", "lake/t/2026-10/b.csv"], "lake/"),
            ([], "/"),
        ],
    )
    def test_the_base_is_what_stands_before_the_key_in_every_path(self, paths, base):
        listed, _ = drive(
            source(credentials=COLLECTION, bucket="").list_period(OCTOBER), [row(path) for path in paths]
        ).result
        assert listed.base == base

    @pytest.mark.parametrize("template", ["ü/{YYYY-MM}/*.csv", "*/{YYYY-MM}/*.csv"])
    def test_the_base_is_the_bucket_where_it_is_known(self, template):
        by_role = source(template, Credentials(role_arn="arn:x"))
        key = template.replace("{YYYY-MM}", "2026-10").replace("*", "a")
        listed, manifest = drive(by_role.list_period(OCTOBER), [row(f"lake/{key}")]).result
        assert (listed.base, [unit.key for unit in manifest.objects]) == ("lake/", [key])

    def test_the_base_is_the_bucket_where_the_template_begins_with_no_plain_text(self):
        of = source("ü/{YYYY-MM}/*.csv", COLLECTION, bucket="")
        listed, _ = drive(of.list_period(OCTOBER), [row("lake/ü/2026-10/a.csv")]).result
        assert listed.base == "lake/"

    def test_objects_below_the_collections_url_are_selected(self):
        rows = [row("lake/deep/t/2026-10/a.csv"), row("lake/deep/t/2026-10/x/a.csv"), row("lake/deep/t/2026-10/_a.csv")]
        _, manifest = drive(source(credentials=COLLECTION, bucket="").list_period(OCTOBER), rows).result
        assert [unit.path for unit in manifest.objects] == ["lake/deep/t/2026-10/a.csv"]


class TestAge:
    AGED = request(min_object_age_seconds=60)

    def test_a_young_object_is_not_ready(self):
        young = replace(self.AGED, now=WRITTEN + timedelta(seconds=59))
        with pytest.raises(
            NotReadyError, match=r"a\.csv was written at 2026-11-01 00:00:00 UTC, less than policies\['min_object_age"
        ):
            drive(list_ready_period(young), listed(objects("t/2026-10/a.csv")))

    def test_an_old_one_is(self):
        old = replace(self.AGED, now=WRITTEN + timedelta(seconds=60))
        assert drive(list_ready_period(old), listed(objects("t/2026-10/a.csv"))).result

    def test_without_an_age_the_clocks_of_worker_and_storage_do_not_count(self):
        behind = request(now=WRITTEN - timedelta(hours=1))
        assert drive(list_ready_period(behind), listed(objects("t/2026-10/a.csv"))).result

    def test_the_youngest_counts(self):
        now = replace(self.AGED, now=WRITTEN + timedelta(seconds=60))
        found = objects("t/2026-10/a.csv", "t/2026-10/b.csv")
        found[1] = replace(found[1], last_modified=WRITTEN + timedelta(seconds=1))
        with pytest.raises(NotReadyError, match=r"b\.csv"):
            drive(list_ready_period(now), listed(found))


class TestReadyMarker:
    @pytest.mark.parametrize(
        ("template", "ready_key", "marker"),
        [
            ("t/{YYYY-MM}/*.csv", "_SUCCESS", "t/2026-10/_SUCCESS"),
            ("t/{YYYY-MM}/", "_SUCCESS", "t/2026-10/_SUCCESS"),
            ("t/{YYYY-MM}*.csv", "_SUCCESS", "t/_SUCCESS"),
            ("{YYYY-MM}.csv", "_SUCCESS", "_SUCCESS"),
            ("t/{YYYY-MM}/*.csv", "ready/{YYYYMM}.flag", "ready/202610.flag"),
        ],
    )
    def test_lies_beside_the_objects_or_where_its_template_says(self, template, ready_key, marker):
        driven = drive(
            list_ready_period(request(source(template), ready_key=ready_key, on_no_objects="skip")),
            listed(objects(marker, size_bytes=0)),
            listed([]),
        )
        assert driven.steps[0].prefix == marker

    @pytest.mark.parametrize("there", [[], ["t/2026-10/_SUCCESS.crc"], ["t/2026-10/_SUCCESS/"]])
    def test_must_be_there_under_exactly_its_key(self, there):
        with pytest.raises(
            NotReadyError, match=r"marker t/2026-10/_SUCCESS does not exist yet, .* Retries look again: set enough"
        ):
            drive(list_ready_period(request(ready_key="_SUCCESS")), listed(objects(*there)))


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
