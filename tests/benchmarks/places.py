"""A period of trips in each source that periods are loaded from."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.sources import azure, database, delta, gcs, hdfs, iceberg, mysql, postgres
from airflow_provider_chs3.sources import s3 as s3_storage
from airflow_provider_chs3.testbed.s3 import S3Endpoint, S3Server
from airflow_provider_chs3.testbed.trips import COLUMNS, WRITERS, Trips
from tests.sources.hdfs import HdfsServer
from tests.sources.lakehouses import DeltaTable, IcebergTable
from tests.sources.objects import AzureObjects, GcsObjects, HdfsObjects, Objects, S3Objects
from tests.sources.rows import MySqlRows, PostgresRows, Rows
from tests.sources.servers.azure import AzureServer
from tests.sources.servers.gcs import GcsServer
from tests.sources.servers.mysql import MySqlServer
from tests.sources.servers.postgres import PostgresServer

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_chs3.sources.storage import Storage

PERIOD = "2026-01"
_TEMPLATE, _PATTERN = "trips/{YYYY-MM}/*.parquet", f"trips/{PERIOD}/*.parquet"


@dataclass(frozen=True, kw_only=True)
class FilledPlace:
    """A source that has the period."""

    function: str
    objects: Storage
    s3: S3Endpoint | None = None
    rows: Rows | None = None


@dataclass(frozen=True, kw_only=True)
class PlaceKind:
    """A kind of source."""

    title: str
    fill: Callable[[ExitStack, S3Endpoint, Iterator[pa.Table]], FilledPlace]
    rows: int = 4_000_000
    rows_in_quick: int = 100_000
    files: int = 4
    copies: int = 1

    def filled(self, servers: ExitStack, s3: S3Endpoint, rows_of_all: int) -> FilledPlace:
        """Start the server, and put the period into it."""
        each = rows_of_all // self.files // self.copies
        tables = (Trips(seed=number, rows_per_period=each).table(PERIOD) for number in range(self.files))
        place = self.fill(servers, s3, tables)
        if place.rows and self.copies > 1:
            _append_copies(place.rows, self.copies)
        return place


def _connect(conn_id: str, connection: dict[str, Any]) -> None:
    os.environ[f"AIRFLOW_CONN_{conn_id.upper()}"] = json.dumps(connection)


def _put_files(place: Objects, tables: Iterator[pa.Table]) -> str:
    """Put each table as a file; give the function that reads all of them."""
    for number, table in enumerate(tables):
        place.put(_TEMPLATE.replace("{YYYY-MM}", PERIOD).replace("*", f"{number:03}"), WRITERS["parquet"](table))
    return place.function(_PATTERN)


def _s3(servers: ExitStack, s3: S3Endpoint, tables: Iterator[pa.Table]) -> FilledPlace:
    place = S3Objects.create(s3)
    return FilledPlace(
        function=_put_files(place, tables), objects=s3_storage.S3Objects(bucket=place.bucket, key=_TEMPLATE), s3=s3
    )


def _azure(servers: ExitStack, s3: S3Endpoint, tables: Iterator[pa.Table]) -> FilledPlace:
    server = servers.enter_context(AzureServer.start())
    keys = {"login": server.account_name, "password": server.account_key, "host": server.account_url}
    _connect("wasb_default", {"conn_type": "wasb", **keys})
    place = AzureObjects.create(server)
    store = azure.AzureBlobs(container=place.container, blob=_TEMPLATE)
    return FilledPlace(function=_put_files(place, tables), objects=store)


def _gcs(servers: ExitStack, s3: S3Endpoint, tables: Iterator[pa.Table]) -> FilledPlace:
    server = servers.enter_context(GcsServer.start())
    _connect("gcs_hmac_default", server.airflow_connection())
    place = GcsObjects.create(server)
    store = gcs.GcsObjects(bucket=place.bucket, object_name=_TEMPLATE)
    return FilledPlace(function=_put_files(place, tables), objects=store)


def _hdfs(servers: ExitStack, s3: S3Endpoint, tables: Iterator[pa.Table]) -> FilledPlace:
    server = servers.enter_context(HdfsServer.start())
    _connect("webhdfs_default", server.airflow_connection())
    place = HdfsObjects.create(server)
    store = hdfs.HdfsFiles(path=f"/{place.folder}/{_TEMPLATE}", hdfs_url=server.url)
    return FilledPlace(function=_put_files(place, tables), objects=store)


def _put_rows(place: Rows, kind: type[database.TableRows], tables: Iterator[pa.Table]) -> FilledPlace:
    server, conn_type = place.server, "mysql" if isinstance(place, MySqlRows) else "postgres"
    login = {"login": server.user, "password": server.password, "schema": server.database}
    connection = {"conn_type": conn_type, "host": server.host, "port": server.port, **login}
    _connect(f"{conn_type}_default", connection)
    for table in tables:
        place.put(table)
    store = kind(table=place.table, time_column="pickup_at", key_column="trip_id")
    return FilledPlace(function=place.function(), objects=store, rows=place)


def _append_copies(place: Rows, copies: int) -> None:
    """Let the database append its rows again, with other keys: rows from here take fifty times as long."""
    key, *others = COLUMNS
    with closing(place.connection()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(f"SELECT max({key}) + 1 FROM {place.table}")
        ((step,),) = cursor.fetchall()
        for copy in range(1, copies):
            read = f"SELECT {', '.join([f'{key} + {copy * step}', *others])} FROM {place.table} WHERE {key} < {step}"
            cursor.execute(f"INSERT INTO {place.table} {read}")
        connection.commit()


def _postgres(servers: ExitStack, s3: S3Endpoint, tables: Iterator[pa.Table]) -> FilledPlace:
    place = PostgresRows.create(servers.enter_context(PostgresServer.start()))
    return _put_rows(place, postgres.PostgresRows, tables)


def _mysql(servers: ExitStack, s3: S3Endpoint, tables: Iterator[pa.Table]) -> FilledPlace:
    place = MySqlRows.create(servers.enter_context(MySqlServer.start()))
    return _put_rows(place, mysql.MySqlRows, tables)


def _iceberg(servers: ExitStack, s3: S3Endpoint, tables: Iterator[pa.Table]) -> FilledPlace:
    folder = Path(servers.enter_context(tempfile.TemporaryDirectory(prefix="chs3-bench-iceberg-")))
    table = IcebergTable(s3, S3Objects.create(s3).bucket, folder)
    for each in tables:
        table.put(each)
    _connect("iceberg_default", table.connection)
    store = iceberg.IcebergTable(table="lake.trips", time_column="pickup_at")
    return FilledPlace(function=table.function(), objects=store, s3=s3)


def _delta(servers: ExitStack, s3: S3Endpoint, tables: Iterator[pa.Table]) -> FilledPlace:
    # ClickHouse sends an empty token for Delta, which a server that checks keys refuses.
    tokenless = servers.enter_context(S3Server.start(anonymous=True))
    table = DeltaTable(tokenless, S3Objects.create(tokenless).bucket, Path())
    for each in tables:
        table.put(each)
    store = delta.DeltaTable(uri=table.uri, time_column="period")
    return FilledPlace(function=table.function(), objects=store, s3=tokenless)


#: Into a database rows are put one after the other, so it gets fewer.
DATABASES = (
    PlaceKind(title="PostgreSQL", fill=_postgres, rows=1_000_000, rows_in_quick=50_000),
    PlaceKind(title="MariaDB", fill=_mysql, rows=1_000_000, rows_in_quick=50_000),
)
PLACES = (
    PlaceKind(title="S3, Parquet", fill=_s3),
    PlaceKind(title="Azure Blob (Azurite), Parquet", fill=_azure),
    PlaceKind(title="GCS (fake-gcs-server), Parquet", fill=_gcs),
    PlaceKind(title="HDFS (minicluster), Parquet", fill=_hdfs),
    PlaceKind(title="Iceberg", fill=_iceberg),
    PlaceKind(title="Delta (on moto)", fill=_delta),
    *DATABASES,
)
