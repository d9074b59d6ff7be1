"""A table of a lakehouse and one of ClickHouse, and loads from one to the other as the user of loads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask
from airflow_provider_chs3.sources import delta, iceberg, lakehouse
from airflow_provider_chs3.transfers.delta_to_clickhouse import DeltaToClickHouseOperator
from airflow_provider_chs3.transfers.iceberg_to_clickhouse import IcebergToClickHouseOperator
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.sources.lakehouses import IcebergTable, Lakehouse
from tests.sources.trips_target import PERIOD, TripsTarget
from tests.support.arguments import grouped

if TYPE_CHECKING:
    import pyarrow as pa
    import pytest

    from airflow_provider_chs3.testbed.nodes import Cluster


@dataclass
class TableLake(TripsTarget):
    """A table of a lakehouse, the table `trips` on every node, and loads from one to the other."""

    table: Lakehouse
    cluster: Cluster
    database: str

    @classmethod
    def create(cls, table: Lakehouse, cluster: Cluster, database: str, monkeypatch: pytest.MonkeyPatch) -> TableLake:
        lake = cls(table, cluster, database)
        monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(table.s3.airflow_connection()))
        if isinstance(table, IcebergTable):
            monkeypatch.setenv("AIRFLOW_CONN_ICEBERG_DEFAULT", json.dumps(table.connection))
        lake.create_target(monkeypatch)
        return lake

    @property
    def objects(self) -> lakehouse.LakehouseTable:
        if isinstance(self.table, IcebergTable):
            return iceberg.IcebergTable(table="lake.trips", time_column="pickup_at")
        return delta.DeltaTable(uri=f"s3://{self.table.bucket}/trips", time_column="period")

    @property
    def where(self) -> dict[str, Any]:
        return {"objects": self.objects, "table": "trips", "database": self.database, "cluster": self.cluster.name}

    @property
    def by_statistics(self) -> lakehouse.LakehouseTable:
        """The table, whose periods are found by statistics of its files if it is not partitioned."""
        objects = self.objects
        objects.time_column = "pickup_at"
        return objects

    def operator(self, period: str = PERIOD, **options: Any) -> PeriodLoadTask:
        arguments = self.arguments | {"period": period}
        if "objects" in options:
            return S3ToClickHouseOperator(**grouped(**{**arguments, **options}))
        if isinstance(self.table, IcebergTable):
            given = {"iceberg_table": "lake.trips", "time_column": "pickup_at"}
            return IcebergToClickHouseOperator(**grouped(**{**arguments, **given, **options}))
        given = {"uri": self.table.uri, "time_column": "period"}
        return DeltaToClickHouseOperator(**grouped(**{**arguments, **given, **options}))

    def put(self, table: pa.Table) -> None:
        """Add rows to the table of the lakehouse."""
        self.table.put(table)

    @property
    def source_argument(self) -> tuple[str, str]:
        """The argument of the operator that names the table, and its value."""
        if isinstance(self.table, IcebergTable):
            return "iceberg_table", "lake.trips"
        return "uri", self.table.uri

    @property
    def dag_id(self) -> str:
        """The example DAG that loads from such a table."""
        return "chs3_iceberg" if isinstance(self.table, IcebergTable) else "chs3_delta"

    @property
    def dag_conf(self) -> dict[str, str]:
        """The configuration of its runs, which names the table."""
        return {} if isinstance(self.table, IcebergTable) else {"uri": self.table.uri, "time_column": "period"}

    @property
    def doctor_options(self) -> list[str]:
        """The options by which the doctor knows the table."""
        kind, column = ("iceberg", "pickup_at") if isinstance(self.table, IcebergTable) else ("delta", "period")
        return ["--storage", kind, "--source-table", self.source_argument[1], "--time-column", column]

    @property
    def dataset(self) -> tuple[str, str]:
        """OpenLineage's namespace and name of the table."""
        return f"s3://{self.table.bucket}", "trips"

    def load(self, period: str = PERIOD, **options: Any) -> dict[str, Any]:
        return self.operator(period, **options).execute({})

    def distances(self) -> list[float]:
        answers = self.on_every_node(f"SELECT DISTINCT trip_distance FROM {self.database}.trips")
        return [row[0] for rows in answers for row in rows]

    def rows(self) -> int:
        return sum(self.rows_per_node())
