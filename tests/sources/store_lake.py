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
from airflow_provider_chs3.transfers.azure_blob_to_clickhouse import AzureBlobToClickHouseOperator
from airflow_provider_chs3.transfers.gcs_to_clickhouse import GCSToClickHouseOperator
from airflow_provider_chs3.transfers.hdfs_to_clickhouse import HdfsToClickHouseOperator
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.sources.objects import AzureObjects, HdfsObjects, Objects
from tests.sources.objects import GcsObjects as GcsBucket
from tests.sources.trips_target import TripsTarget
from tests.support.arguments import grouped

if TYPE_CHECKING:
    import pytest

    from airflow_provider_chs3.testbed.nodes import Cluster

TEMPLATE = "trips/{YYYY-MM}/**"


@dataclass
class StoreLake(TripsTarget):
    """Objects of one storage, the table `trips` on every node, and loads from one to the other."""

    objects: Objects
    cluster: Cluster
    database: str

    @classmethod
    def create(cls, objects: Objects, cluster: Cluster, database: str, monkeypatch: pytest.MonkeyPatch) -> StoreLake:
        lake = cls(objects, cluster, database)
        lake.connect(monkeypatch)
        lake.create_target(monkeypatch)
        return lake

    def connect(self, monkeypatch: pytest.MonkeyPatch, **wrong: str) -> None:
        """Make Airflow's connection to the storage."""
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
        """The proof of the rows of text."""
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
        kind, where = S3ToClickHouseOperator, {"bucket": self.place, "key": TEMPLATE}
        if isinstance(self.objects, AzureObjects):
            kind, where = AzureBlobToClickHouseOperator, {"container": self.place, "blob": TEMPLATE}
        if isinstance(self.objects, GcsBucket):
            kind, where = GCSToClickHouseOperator, {"bucket": self.place, "object_name": TEMPLATE}
        if isinstance(self.objects, HdfsObjects):
            kind, where = HdfsToClickHouseOperator, self._hdfs
        return kind(**grouped(**where | self.arguments | options))

    @property
    def _hdfs(self) -> dict[str, str]:
        return {"path": f"/{self.place}/{TEMPLATE}", "hdfs_url": self.objects.server.url}

    def load(self, **options: Any) -> dict[str, Any]:
        return self.operator(**options).execute({})

    def rows(self) -> int:
        return sum(self.rows_per_node())
