"""Carries out cases: whole loads under hostile profiles, each of which must be exact or refused."""

from __future__ import annotations

import io
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.nodes import LOADER
from airflow_provider_chs3.testbed.pytest_plugin import S3_NAMED_COLLECTION
from airflow_provider_chs3.testbed.s3 import S3Server
from tests.profiles.hostile import FORMATS, Case

MONTH = "2026-10"
DATABASE = "test_profiles"
FILES, ROWS = 4, 6

Row = tuple[int, int, str, float | None]
#: One that is asked, and one that it asks.
_NODES = 2
#: Cases of one cluster: each has users of its own in the configuration.
_BATCH = 250


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case.

    Attributes:
        kind: `exact` or `refused`, which are right; `wrong`, `changed` and `crashed`, which are not.
        error: The first line of the error.
        seconds: How long it took.
    """

    kind: str
    error: str
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether it kept the promise."""
        return self.kind in ("exact", "refused")


def carry_out(s3: S3Server, cases: Sequence[Case]) -> Iterator[tuple[Case, Outcome]]:
    """Carry out cases one after the other, on as many clusters as they take."""
    bucket = _bucket(s3)
    for first in range(0, len(cases), _BATCH):
        batch = cases[first : first + _BATCH]
        with _cluster(s3, batch) as cluster:
            tables: dict[str, int] = {}
            for number, case in enumerate(batch):
                yield case, _carry_out(cluster, s3, bucket, case, number, tables)


@contextmanager
def _cluster(s3: S3Server, batch: Sequence[Case]) -> Iterator[ClickHouseCluster]:
    profiles = {case.user(number): case.settings for number, case in enumerate(batch)}
    clusters = {f"as{number}": case.user(number) for number, case in enumerate(batch) if case.where == "nodes"}
    collections = {S3_NAMED_COLLECTION: s3.named_collection()}
    with ClickHouseCluster.start(
        _NODES, named_collections=collections, profiles=profiles, clusters=clusters, secret="chs3"
    ) as cluster:
        _on_each(cluster, f"CREATE DATABASE {DATABASE}")
        yield cluster


def _bucket(s3: S3Server) -> str:
    """Two versions of a month in each format, of which a load replaces one by the other."""
    bucket = f"chs3-{uuid.uuid4().hex[:12]}"
    s3.client().create_bucket(Bucket=bucket)
    for file_format in FORMATS:
        for version in (0, 1):
            for file in range(FILES):
                key = f"{file_format}/{version}/{MONTH}/{file}.{file_format.lower()}"
                s3.client().put_object(Bucket=bucket, Key=key, Body=_body(file_format, _rows(version, file)))
    return bucket


def _rows(version: int, file: int) -> list[Row]:
    first = 1000 * version + ROWS * file
    return [
        (first + at, 1790812800 + 3600 * at + file, f"n{at}, \t'x'", None if at % 3 else at / 4) for at in range(ROWS)
    ]


def _body(file_format: str, rows: Sequence[Row]) -> bytes:
    n, seconds, text, part = zip(*rows, strict=True)
    if file_format == "Parquet":
        buffer = io.BytesIO()
        at = pa.array([each * 1000 for each in seconds], pa.timestamp("ms", tz="UTC"))
        columns = {"n": pa.array(n, pa.int64()), "at": at, "text": pa.array(text), "part": pa.array(part, pa.float64())}
        pq.write_table(pa.table(columns), buffer)
        return buffer.getvalue()
    times = [time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(each)) for each in seconds]
    if file_format == "CSV":
        lines = [
            f'{number},{at},"{word}",{"" if half is None else half}'
            for number, at, word, half in zip(n, times, text, part, strict=True)
        ]
        return "\n".join(["n,at,text,part", *lines, ""]).encode()
    return "".join(
        json.dumps({"n": number, "at": at, "text": word, "part": half}) + "\n"
        for number, at, word, half in zip(n, times, text, part, strict=True)
    ).encode()


def _carry_out(
    cluster: ClickHouseCluster, s3: S3Server, bucket: str, case: Case, number: int, tables: dict[str, int]
) -> Outcome:
    """`tables` says for each format which version its table holds."""
    if case.file_format not in tables:
        _create(cluster, case.file_format)
    version = 1 - tables.get(case.file_format, 1)
    before = _content(cluster, case.file_format)
    began = time.monotonic()
    kind, error = _load(lambda: _operator(cluster, s3, bucket, case, number, version).execute({}))
    seconds = round(time.monotonic() - began, 2)
    now = _content(cluster, case.file_format)
    wanted = sorted(row for file in range(FILES) for row in _rows(version, file))
    if kind == "exact" and now == wanted:
        tables[case.file_format] = version
        return Outcome(kind, error, seconds)
    if kind == "refused" and now == before:
        tables.setdefault(case.file_format, 1)
        return Outcome(kind, error, seconds)
    _on_each(cluster, f"DROP TABLE IF EXISTS {DATABASE}.{case.file_format}")
    tables.pop(case.file_format, None)
    if kind == "crashed":
        return Outcome(kind, error, seconds)
    return Outcome("wrong" if kind == "exact" else "changed", error or f"{len(now)} rows, {now[:3]} …", seconds)


def _load(run: Callable[[], Any]) -> tuple[str, str]:
    from airflow.providers.common.compat.sdk import AirflowException

    from airflow_provider_chs3.exceptions import Chs3Error

    try:
        run()
    except (Chs3Error, AirflowException) as error:
        return "refused", str(error).splitlines()[0][:500]
    except Exception as error:
        return "crashed", f"{type(error).__name__}: {error}"[:500]
    return "exact", ""


def _operator(cluster: ClickHouseCluster, s3: S3Server, bucket: str, case: Case, number: int, version: int) -> Any:
    from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

    user = case.user(number) if case.where == "user" else LOADER
    connection = cluster.airflow_connection() | {"login": user.login, "password": user.password}
    os.environ["AIRFLOW_CONN_CHS3_DEFAULT"] = json.dumps(connection)
    os.environ["AIRFLOW_CONN_AWS_DEFAULT"] = json.dumps(s3.airflow_connection())
    key = f"{case.file_format}/{version}/{{YYYY-MM}}/"
    where: dict[str, Any] = {"bucket": bucket, "key": key}
    if case.through == "collection":
        where = {"named_collection": S3_NAMED_COLLECTION, "key": f"{bucket}/{key}", "aws_conn_id": None}
    return S3ToClickHouseOperator(
        task_id="load",
        database=DATABASE,
        table=case.file_format,
        month=MONTH,
        cluster=f"as{number}" if case.where == "nodes" else cluster.name,
        file_format=case.file_format.replace("CSV", "CSVWithNames"),
        **where,
    )


def _create(cluster: ClickHouseCluster, table: str) -> None:
    _on_each(
        cluster,
        f"CREATE TABLE {DATABASE}.{table} (n Int64, at DateTime('UTC'), text String, part Nullable(Float64)) "
        "ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY n",
    )


def _content(cluster: ClickHouseCluster, table: str) -> list[Row]:
    rows = _on_each(cluster, f"SELECT n, toUnixTimestamp(at), text, part FROM {DATABASE}.{table}")
    return sorted(tuple(row) for row in rows)


def _on_each(cluster: ClickHouseCluster, sql: str) -> list[Any]:
    found: list[Any] = []
    for node in cluster.nodes:
        with node.client() as client:
            found += client.execute(sql)
    return found
