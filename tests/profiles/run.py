"""Carries out cases: three nights under hostile settings, each exact, or refused before the first writes."""

from __future__ import annotations

import io
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.nodes import LOADER
from airflow_provider_chs3.testbed.pytest_plugin import S3_NAMED_COLLECTION
from airflow_provider_chs3.testbed.s3 import S3Server
from tests.profiles.hostile import Case
from tests.support.arguments import grouped

PERIOD = "2026-10"
#: Loaded together with it from the second night on.
OTHERS = ("2026-11", "2026-12")
DATABASE = "test_profiles"
FILES, ROWS = 4, 6

Row = tuple[int, int, str, float | None]
#: One that is asked, and one that it asks.
_NODES = 2
#: Cases of one cluster: each has users of its own in the configuration.
_BATCH = 250


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case."""

    kind: str
    error: str
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether it kept the promise."""
        return self.kind in ("exact", "refused")


def carry_out(s3: S3Server, cases: Sequence[Case]) -> Iterator[tuple[Case, Outcome]]:
    """Carry out cases one after the other, on as many clusters as they take."""
    bucket = f"chs3-{uuid.uuid4().hex[:12]}"
    s3.client().create_bucket(Bucket=bucket)
    for first in range(0, len(cases), _BATCH):
        batch = cases[first : first + _BATCH]
        with _cluster(s3, batch) as cluster:
            for number, case in enumerate(batch):
                play = _Play(cluster, s3, bucket, case, number, first + number)
                began = time.monotonic()
                kind, error = play.outcome()
                yield case, Outcome(kind, error, round(time.monotonic() - began, 2))


@contextmanager
def _cluster(s3: S3Server, batch: Sequence[Case]) -> Iterator[ClickHouseCluster]:
    profiles = {
        case.user(number): {} if case.where == "connection" else case.settings for number, case in enumerate(batch)
    }
    clusters = {f"as{number}": case.user(number) for number, case in enumerate(batch) if case.where == "nodes"}
    collections = {S3_NAMED_COLLECTION: s3.named_collection()}
    with ClickHouseCluster.start(
        _NODES, named_collections=collections, profiles=profiles, clusters=clusters, secret="chs3"
    ) as cluster:
        _on_each(cluster, f"CREATE DATABASE {DATABASE}")
        yield cluster


def _rows(period: str, file: int, version: int) -> list[Row]:
    first = 1000 * version + ROWS * file
    begin = int(datetime.fromisoformat(f"{period}-01T00:00:00+00:00").timestamp())
    return [(first + at, begin + 3600 * at + file, f"n{at}, \t'x'", None if at % 3 else at / 4) for at in range(ROWS)]


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


@dataclass
class _Play:
    """The nights of one case, with objects and a table of its own."""

    cluster: ClickHouseCluster
    s3: S3Server
    bucket: str
    case: Case
    number: int
    folder: int
    objects: dict[tuple[str, int], list[Row]] = field(default_factory=dict)

    @property
    def table(self) -> str:
        return f"case{self.number}"

    def outcome(self) -> tuple[str, str]:
        """Load a period; add a file to it, and load it with two others; overwrite a file, and load all again."""
        _create(self.cluster, self.table)
        try:
            for night, (periods, files) in enumerate(_NIGHTS):
                kind, error = self._night(periods, files)
                if kind != "exact":
                    return ("late" if kind == "refused" and night else kind), f"{error} (night {night + 1})"
            return "exact", ""
        finally:
            _on_each(self.cluster, f"DROP TABLE {DATABASE}.{self.table}")

    def _night(self, periods: Sequence[str], files: Sequence[tuple[str, int, int]]) -> tuple[str, str]:
        before = _content(self.cluster, self.table)
        for period, file, version in files:
            self._put(period, file, _rows(period, file, version))
        kind, error = _load(lambda: self._operator(periods).execute({}))
        wanted = sorted(row for rows in self.objects.values() for row in rows) if kind == "exact" else before
        now = _content(self.cluster, self.table)
        if kind == "crashed" or now == wanted:
            return kind, error
        return ("wrong" if kind == "exact" else "changed"), error or f"{len(now)} rows, {now[:3]} …"

    def _put(self, period: str, file: int, rows: list[Row]) -> None:
        self.objects[period, file] = rows
        key = f"{self.folder}/{period}/{file}.{self.case.file_format.lower()}"
        self.s3.client().put_object(Bucket=self.bucket, Key=key, Body=_body(self.case.file_format, rows))

    def _operator(self, periods: Sequence[str]) -> Any:
        from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

        case, cluster = self.case, self.cluster
        user = LOADER if case.where == "nodes" else case.user(self.number)
        connection = cluster.airflow_connection() | {"login": user.login, "password": user.password}
        if case.where == "connection":
            connection["extra"] = {**connection["extra"], "settings": case.settings}
        os.environ["AIRFLOW_CONN_CHS3_DEFAULT"] = json.dumps(connection)
        os.environ["AIRFLOW_CONN_AWS_DEFAULT"] = json.dumps(self.s3.airflow_connection())
        key = f"{self.folder}/{{YYYY-MM}}/"
        where: dict[str, Any] = {"bucket": self.bucket, "key": key}
        if case.through == "collection":
            where = {"named_collection": S3_NAMED_COLLECTION, "key": f"{self.bucket}/{key}", "aws_conn_id": None}
        arguments = where | {
            "task_id": "load",
            "database": DATABASE,
            "table": self.table,
            "cluster": f"as{self.number}" if case.where == "nodes" else cluster.name,
            "file_format": case.file_format.replace("CSV", "CSVWithNames"),
        }
        asked: dict[str, Any] = {"period": periods[0]} if len(periods) == 1 else {"periods": list(periods)}
        return S3ToClickHouseOperator(**grouped(**asked, **arguments))


#: The periods that a night loads, and the files that come before it: period, number, version.
_NIGHTS: Sequence[tuple[Sequence[str], Sequence[tuple[str, int, int]]]] = (
    ((PERIOD,), [(PERIOD, file, 0) for file in range(FILES)]),
    ((PERIOD, *OTHERS), [(PERIOD, FILES, 0), *((period, 0, 0) for period in OTHERS)]),
    ((PERIOD, *OTHERS), [(PERIOD, 0, 1), (OTHERS[0], 1, 0)]),
)


def _load(run: Callable[[], Any]) -> tuple[str, str]:
    from airflow.providers.common.compat.sdk import AirflowException

    from airflow_provider_chs3.exceptions import Chs3Error

    try:
        run()
    except (Chs3Error, AirflowException) as error:
        return "refused", str(error).splitlines()[0][:600]
    except Exception as error:
        return "crashed", f"{type(error).__name__}: {error}"[:500]
    return "exact", ""


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
