"""Ways from files in S3 into ClickHouse that people use, each written as its documentation has it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from airflow_provider_chs3.core.sql.quoting import identifier, literal
from airflow_provider_chs3.testbed.nodes import RunningNode
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from airflow_provider_chs3.testbed.trips import COLUMNS

TABLE = "trips"
#: dlt makes its own table, of the types that it finds, and names it by its dataset.
_DLT_DATASET = "lake"
_DLT_TABLE = f"{_DLT_DATASET}___{TABLE}"
_COLUMNS = ", ".join(map(identifier, COLUMNS))
_ROWS_A_BATCH = 100_000


@dataclass(frozen=True, kw_only=True)
class Given:
    """The input of a worker."""

    nodes: Sequence[RunningNode]
    cluster: str
    database: str
    s3: S3Endpoint
    bucket: str
    prefix: str
    period: str
    folder: str
    files: int | None = None

    @property
    def table(self) -> str:
        """The table, quoted."""
        return f"{identifier(self.database)}.{TABLE}"

    def listed(self) -> list[str]:
        """The keys of the files to load."""
        listed = self.s3.client().list_objects_v2(Bucket=self.bucket, Prefix=f"{self.prefix}/{self.period}/")
        return sorted(each["Key"] for each in listed["Contents"])[: self.files]

    def source(self, key: str, *, cluster: str = "") -> str:
        """The table function that reads files."""
        name, first = ("s3Cluster", f"{literal(cluster)}, ") if cluster else ("s3", "")
        url = f"{self.s3.endpoint_url}/{self.bucket}/{key}"
        credentials = f"{literal(self.s3.access_key)}, {literal(self.s3.secret_key)}"
        return f"{name}({first}{literal(url)}, {credentials}, 'Parquet')"

    @property
    def is_of_one_node(self) -> bool:
        """Whether there is no other node."""
        return len(self.nodes) == 1

    def insert(self, *, on_every_node: bool) -> str:
        """The plain statement: the first node reads and writes, or all of them do."""
        key = f"{self.prefix}/{self.period}/*.parquet"
        if not on_every_node:
            return f"INSERT INTO {self.table} ({_COLUMNS}) SELECT {_COLUMNS} FROM {self.source(key)}"
        place = f"cluster({literal(self.cluster)}, {identifier(self.database)}, {TABLE})"
        source = self.source(key, cluster=self.cluster)
        return f"INSERT INTO FUNCTION {place} ({_COLUMNS}) SELECT {_COLUMNS} FROM {source}"


def plain(given: Given) -> None:
    """The statement alone, on the first node."""
    with given.nodes[0].client() as client:
        client.execute(given.insert(on_every_node=False))


def plain_on_all(given: Given) -> None:
    """The statement alone, on all nodes."""
    with given.nodes[0].client() as client:
        client.execute(given.insert(on_every_node=True))


def _parquet_files(given: Given) -> Iterator[Any]:
    import pyarrow.parquet
    from pyarrow import fs

    scheme, _, host = given.s3.endpoint_url.partition("://")
    keys = {"access_key": given.s3.access_key, "secret_key": given.s3.secret_key, "region": given.s3.region}
    files = fs.S3FileSystem(endpoint_override=host, scheme=scheme, **keys)
    for key in given.listed():
        yield pyarrow.parquet.ParquetFile(files.open_input_file(f"{given.bucket}/{key}"))


def rows_by_driver(given: Given) -> None:
    """pyarrow reads in the worker, and clickhouse-driver inserts rows."""
    with given.nodes[0].client() as client:
        for file in _parquet_files(given):
            for batch in file.iter_batches(batch_size=_ROWS_A_BATCH, columns=list(COLUMNS)):
                rows = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
                client.execute(f"INSERT INTO {given.table} ({_COLUMNS}) VALUES", rows)


def _connect(given: Given) -> Any:
    import clickhouse_connect

    node = given.nodes[0]
    return clickhouse_connect.get_client(
        host=node.host,
        port=node.http_port,
        username=node.credentials.login,
        password=node.credentials.password,
        database=given.database,
        autogenerate_session_id=False,
    )


def arrow_by_connect(given: Given) -> None:
    """pyarrow reads in the worker, and clickhouse-connect inserts Arrow tables."""
    with _connect(given) as client:
        for file in _parquet_files(given):
            client.insert_arrow(TABLE, file.read())


def _run_by_plugin(sql: str, node_number: int = 0) -> None:
    from airflow_clickhouse_plugin.operators.clickhouse import ClickHouseOperator

    ClickHouseOperator(task_id="load", sql=sql, clickhouse_conn_id=f"clickhouse_{node_number}").execute({})


def plugin(given: Given) -> None:
    """The operator of airflow-clickhouse-plugin, with the SQL that people write so that a task may be run again."""
    for number in range(len(given.nodes)):
        _run_by_plugin(f"ALTER TABLE {given.table} DROP PARTITION {given.period.replace('-', '')}", number)
    _run_by_plugin(given.insert(on_every_node=not given.is_of_one_node))


def dlt_rows(given: Given) -> None:
    """The filesystem source of dlt and its destination, as its documentation begins: rows of Python."""
    _run_dlt(given)


def dlt_arrow(given: Given) -> None:
    """The same with batches of pyarrow, and many rows in each."""
    _run_dlt(given, use_pyarrow=True, chunksize=_ROWS_A_BATCH)


def _run_dlt(given: Given, **reading: Any) -> None:
    # It looks for settings in Airflow's variables, too.
    os.environ["PROVIDERS__ENABLE_AIRFLOW_SECRETS"] = "false"
    import dlt
    from dlt.sources.credentials import AwsCredentials
    from dlt.sources.filesystem import readers

    node = given.nodes[0]
    keys = AwsCredentials(
        aws_access_key_id=given.s3.access_key,
        aws_secret_access_key=given.s3.secret_key,
        endpoint_url=given.s3.endpoint_url,
        region_name=given.s3.region,
    )
    login = {"username": node.credentials.login, "password": node.credentials.password}
    place = {"host": node.host, "port": node.tcp_port, "http_port": node.http_port, "secure": 0}
    pipeline = dlt.pipeline(
        "trips",
        pipelines_dir=given.folder,
        dataset_name=_DLT_DATASET,
        destination=dlt.destinations.clickhouse(credentials={**place, **login, "database": given.database}),
    )
    files = [key.rpartition("/")[2] for key in given.listed()]
    glob = "*.parquet" if given.files is None or len(files) > 9 else f"00[0-{len(files) - 1}].parquet"
    rows = readers(f"s3://{given.bucket}/{given.prefix}/{given.period}", keys, file_glob=glob).read_parquet(**reading)
    pipeline.run(rows.with_name(TABLE), write_disposition="append")


def file_by_file(given: Given) -> None:
    """One worker of ClickLoad, as its page describes it, with a queue that needs no Keeper.

    A worker claims a file in a table of tasks, inserts it into a staging table that is as the target is, moves all
    partitions of that, and deletes the task. The claim of a dead worker stays.
    """
    queue, worker = f"{identifier(given.database)}.tasks", uuid4().hex
    staging = f"{identifier(given.database)}.{identifier(f'staging_{worker}')}"
    with _connect(given) as client:
        if not client.command(f"EXISTS TABLE {queue}"):
            client.command(f"CREATE TABLE {queue} (file String, worker String) ENGINE = Memory")
            client.insert(queue, [[key, ""] for key in given.listed()], column_names=["file", "worker"])
        client.command(f"CREATE TABLE {staging} AS {given.table}")
        while free := client.query(f"SELECT min(file) FROM {queue} WHERE worker = '' HAVING count() > 0").result_rows:
            file = literal(free[0][0])
            client.command(
                f"ALTER TABLE {queue} UPDATE worker = {literal(worker)} WHERE file = {file}", {"mutations_sync": 1}
            )
            _move_file(client, given, free[0][0], staging)
            client.command(f"ALTER TABLE {queue} DELETE WHERE file = {file}", {"mutations_sync": 1})
        client.command(f"DROP TABLE {staging}")


def _move_file(client: Any, given: Given, key: str, staging: str) -> None:
    client.command(f"INSERT INTO {staging} ({_COLUMNS}) SELECT {_COLUMNS} FROM {given.source(key)}")
    partitions = f"SELECT DISTINCT _partition_id FROM {staging}"
    for (partition_id,) in client.query(partitions).result_rows:
        client.command(f"ALTER TABLE {staging} MOVE PARTITION ID {literal(partition_id)} TO TABLE {given.table}")


def package(given: Given) -> None:
    """This package's operator."""
    from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

    S3ToClickHouseOperator(
        task_id="load",
        bucket=given.bucket,
        key=f"{given.prefix}/{{YYYY-MM}}/*.parquet",
        database=given.database,
        table=TABLE,
        period=given.period,
    ).execute({})


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way, and what it takes."""

    name: str
    run: Callable[[Given], None]
    needs: Sequence[str] = ()
    table: str = TABLE
    is_slow: bool = False
    is_of_several: bool = False
    is_on_same_disk: bool = False


PACKAGE = Way(name="this package", run=package)
WAYS = [
    PACKAGE,
    Way(name="plain INSERT … SELECT FROM s3", run=plain),
    Way(name="plain INSERT … SELECT FROM s3Cluster, all nodes write", run=plain_on_all, is_of_several=True),
    Way(
        name="airflow-clickhouse-plugin, DROP PARTITION and INSERT",
        run=plugin,
        needs=["airflow_clickhouse_plugin"],
    ),
    Way(name="a file at a time through staging", run=file_by_file, needs=["clickhouse_connect"]),
    Way(name="pyarrow, clickhouse-connect", run=arrow_by_connect, needs=["pyarrow", "clickhouse_connect"]),
    Way(name="dlt, batches of pyarrow", run=dlt_arrow, needs=["dlt"], table=_DLT_TABLE),
    Way(name="dlt, rows", run=dlt_rows, needs=["dlt"], table=_DLT_TABLE, is_slow=True),
    Way(name="pyarrow, rows by clickhouse-driver", run=rows_by_driver, needs=["pyarrow"], is_slow=True),
]
#: Not measured, as it takes what the other takes: what it left on its disk matters after a kill alone.
KILLED_TOO = Way(
    name="dlt, batches of pyarrow, retried on the same disk",
    run=dlt_arrow,
    needs=["dlt"],
    table=_DLT_TABLE,
    is_on_same_disk=True,
)
