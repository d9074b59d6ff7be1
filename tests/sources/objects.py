"""Places of objects, all of one shape, so that one test runs on each of them."""

from __future__ import annotations

import json
import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.sql.quoting import literal, literals
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from airflow_provider_chs3.testbed.trips import COLUMNS, Format, Trips
from tests.sources.hdfs import HdfsServer
from tests.sources.servers.azure import AzureServer
from tests.sources.servers.gcs import GcsServer

if TYPE_CHECKING:
    import pytest

#: The structure of trips, as table functions take it.
STRUCTURE = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())


class Objects(ABC):
    """A bucket, a container or a folder, empty at first."""

    @abstractmethod
    def put(self, key: str, body: bytes) -> None:
        """Put an object, in place of one of the same key."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Delete an object."""

    @abstractmethod
    def function(self, pattern: str, *, cluster: str = "", file_format: str = "Parquet") -> str:
        """The table function that reads trips of all keys of a pattern, on this node or on all of a cluster."""

    def upload(self, trips: Trips, period: str, *, file_format: Format = "parquet") -> list[str]:
        """Put a period's files at `trips/<period>/`; returns their keys."""
        keys = []
        for name, body in trips.files(period, file_format=file_format):
            keys.append(f"trips/{period}/{name}")
            self.put(keys[-1], body)
        return keys


def _function(name: str, cluster: str, arguments: str) -> str:
    return f"{name}Cluster({literal(cluster)}, {arguments})" if cluster else f"{name}({arguments})"


@dataclass(frozen=True)
class S3Objects(Objects):
    """A bucket of S3."""

    server: S3Endpoint
    bucket: str

    @classmethod
    def create(cls, server: S3Endpoint) -> S3Objects:
        bucket = f"chs3-{uuid.uuid4().hex[:12]}"
        server.client().create_bucket(Bucket=bucket)
        return cls(server, bucket)

    def put(self, key: str, body: bytes) -> None:
        self.server.client().put_object(Bucket=self.bucket, Key=key, Body=body)

    def delete(self, key: str) -> None:
        self.server.client().delete_object(Bucket=self.bucket, Key=key)

    def function(self, pattern: str, *, cluster: str = "", file_format: str = "Parquet") -> str:
        url = f"{self.server.endpoint_url}/{self.bucket}/{pattern}"
        return _function(
            "s3", cluster, literals([url, self.server.access_key, self.server.secret_key, file_format, STRUCTURE])
        )


@dataclass(frozen=True)
class GcsObjects(S3Objects):
    """A bucket of Google Cloud Storage, which ClickHouse reads as one of S3."""

    server: GcsServer

    @classmethod
    def create(cls, server: GcsServer) -> GcsObjects:
        bucket = f"chs3-{uuid.uuid4().hex[:12]}"
        server.create_bucket(bucket)
        return cls(server, bucket)

    def put(self, key: str, body: bytes) -> None:
        self.server.put(self.bucket, key, body)

    def delete(self, key: str) -> None:
        self.server.delete(self.bucket, key)


@dataclass(frozen=True)
class AzureObjects(Objects):
    """A container of Azure Blob Storage."""

    server: AzureServer
    container: str

    @classmethod
    def create(cls, server: AzureServer) -> AzureObjects:
        objects = cls(server, f"chs3-{uuid.uuid4().hex[:12]}")
        objects.client().create_container()
        return objects

    def client(self) -> Any:
        from azure.storage.blob import ContainerClient

        return ContainerClient.from_connection_string(self.server.connection_string, self.container)

    def connect_by(self, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make Airflow's connection in another form than with a key: `connection_string` or `sas_token`."""
        given = {"conn_type": "wasb", "extra": {"connection_string": self.server.connection_string}}
        if form == "sas_token":
            given = {"conn_type": "wasb", "host": self.server.account_url, "extra": {"sas_token": self._sas_token()}}
        monkeypatch.setenv("AIRFLOW_CONN_WASB_DEFAULT", json.dumps(given))

    def _sas_token(self) -> str:
        from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

        return generate_account_sas(
            self.server.account_name,
            self.server.account_key,
            resource_types=ResourceTypes(container=True, object=True),
            permission=AccountSasPermissions(read=True, list=True),
            expiry=datetime.now(UTC) + timedelta(hours=1),
        )

    def put(self, key: str, body: bytes) -> None:
        with self.client() as client:
            client.upload_blob(key, body, overwrite=True)

    def append(self, key: str, body: bytes) -> None:
        """Write more to an append blob, which is created by the first."""
        with self.client() as client:
            blob = client.get_blob_client(key)
            if not blob.exists():
                blob.create_append_blob()
            blob.append_block(body)

    def delete(self, key: str) -> None:
        with self.client() as client:
            client.delete_blob(key)

    def function(self, pattern: str, *, cluster: str = "", file_format: str = "Parquet") -> str:
        place = [self.server.connection_string, self.container, pattern]
        return _function("azureBlobStorage", cluster, literals([*place, file_format, "auto", STRUCTURE]))


@dataclass(frozen=True)
class HdfsObjects(Objects):
    """A folder of HDFS."""

    server: HdfsServer
    folder: str

    @classmethod
    def create(cls, server: HdfsServer) -> HdfsObjects:
        return cls(server, f"chs3-{uuid.uuid4().hex[:12]}")

    def put(self, key: str, body: bytes) -> None:
        self.server.put(f"/{self.folder}/{key}", body)

    def append(self, key: str, body: bytes) -> None:
        """Write more to a file, which is created by the first."""
        path = f"/{self.folder}/{key}"
        if self.server.exists(path):
            self.server.append(path, body)
        else:
            self.server.put(path, body)

    def delete(self, key: str) -> None:
        self.server.delete(f"/{self.folder}/{key}")

    def function(self, pattern: str, *, cluster: str = "", file_format: str = "Parquet") -> str:
        return _function(
            "hdfs", cluster, literals([f"{self.server.url}/{self.folder}/{pattern}", file_format, STRUCTURE])
        )
