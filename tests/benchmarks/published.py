"""Objects of many periods as files of an S3 server's folder, and a table that has them all as published."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_provider_chs3.core.ledger.table import create_ledger
from airflow_provider_chs3.core.values.models import Fingerprint, TableName
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import create_table_sql
from tests.benchmarks.servers import BenchS3

TABLE = "planned"
#: Of a file of one byte.
_ETAG = "9dd4e461268c8034f5c8564e155c67a6"
_LINKS_OF_A_FILE = 50_000


@dataclass(frozen=True, kw_only=True)
class Objects:
    """Objects of one byte, as many in each period.

    Args:
        bucket: Their bucket.
        prefix: What their keys begin with.
        periods: `YYYY-MM` of each period.
        count: How many objects, of all periods.
    """

    bucket: str
    prefix: str
    periods: Sequence[str]
    count: int

    @property
    def key(self) -> str:
        """Names the period."""
        return f"{self.prefix}/{{YYYY-MM}}/*.parquet"

    def keys(self, period: str) -> Iterator[str]:
        """The keys of a period, in their order."""
        for number in range(self.count // len(self.periods)):
            yield f"{self.prefix}/{period}/part-{number:06}.parquet"

    def put(self, s3: BenchS3) -> None:
        """Make them: where a bucket is a folder, as hard links to one file, a million of them in ten seconds."""
        if s3.folder is None:
            client = s3.endpoint.client()
            for period in self.periods:
                for key in self.keys(period):
                    client.put_object(Bucket=self.bucket, Key=key, Body=b"x")
            return
        for period in self.periods:
            (s3.folder / self.bucket / self.prefix / period).mkdir(parents=True)
        paths = [str(s3.folder / self.bucket / key) for period in self.periods for key in self.keys(period)]
        for first in range(0, len(paths), _LINKS_OF_A_FILE):
            Path(paths[first]).write_bytes(b"x")
            # Where VersityGW keeps it.
            os.setxattr(paths[first], "user.etag", f'"{_ETAG}"'.encode())
            for path in paths[first + 1 : first + _LINKS_OF_A_FILE]:
                os.link(paths[first], path)

    def fingerprints(self) -> dict[str, str]:
        """Period to the fingerprint of its objects."""
        found = {}
        for period in self.periods:
            fingerprint, paths = Fingerprint(), [f"{self.bucket}/{key}" for key in self.keys(period)]
            fingerprint.add(paths, [1] * len(paths), [_ETAG] * len(paths))
            found[period] = str(fingerprint)
        return found


def create_table(cluster: ClickHouseCluster, periods: Sequence[str]) -> None:
    """A table with a row of each period on each node, and an empty ledger."""
    for node in cluster.nodes:
        with node.client() as client:
            client.execute(create_table_sql(f"default.{TABLE}"))
            client.execute(create_ledger(TableName("default", "chs3_ledger")).text)
            client.execute(
                f"INSERT INTO {TABLE} (trip_id, pickup_at) SELECT 1, arrayJoin({_dates(periods)})",
                settings={"max_partitions_per_insert_block": 0},
            )


def publish(cluster: ClickHouseCluster, objects: Objects) -> None:
    """Record all periods as published from these objects, and from none else."""
    fingerprints = objects.fingerprints()
    values: dict[str, Any] = {
        "ids": [period.replace("-", "") for period in fingerprints],
        "prints": list(fingerprints.values()),
        "nodes": len(cluster.nodes),
        "bytes": objects.count // len(objects.periods),
    }
    for node in cluster.nodes:
        with node.client() as client:
            client.execute("TRUNCATE TABLE chs3_ledger")
            client.execute(
                "INSERT INTO chs3_ledger (sequence, event, target_database, target_table, target_uuid, period, "
                "partition_id, attempt, fingerprint, definition, source_bytes, nodes, rows, min_block, max_block, "
                "data_version, evidence) SELECT 1, 'published', database, table, "
                "(SELECT toString(uuid) FROM system.tables "
                f"WHERE database = 'default' AND name = '{TABLE}'), "
                "concat(substring(partition_id, 1, 4), '-', substring(partition_id, 5)), partition_id, 'bench', "
                "transform(partition_id, %(ids)s, %(prints)s, ''), '', %(bytes)s, %(nodes)s, rows, min_block_number, "
                "max_block_number, data_version, concat('{\"rows\":', toString(rows), ',\"parts\":null}') "
                "FROM system.parts WHERE active AND database = 'default' "
                f"AND table = '{TABLE}'",
                values,
            )


def _dates(periods: Sequence[str]) -> str:
    return "[" + ", ".join(f"toDateTime('{period}-05 00:00:00', 'UTC')" for period in periods) + "]"
