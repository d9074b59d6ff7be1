"""A place of objects and a table, and loads from one to the other as the user of loads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.sources.azure import AzureBlobs
from airflow_provider_chs3.sources.gcs import GcsObjects
from airflow_provider_chs3.sources.hdfs import HdfsFiles
from airflow_provider_chs3.sources.s3 import S3Objects
from airflow_provider_chs3.sources.storage import Storage
from airflow_provider_chs3.testbed.trips import PeriodFacts, create_table_sql, read_facts
from airflow_provider_chs3.transfers.azure_blob_to_clickhouse import AzureBlobToClickHouseOperator
from airflow_provider_chs3.transfers.gcs_to_clickhouse import GCSToClickHouseOperator
from airflow_provider_chs3.transfers.hdfs_to_clickhouse import HdfsToClickHouseOperator
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.arguments import grouped
from tests.narrow_user import narrow_connection
from tests.sources.objects import AzureObjects, HdfsObjects, Objects
from tests.sources.objects import GcsObjects as GcsBucket

if TYPE_CHECKING:
    import pytest

    from airflow_provider_chs3.testbed.nodes import Cluster

PERIOD = "2026-01"
TEMPLATE = "trips/{YYYY-MM}/**"


@dataclass
class StoreLake:
    """Objects of one storage, the table `trips` on every node, and loads from one to the other."""

    objects: Objects
    cluster: Cluster
    database: str

    @classmethod
    def create(cls, objects: Objects, cluster: Cluster, database: str, monkeypatch: pytest.MonkeyPatch) -> StoreLake:
        lake = cls(objects, cluster, database)
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(narrow_connection(cluster)))
        lake.connect(monkeypatch)
        lake.on_every_node(create_table_sql(f"{database}.trips"))
        return lake

    def connect(self, monkeypatch: pytest.MonkeyPatch, **wrong: str) -> None:
        """Make Airflow's connection to the storage.

        Args:
            monkeypatch: Sets it.
            **wrong: What it has otherwise, such as a password.
        """
        server = self.objects.server
        if isinstance(self.objects, AzureObjects):
            keys = {"login": server.account_name, "password": server.account_key, "host": server.account_url}
            monkeypatch.setenv("AIRFLOW_CONN_WASB_DEFAULT", json.dumps({"conn_type": "wasb", **keys, **wrong}))
            return
        if isinstance(self.objects, HdfsObjects):
            monkeypatch.setenv("AIRFLOW_CONN_WEBHDFS_DEFAULT", json.dumps(server.airflow_connection() | wrong))
            return
        name = "GCS_HMAC_DEFAULT" if isinstance(self.objects, GcsBucket) else "AWS_DEFAULT"
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(server.airflow_connection() | wrong))

    @property
    def place(self) -> str:
        if isinstance(self.objects, HdfsObjects):
            return self.objects.folder
        return self.objects.container if isinstance(self.objects, AzureObjects) else self.objects.bucket

    @property
    def counted_by(self) -> str:
        """What proves the rows of text."""
        return "second read" if isinstance(self.objects, HdfsObjects) else "insert"

    def store(self) -> Storage:
        if isinstance(self.objects, AzureObjects):
            return AzureBlobs(container=self.place, blob=TEMPLATE)
        if isinstance(self.objects, GcsBucket):
            return GcsObjects(bucket=self.place, object_name=TEMPLATE)
        if isinstance(self.objects, HdfsObjects):
            return HdfsFiles(**self._hdfs)
        return S3Objects(bucket=self.place, key=TEMPLATE)

    @property
    def options(self) -> list[str]:
        """The options of the command line that say where the objects are."""
        if isinstance(self.objects, HdfsObjects):
            given = ["--storage", "hdfs", "--hdfs-url", self.objects.server.url]
            return [*given, "--key", f"/{self.place}/{TEMPLATE}"]
        kinds = {AzureObjects: "azure", GcsBucket: "gcs"}
        return ["--storage", kinds.get(type(self.objects), "s3"), "--bucket", self.place, "--key", TEMPLATE]

    def operator(self, **options: Any) -> S3ToClickHouseOperator:
        arguments = {"task_id": "load", "table": "trips", "database": self.database, "period": PERIOD}
        arguments |= {"cluster": self.cluster.name, "progress_interval_seconds": 0.2}
        if isinstance(self.objects, AzureObjects):
            return AzureBlobToClickHouseOperator(
                **grouped(**{"container": self.place, "blob": TEMPLATE} | arguments | options)
            )
        if isinstance(self.objects, GcsBucket):
            return GCSToClickHouseOperator(
                **grouped(**{"bucket": self.place, "object_name": TEMPLATE} | arguments | options)
            )
        if isinstance(self.objects, HdfsObjects):
            return HdfsToClickHouseOperator(**grouped(**self._hdfs | arguments | options))
        return S3ToClickHouseOperator(**grouped(**{"bucket": self.place, "key": TEMPLATE} | arguments | options))

    @property
    def _hdfs(self) -> dict[str, str]:
        return {"path": f"/{self.place}/{TEMPLATE}", "hdfs_url": self.objects.server.url}

    def load(self, **options: Any) -> dict[str, Any]:
        return self.operator(**options).execute({})

    def on_every_node(self, sql: str) -> list[list[tuple[Any, ...]]]:
        answers = []
        for node in self.cluster.nodes:
            with node.client() as client:
                answers.append(client.execute(sql))
        return answers

    def facts(self, period: str = PERIOD) -> PeriodFacts:
        with self.cluster.nodes[0].client() as client:
            return read_facts(client, f"cluster('{self.cluster.name}', {self.database}, trips)", period)

    def left_behind(self) -> list[str]:
        """Staging tables of loads, on any node."""
        like = "name LIKE 'chs3\\_%' AND name NOT IN ('chs3_ledger', 'chs3_loads', 'chs3_objects')"
        sql = f"SELECT name FROM system.tables WHERE database = '{self.database}' AND {like}"
        return [name for rows in self.on_every_node(sql) for (name,) in rows]

    def rows(self) -> int:
        return sum(rows[0][0] for rows in self.on_every_node(f"SELECT count() FROM {self.database}.trips"))
