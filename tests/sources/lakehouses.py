"""Tables of trips as Iceberg and Delta keep them in a bucket, all of one shape, so that one test runs on each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.sql.quoting import literal, literals
from airflow_provider_chs3.testbed.s3 import S3Endpoint

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Lakehouse(ABC):
    """A table of trips in a bucket, partitioned by period; it is there after the first `put`."""

    s3: S3Endpoint
    bucket: str
    #: For what is not in the bucket: the catalog.
    folder: Path

    @abstractmethod
    def put(self, table: pa.Table) -> None:
        """Append rows of trips; they become files of their periods."""

    @abstractmethod
    def put_in_one_file(self, table: pa.Table) -> None:
        """Append rows of trips to a table that has no partitions."""

    @abstractmethod
    def overwrite(self, table: pa.Table, period: str) -> None:
        """Put rows of trips in place of all of a period."""

    @abstractmethod
    def delete(self, condition: str) -> None:
        """Delete rows, in the table's own language."""

    def remove(self, paths: Iterable[str]) -> None:
        """Remove data files from the bucket, as a vacuum does."""
        client = self.s3.client()
        for path in paths:
            bucket, _, key = path.partition("/")
            client.delete_object(Bucket=bucket, Key=key)

    @abstractmethod
    def function(self, *, cluster: str = "") -> str:
        """The table function that reads the rows, on this node or on all of a cluster."""

    def _function(self, name: str, in_cluster: str, cluster: str) -> str:
        place = [f"{self.s3.endpoint_url}/{self.bucket}/trips/", self.s3.access_key, self.s3.secret_key]
        return f"{in_cluster}({literal(cluster)}, {literals(place)})" if cluster else f"{name}({literals(place)})"


class IcebergTable(Lakehouse):
    """A table of pyiceberg, with a catalog in SQLite; those with other catalogs come from it."""

    def put(self, table: pa.Table) -> None:
        rows = known_types(table)
        self.table(rows.schema).append(rows)

    def put_in_one_file(self, table: pa.Table) -> None:
        rows = known_types(table)
        self.table(rows.schema, is_partitioned=False).append(rows)

    def overwrite(self, table: pa.Table, period: str) -> None:
        year, number = map(int, period.split("-"))
        first, after = date(year, number, 1), date(year + number // 12, number % 12 + 1, 1)
        rows = known_types(table)
        condition = f"pickup_at >= '{first}T00:00:00+00:00' and pickup_at < '{after}T00:00:00+00:00'"
        self.table().overwrite(rows, overwrite_filter=condition)

    def delete(self, condition: str) -> None:
        self.table().delete(condition)

    def table(self, schema: pa.Schema | None = None, *, is_partitioned: bool = True) -> Any:
        """The table for pyiceberg: its snapshots, and the files of each; made of the schema if it is not there yet."""
        catalog = self.catalog()
        if schema is None or catalog.table_exists("lake.trips"):
            return catalog.load_table("lake.trips")
        catalog.create_namespace_if_not_exists("lake")
        created = catalog.create_table("lake.trips", schema, location=f"s3://{self.bucket}/trips")
        if is_partitioned:
            with created.update_spec() as spec:
                spec.add_field("pickup_at", "month", "month")
        return created

    def catalog(self) -> Any:
        """The catalog for pyiceberg."""
        from pyiceberg.catalog.sql import SqlCatalog

        return SqlCatalog("chs3", uri=f"sqlite:///{self.folder}/catalog.db", **self.s3_properties)

    @property
    def s3_properties(self) -> dict[str, str]:
        """How pyiceberg gets at the bucket."""
        server = self.s3
        keys = {"s3.access-key-id": server.access_key, "s3.secret-access-key": server.secret_key}
        return {
            "s3.endpoint": server.endpoint_url,
            "s3.region": server.region,
            "warehouse": f"s3://{self.bucket}",
        } | keys

    @property
    def connection(self) -> dict[str, Any]:
        """Airflow's connection to the catalog."""
        catalog = {"type": "sql", "uri": f"sqlite:///{self.folder}/catalog.db"}
        return {"conn_type": "iceberg", "extra": catalog}

    def function(self, *, cluster: str = "") -> str:
        return self._function("icebergS3", "icebergS3Cluster", cluster)


class DeltaTable(Lakehouse):
    """A table of delta-rs; its partition column, `period`, is one more than trips have."""

    def put(self, table: pa.Table) -> None:
        from deltalake import write_deltalake

        rows = _with_period(table)
        write_deltalake(self.uri, rows, mode="append", partition_by=["period"], storage_options=self.storage_options)

    def put_in_one_file(self, table: pa.Table) -> None:
        from deltalake import write_deltalake

        write_deltalake(self.uri, known_types(table), mode="append", storage_options=self.storage_options)

    def overwrite(self, table: pa.Table, period: str) -> None:
        from deltalake import write_deltalake

        where = {"mode": "overwrite", "predicate": f"period = '{period}'"}
        write_deltalake(self.uri, _with_period(table), storage_options=self.storage_options, **where)

    def delete(self, condition: str) -> None:
        self.table().delete(condition)

    def table(self) -> Any:
        """The table for deltalake: its versions, and the files of each."""
        import deltalake

        return deltalake.DeltaTable(self.uri, storage_options=self.storage_options)

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/trips"

    @property
    def storage_options(self) -> dict[str, str]:
        """For `deltalake.DeltaTable(uri, storage_options=…)`: its versions, and the files of each."""
        server = self.s3
        keys = {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
        return {**keys, "AWS_ENDPOINT_URL": server.endpoint_url, "AWS_REGION": server.region, "AWS_ALLOW_HTTP": "true"}

    def function(self, *, cluster: str = "") -> str:
        return self._function("deltaLake", "deltaLakeCluster", cluster)


def _with_period(table: pa.Table) -> pa.Table:
    import pyarrow.compute as pc

    rows = known_types(table)
    return rows.append_column("period", pc.strftime(rows["pickup_at"], "%Y-%m"))


def known_types(table: pa.Table) -> pa.Table:
    """Trips in types that these formats know: no unsigned numbers, and times in microseconds."""
    import pyarrow as pa

    own = {pa.uint64(): pa.int64(), pa.uint8(): pa.int32(), pa.timestamp("s", tz="UTC"): pa.timestamp("us", tz="UTC")}
    return table.cast(pa.schema([(column.name, own.get(column.type, column.type)) for column in table.schema]))
