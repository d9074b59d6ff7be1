"""The DAGs of docs/gallery.md and docs/how-to/alerts.md do what the pages say, run as they stand there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.testbed.trips import PeriodFacts, Trips, create_table_sql, read_facts
from tests.support.few_nodes import cluster_for
from tests.support.lake import Lake

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.sdk import DAG

    from airflow_provider_chs3.testbed.nodes import Cluster

DOCS = Path(__file__).parents[1] / "docs"
PAGE = "\n".join((DOCS / name).read_text(encoding="utf-8") for name in ("gallery.md", "how-to/alerts.md"))
#: Heading → the DAG file below it.
PATTERNS = dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))

TRIPS = Trips(rows_per_period=600, files_per_period=3)
MORE_TRIPS = Trips(seed=2, rows_per_period=400, files_per_period=2)
#: A night of March, which looks back to January; for DAGs with a run a period, the one about February.
NIGHT = datetime(2026, 3, 12, 3, tzinfo=UTC)
MONTHLY = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass(kw_only=True)
class Gallery(Lake):
    """A bucket, a table of trips, and the DAGs of the page over them."""

    folder: Path
    run_dag: Callable[..., DagRun]

    def create_table(self, table: str = "trips", *, database: str | None = None) -> None:
        database = database or self.database
        self.on_every_node(create_table_sql(f"{database}.{table}"))
        self.on_every_node(
            f"CREATE TABLE {database}.{table}_all AS {database}.{table} "
            f"ENGINE = Distributed({self.cluster.name}, {database}, {table})"
        )

    def upload(self, period: str, *, trips: Trips = TRIPS, prefix: str | None = None, **options: Any) -> list[str]:
        prefix = f"trips/{period}/" if prefix is None else prefix
        return trips.upload(self.s3, period, bucket=self.bucket, prefix=prefix, **options)

    def dag(self, pattern: str) -> DAG:
        """The DAG of a heading, which fails at once where it fails."""
        from tests.support.dag_bag import DagBag

        (self.folder / "gallery.py").write_text(PATTERNS[pattern].replace("my-bucket", self.bucket))
        bag = DagBag(self.folder)
        assert bag.import_errors == {}
        (dag,) = bag.dags.values()
        for task in dag.tasks:
            task.retries = 0
        return dag

    def run(self, dag: DAG, logical_date: datetime | None = NIGHT) -> dict[str, Any]:
        """Task, with the label of its period → what it returned, or its state where that is none."""
        run = self.run_dag(dag, logical_date=logical_date)
        return {
            " ".join(filter(None, (ti.task_id, ti.rendered_map_index))): ti.xcom_pull(
                task_ids=ti.task_id, map_indexes=ti.map_index
            )
            or str(ti.state)
            for ti in run.get_task_instances()
        }

    def facts(self, period: str, *, table: str = "trips_all", database: str | None = None) -> PeriodFacts:
        with self.cluster.nodes[0].client() as client:
            return read_facts(client, f"{database or self.database}.{table}", period)


@pytest.fixture
def chs3_cluster(request: pytest.FixtureRequest) -> Cluster:
    """One node, unless a test is marked `three_nodes`."""
    return cluster_for(request)


@pytest.fixture
def gallery(
    chs3_cluster: Cluster,
    chs3_s3: Any,
    chs3_bucket: str,
    chs3_database: str,
    chs3_airflow_connections: None,
    run_dag: Callable[..., DagRun],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Gallery:
    for name in ("default", "reader", "eu"):
        connect(monkeypatch, chs3_cluster, name, chs3_database)
    of_lake = {"cluster": chs3_cluster, "s3": chs3_s3.client(), "bucket": chs3_bucket, "database": chs3_database}
    made = Gallery(**of_lake, folder=tmp_path, run_dag=run_dag)
    made.create_table()
    return made


def connect(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, name: str, database: str) -> None:
    connection = cluster.airflow_connection() | {"schema": database}
    monkeypatch.setenv(f"AIRFLOW_CONN_CHS3_{name.upper()}", json.dumps(connection))


def loaded(done: dict[str, Any]) -> list[str]:
    """The periods that a run has loaded."""
    return sorted(name.partition(".load ")[2].removesuffix(": published") for name in done if ".load " in name)


def told(dag: DAG) -> list[str]:
    """The periods of which all runs of a DAG emitted an event."""
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        extras = session.scalars(select(AssetEvent.extra).where(AssetEvent.source_dag_id == dag.dag_id))
        return [extra["period"] for extra in extras]


def test_every_pattern_of_the_page_is_run_here() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert len(PATTERNS) == PAGE.count("```python")
    assert [title for title in PATTERNS if f'gallery.dag("{title}")' not in source] == []


def test_a_period_is_loaded_once_its_marker_is_there(gallery: Gallery) -> None:
    gallery.upload("2026-02")
    dag = gallery.dag("Wait for the writer")
    assert gallery.run(dag, MONTHLY)["load"] == "failed"
    gallery.put("trips/2026-02/_SUCCESS", b"")
    assert gallery.run(dag, MONTHLY)["load"]["rows"] == 600


def test_each_table_has_its_periods_and_none_waits_for_another(gallery: Gallery) -> None:
    gallery.create_table("refunds")
    gallery.upload("2026-02")
    gallery.put("trips/2026-02/bad.parquet", b"this is no Parquet")
    gallery.upload("2026-03", trips=MORE_TRIPS, prefix="refunds/year=2026/month=03/")
    done = gallery.run(gallery.dag("Several tables"))
    assert done["trips_all.period.load 2026-02"] == "failed"
    assert gallery.facts("2026-03", table="refunds_all") == MORE_TRIPS.facts("2026-03")


def test_in_the_dag_of_several_tables_only_loads_take_a_place_in_the_pool(gallery: Gallery) -> None:
    dag = gallery.dag("Several tables")
    assert {task.task_id for task in dag.tasks if task.pool == "loads"} == {
        "trips_all.period.load",
        "refunds_all.period.load",
    }


def put_days(gallery: Gallery, prefix: str, *days: int, trips: Trips = TRIPS) -> list[int]:
    """Write an object for each of some days of March; return the ids of its trips."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table, put = trips.table("2026-03"), []
    for day in days:
        rows = table.filter(pc.equal(pc.day(table["pickup_at"]), day))
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink)
        gallery.put(f"{prefix}/2026-03-{day:02}/trips.parquet", sink.getvalue().to_pybytes())
        put += rows["trip_id"].to_pylist()
    return sorted(put)


def make_like_trips(gallery: Gallery, table: str, clauses: str) -> None:
    made = f"CREATE TABLE {gallery.database}.{table} ENGINE = MergeTree {clauses}"
    gallery.on_every_node(f"{made} EMPTY AS SELECT * FROM {gallery.database}.trips")


def trips_in(gallery: Gallery, table: str) -> list[int]:
    with gallery.cluster.nodes[0].client() as client:
        of_all = f"cluster('{gallery.cluster.name}', {gallery.database}, {table})"
        return [row[0] for row in client.execute(f"SELECT trip_id FROM {of_all} ORDER BY 1")]


def test_days_are_loaded_in_one_task(gallery: Gallery) -> None:
    make_like_trips(gallery, "trips_by_day", "PARTITION BY toDate(pickup_at) ORDER BY trip_id")
    put_days(gallery, "trips", 4)
    put = put_days(gallery, "trips", 5, 11, 12)
    done = gallery.run(gallery.dag("A table by day"))
    assert [len(group) for group in done["scheduled_load.plan"]] == [3]
    assert trips_in(gallery, "trips_by_day") == put


@pytest.mark.thorough
def test_nights_add_to_a_table_without_partitions(gallery: Gallery) -> None:
    make_like_trips(gallery, "all_trips", "ORDER BY trip_id")
    gallery.on_every_node(f"ALTER TABLE {gallery.database}.all_trips ADD COLUMN source String")
    dag = gallery.dag("A table without partitions")
    for last in (11, 12):
        put = put_days(gallery, "trips", *range(1, last + 1))
        assert loaded(gallery.run(dag)) == ["all"]
        assert trips_in(gallery, "all_trips") == put
    # The file of one day is another one now.
    others = put_days(gallery, "trips", *(day for day in range(1, 13) if day != 11))
    put = sorted(others + put_days(gallery, "trips", 11, trips=MORE_TRIPS))
    assert loaded(gallery.run(dag)) == ["all"]
    assert trips_in(gallery, "all_trips") == put


@pytest.mark.thorough
def test_a_views_table_follows_the_table(gallery: Gallery) -> None:
    by_zone = "SELECT toStartOfMonth(pickup_at) AS month, zone, count() AS trips FROM {}.trips GROUP BY month, zone"
    by_zone = by_zone.format(d := gallery.database)
    gallery.on_every_node(
        f"CREATE TABLE {d}.zones (month Date, zone String, trips UInt64) "
        "ENGINE = SummingMergeTree PARTITION BY toYYYYMM(month) ORDER BY (month, zone)"
    )
    gallery.on_every_node(f"CREATE MATERIALIZED VIEW {d}.zones_view TO {d}.zones AS {by_zone}")
    dag = gallery.dag("A table and its materialized view")
    gallery.upload("2026-02")
    gallery.upload("2026-03")
    assert loaded(gallery.run(dag)) == ["2026-02 … 2026-03 (2 months)"]
    gallery.upload("2026-03", trips=MORE_TRIPS)
    assert loaded(gallery.run(dag)) == ["2026-03"]
    found, expected = (
        gallery.on_every_node(f"SELECT month, zone, sum(trips) FROM ({sql}) GROUP BY month, zone ORDER BY month, zone")
        for sql in (f"SELECT * FROM {d}.zones", by_zone)
    )
    assert found == expected
    assert any(found)


@pytest.mark.thorough
def test_a_small_table_holds_the_snapshot_of_the_night(gallery: Gallery) -> None:
    make_like_trips(gallery, "zones", "ORDER BY trip_id")
    dag = gallery.dag("A small table, as a snapshot of each night")
    first = put_days(gallery, "zones", 12)
    gallery.run(dag)
    assert trips_in(gallery, "zones") == first
    second = put_days(gallery, "zones", 13)
    gallery.run(dag, datetime(2026, 3, 13, 3, tzinfo=UTC))
    assert trips_in(gallery, "zones") == second != first


@pytest.mark.thorough
def test_a_period_is_what_all_producers_have_sent(gallery: Gallery) -> None:
    gallery.upload("2026-02", prefix="producers/acme/2026-02/")
    dag = gallery.dag("Several producers, one table")
    for task in dag.tasks:
        task.policies = {}
    gallery.run(dag)
    gallery.upload("2026-02", trips=MORE_TRIPS, prefix="producers/umbrella/2026-02/")
    assert loaded(gallery.run(dag)) == ["2026-02"]
    assert gallery.facts("2026-02").rows == 1_000


def test_csv_becomes_what_the_table_has_without_the_rows_of_other_periods(gallery: Gallery) -> None:
    trips = Trips(rows_per_period=600, files_per_period=3, wrong_period_rows=5)
    gallery.upload("2026-03", trips=trips, prefix="drops/2026/03/", file_format="csv.gz")
    gallery.run(gallery.dag("Files that differ from the table"))
    found, expected = gallery.facts("2026-03"), trips.facts("2026-03")
    assert (found.rows, found.trip_id_sum, found.fare_cents_sum) == (595, expected.trip_id_sum, expected.fare_cents_sum)


@pytest.mark.thorough
def test_a_period_is_told_of_only_if_it_passes_its_checks(gallery: Gallery) -> None:
    gallery.upload("2026-02")
    dag = gallery.dag("Check a period before announcing it")
    gallery.run(dag, MONTHLY)
    assert told(dag)[-1:] == ["2026-02"]
    before = len(told(dag))
    gallery.upload("2026-02", prefix="trips/2026-02/again-")
    done = gallery.run(dag, MONTHLY)
    assert (done["check"], len(told(dag))) == ("failed", before)


@pytest.mark.thorough
def test_rows_that_fail_a_check_are_never_seen(gallery: Gallery) -> None:
    gallery.upload("2026-02")
    dag = gallery.dag("Check rows before they are published")
    assert loaded(gallery.run(dag)) == ["2026-02"]
    before = gallery.facts("2026-02")
    # The same trips once more.
    gallery.upload("2026-02", prefix="trips/2026-02/again-")
    assert gallery.run(dag)["scheduled_load.end"] == "upstream_failed"
    assert gallery.facts("2026-02") == before


@pytest.mark.thorough
def test_a_night_is_undone_and_stays_so(gallery: Gallery) -> None:
    night, before = gallery.dag("Check rows before they are published"), None
    for seed in (1, 2):
        before = gallery.facts("2026-02")
        gallery.upload("2026-02", trips=Trips(seed=seed, rows_per_period=600, files_per_period=3))
        assert loaded(gallery.run(night)) == ["2026-02"]
    assert gallery.facts("2026-02") != before
    (restored,) = gallery.run(gallery.dag("Undo a night"))["restore"]
    assert (restored["status"], restored["rows"]) == ("restored", 600)
    assert gallery.facts("2026-02") == before
    assert loaded(gallery.run(night)) == []
    assert gallery.facts("2026-02") == before


@pytest.mark.thorough
def test_a_report_is_made_of_changed_periods_and_not_in_a_quiet_night(gallery: Gallery) -> None:
    gallery.upload("2026-02")
    dag = gallery.dag("Continue only if something was loaded")
    assert [gallery.run(dag)["report"] for _ in range(2)] == ["Changed: 2026-02", "skipped"]


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_last_period_ends_in_one_part_on_every_node(gallery: Gallery) -> None:
    gallery.upload("2026-02", trips=Trips(rows_per_period=600, files_per_period=12))
    gallery.on_every_node(f"SYSTEM STOP MERGES {gallery.database}.trips")
    dag = gallery.dag("Last period in one part")
    dag.get_task("load").settings = {"min_insert_block_size_rows": 20, "min_insert_block_size_bytes": 0}
    gallery.run(_without(dag, "one_part"), MONTHLY)
    parts = f"SELECT count() FROM system.parts WHERE database = '{gallery.database}' AND table = 'trips' AND active"
    assert any(count > 1 for ((count,),) in gallery.on_every_node(parts))
    gallery.on_every_node(f"SYSTEM START MERGES {gallery.database}.trips")
    done = gallery.run(gallery.dag("Last period in one part"), MONTHLY)
    assert done["load"]["status"] == "unchanged"
    assert all(count <= 1 for ((count,),) in gallery.on_every_node(parts))


def _without(dag: DAG, task_id: str) -> DAG:
    return dag.partial_subset([task.task_id for task in dag.tasks if task.task_id != task_id])


@pytest.mark.thorough
def test_all_years_are_loaded_in_one_run(gallery: Gallery) -> None:
    periods = ["2024-12", "2026-01"]
    for period in periods:
        gallery.upload(period)
    dag = gallery.dag("Years in one run, without workers")
    # Small periods share a task.
    assert loaded(gallery.run(dag, None)) == ["2024-12 … 2026-01 (2 months)"]
    assert [gallery.facts(period) for period in periods] == [TRIPS.facts(period) for period in periods]


@pytest.mark.thorough
def test_two_clusters_have_the_same_periods(gallery: Gallery, monkeypatch: pytest.MonkeyPatch) -> None:
    other = f"{gallery.database}_us"
    gallery.on_every_node(f"CREATE DATABASE {other}")
    gallery.create_table(database=other)
    connect(monkeypatch, gallery.cluster, "us", other)
    gallery.upload("2026-02")
    gallery.run(gallery.dag("The same periods in two clusters"))
    assert gallery.facts("2026-02") == gallery.facts("2026-02", database=other) == TRIPS.facts("2026-02")
    gallery.on_every_node(f"DROP DATABASE {other} SYNC")


@pytest.mark.thorough
def test_a_table_is_taken_over_without_a_load_once_it_holds_what_its_objects_hold(gallery: Gallery) -> None:
    gallery.upload("2026-02")
    _fill_by_hand(gallery, "2026-02")
    more = gallery.upload("2026-02", trips=MORE_TRIPS, prefix="trips/2026-02/more-")
    done = gallery.run(gallery.dag("Take over a table"), None)
    assert (done["adopt"], done["trips_all.plan"]) == ("failed", "upstream_failed")
    assert gallery.facts("2026-02") == TRIPS.facts("2026-02")
    for key in more:
        gallery.s3.delete_object(Bucket=gallery.bucket, Key=key)
    done = gallery.run(gallery.dag("Take over a table"), None)
    assert [each["status"] for each in done["adopt"]] == ["adopted"]
    assert loaded(done) == []


def _fill_by_hand(gallery: Gallery, period: str) -> None:
    """As somebody did years ago."""
    table = TRIPS.table(period)
    with gallery.cluster.nodes[0].client() as client:
        client.execute(
            f"INSERT INTO {gallery.database}.trips VALUES", [tuple(row.values()) for row in table.to_pylist()]
        )


def test_the_outlook_tells_what_would_be_loaded_and_loads_nothing(gallery: Gallery) -> None:
    gallery.upload("2026-01")
    gallery.upload("2026-02")
    done = gallery.run(gallery.dag("What would tonight load?"))
    assert done["tell"] == "2 periods to load: 2026-01, 2026-02"
    assert gallery.facts("2026-01").rows == 0


def test_a_deadline_is_at_six_and_another_follows_the_last_nights(gallery: Gallery) -> None:
    # tests/scheduler/test_deadlines.py runs it.
    dag = gallery.dag("Warn before a deadline is missed")
    assert [alert.interval for alert in dag.deadline] == [timedelta(hours=27), timedelta(minutes=30)]
