"""The loads whose traces are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_provider_chs3.operators.held import ApprovePeriodsOperator
from airflow_provider_chs3.operators.versions import RestorePeriodsOperator
from airflow_provider_chs3.testbed.trips import Trips
from tests.sources.row_lake import RowLake
from tests.sources.rows import PostgresRows
from tests.support import deferring
from tests.support.deferring import Gate
from tests.support.killing import ALL, Strike
from tests.support.lake import Lake
from tests.support.replicas import TRIPS, replicated
from tests.trace.recording import Trace

#: Years ago, so that no time of a period is taken for the present.
PERIOD = "2024-10"


@dataclass
class Scene:
    """A lake, and the trace of what is loaded from it."""

    lake: Lake
    trace: Trace
    request: pytest.FixtureRequest

    def create(self, columns: str = "day Date, n UInt32", by: str = "PARTITION BY toYYYYMM(day)") -> None:
        """Create the table, which does not merge by itself."""
        name = f"{self.lake.database}.{self.lake.table}"
        self.lake.on_every_node(f"CREATE TABLE {name} ({columns}) ENGINE = MergeTree {by} ORDER BY n")
        self.lake.on_every_node(f"SYSTEM STOP MERGES {name}")

    def put(self, name: str, numbers: range, period: str = PERIOD) -> None:
        """Write an object with a row for each number."""
        lines = "".join(f"{period}-05,{number}\n" for number in numbers)
        self.lake.put(f"n/{period}/{name}.csv", f"day,n\n{lines}".encode())

    def upload(self) -> None:
        """Create the table of trips, and write Parquet files, whose sizes another version may change."""
        self.lake.create_table()
        self.lake.upload(Trips(rows_per_period=60, files_per_period=2), PERIOD)
        objects = self.lake.s3.list_objects_v2(Bucket=self.lake.bucket)["Contents"]
        sizes = [unit["Size"] for unit in objects]
        self.trace.names |= {str(size): "<bytes>" for size in (*sizes, sum(sizes))}

    def load(self, **options: Any) -> Any:
        """Load the period, or those that are given."""
        arguments = {"key": "n/{YYYY-MM}/", "file_format": "CSVWithNames", "period": PERIOD}
        return self.lake.operator(**(arguments | options)).execute({})

    def of_table(self, kind: type, **options: Any) -> Any:
        """Run an operator for the period."""
        place = {"table": self.lake.table, "database": self.lake.database, "cluster": self.lake.cluster.name}
        return kind(task_id="task", periods=[PERIOD], **place, **options).execute({})

    def record(self, title: str, **options: Any) -> Any:
        """Load, and record it."""
        return self.trace.record(title, lambda: self.load(**options))


def replicas(scene: Scene) -> None:
    """A first load of a replicated table, one of the same objects, and one more object."""
    scene.lake.create_table(engine=replicated(scene.lake))
    scene.lake.on_every_node(f"SYSTEM STOP MERGES {scene.lake.database}.{scene.lake.table}")
    scene.lake.upload(TRIPS, PERIOD, file_format="csv.gz")
    options = {"key": "trips/{YYYY-MM}/", "file_format": "CSVWithNames"}
    scene.record("first", **options)
    scene.record("unchanged", **options)
    ((_, body),) = Trips(seed=2, rows_per_period=60, files_per_period=1).files(PERIOD, file_format="csv.gz")
    scene.lake.put(f"trips/{PERIOD}/new.csv.gz", body)
    scene.record("increment", **options)


def nights(scene: Scene) -> None:
    """A first load, one of the same objects, one more object, and one that is overwritten."""
    scene.create()
    scene.put("a", range(10))
    scene.record("first")
    scene.record("unchanged")
    scene.put("b", range(10, 15))
    scene.record("increment")
    scene.put("a", range(20, 30))
    scene.record("overwritten")


def object_column(scene: Scene) -> None:
    """An object that is overwritten where a column has the object of each row."""
    scene.create("day Date, n UInt32, source String")
    options = {"select": {"day": "toDate(day)", "n": "toUInt32(n)", "source": "_path"}, "object_column": "source"}
    for number in range(12):
        scene.put(f"{number:02}", range(10 * number, 10 * number + 10))
    scene.load(**options)
    scene.put("03", range(200, 207))
    scene.record("overwritten", **options)


def several_periods(scene: Scene) -> None:
    """A first load of three periods, and one after one of them got an object."""
    scene.create()
    periods = ["2024-10", "2024-11", "2024-12"]
    for number, period in enumerate(periods):
        scene.put("a", range(100 * number, 100 * number + 10), period)
    scene.record("first", period=None, periods=periods)
    scene.put("b", range(10, 15), "2024-11")
    scene.record("increment of one", period=None, periods=periods)


def parquet(scene: Scene) -> None:
    """A first load of files with footers."""
    scene.upload()
    scene.trace.record("first", lambda: scene.lake.load(period=PERIOD))


def resumed(scene: Scene) -> None:
    """A deferred load: up to the start of its insert, and once that has ended."""
    gate: Gate = scene.request.getfixturevalue("gate")
    scene.trace.names[gate.options["endpoint_url"]] = "http://s3"
    scene.upload()
    options = {"period": PERIOD, **gate.options}
    deferred = scene.trace.record("deferred", lambda: deferring.start(scene.lake, **options))
    gate.open()
    scene.trace.record("resumed", deferred.resume)


def crash(scene: Scene) -> None:
    """A load after one that was killed when it had published, and before it recorded that."""
    scene.create()
    scene.put("a", range(10))
    Strike(0, ALL, f"Publish {PERIOD}").kill_in(scene.load)
    scene.record("after a crash")


def held(scene: Scene) -> None:
    """A load whose rows fail a check, and its approval."""
    scene.create()
    scene.put("a", range(10))
    scene.load()
    scene.put("b", range(10, 15))
    checks = {"column_mapping": {"n": {"max": {"leq_to": 9}}}}

    def hold() -> None:
        with pytest.raises(AirflowSkipException):
            scene.load(checks=checks, policies={"on_failed_check": "hold"})

    scene.trace.record("held", hold)
    place = {"bucket": scene.lake.bucket, "key": "n/{YYYY-MM}/"}
    scene.trace.record("approved", lambda: scene.of_table(ApprovePeriodsOperator, **place))


def restored(scene: Scene) -> None:
    """A load that keeps the version that it replaces, and the restoration of that one."""
    scene.create()
    scene.put("a", range(10))
    scene.load(keep_versions=1)
    scene.put("a", range(20, 30))
    scene.record("overwritten", keep_versions=1)
    scene.trace.record("restored", lambda: scene.of_table(RestorePeriodsOperator))


def views(scene: Scene) -> None:
    """A first load, and one more object, into a table with a view that follows."""
    scene.create()
    name = f"{scene.lake.database}.{scene.lake.table}"
    scene.lake.on_every_node(
        f"CREATE TABLE {name}_days (day Date, sum SimpleAggregateFunction(sum, UInt64)) ENGINE = AggregatingMergeTree "
        "PARTITION BY toYYYYMM(day) ORDER BY day"
    )
    scene.lake.on_every_node(
        f"CREATE MATERIALIZED VIEW {name}_view TO {name}_days AS SELECT day, sum(n) AS sum FROM {name} GROUP BY day"
    )
    scene.put("a", range(10))
    scene.record("first", views="follow")
    scene.put("b", range(10, 15))
    scene.record("increment", views="follow")


def partitions(scene: Scene) -> None:
    """A first load of a period of several partitions, and one more object."""
    scene.create(by="PARTITION BY (toYYYYMM(day), n % 2)")
    scene.put("a", range(10))
    scene.record("first")
    scene.put("b", range(10, 15))
    scene.record("increment")


def whole_table(scene: Scene) -> None:
    """A first load of a table without partitions, and one more object."""
    scene.create(by="")
    scene.put("a", range(10))
    scene.record("first", period="all")
    scene.put("b", range(10, 15))
    scene.record("increment", period="all")


def database(scene: Scene) -> None:
    """A first load from a table of a database, and one that finds it unchanged."""
    rows = PostgresRows.create(scene.request.getfixturevalue("chs3_postgres"))
    patch = scene.request.getfixturevalue("monkeypatch")
    lake = RowLake.create(rows, scene.lake.cluster, scene.lake.database, patch)
    server = rows.server
    scene.trace.names |= {rows.table: "source", f"{server.host}:{server.port}": "postgres"}
    rows.put(Trips(rows_per_period=60).table(PERIOD))
    scene.trace.record("first", lambda: lake.load(period=PERIOD))
    scene.trace.record("unchanged", lambda: lake.load(period=PERIOD))


#: On one node, by the names of their files.
LOADS: dict[str, Callable[[Scene], None]] = {
    load.__name__: load
    for load in (
        nights,
        object_column,
        several_periods,
        parquet,
        resumed,
        crash,
        held,
        restored,
        views,
        partitions,
        whole_table,
        database,
    )
}
