"""A running test bed for interactive use: `./dev cluster`."""

from __future__ import annotations

import argparse
import json
import shlex
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.nodes import PLAIN_LOADER, Cluster, RunningNode
from airflow_provider_chs3.testbed.s3 import S3Endpoint, S3Server
from airflow_provider_chs3.testbed.trips import Trips, create_table_sql

BUCKET = "taxi"
#: As the README has it. The embedded engine's `default` does not know when its tables were made.
DATABASE = "taxi"
_PERIODS = ("2026-01", "2026-02", "2026-03")
_NAMED_COLLECTION = "chs3_s3"
#: For shells to read.
_VARIABLES = Path(".dev/cluster.env")


def main(arguments: Sequence[str]) -> int:
    """Start a cluster and an S3 server with three periods of trips, print how to use them, and wait for Ctrl-C."""
    parser = argparse.ArgumentParser(prog="./dev cluster", description="A local ClickHouse cluster and S3 server.")
    parser.add_argument("--nodes", type=int, default=3, help="number of ClickHouse nodes (%(default)s)")
    given = parser.parse_args(arguments)
    with S3Server.start() as s3:
        s3.client().create_bucket(Bucket=BUCKET)
        for period in _PERIODS:
            Trips().upload(s3.client(), period, bucket=BUCKET, prefix=f"trips/{period}/")
        collections = {_NAMED_COLLECTION: s3.named_collection()}
        with ClickHouseCluster.start(given.nodes, named_collections=collections, loader=PLAIN_LOADER) as cluster:
            for node in cluster.nodes:
                with node.client() as client:
                    client.execute(f"CREATE DATABASE {DATABASE}")
            variables = _variables(cluster, s3)
            _VARIABLES.parent.mkdir(exist_ok=True)
            _VARIABLES.write_text("\n".join(line for variable in variables.values() for line in _exports(variable)))
            print(_how_to_use(cluster, s3, variables), flush=True)
            threading.Event().wait()
    return 0


def _url(cluster: ClickHouseCluster) -> str:
    first = cluster.nodes[0]
    # Nothing to percent-encode: PLAIN_LOADER.
    login = f"{first.credentials.login}:{first.credentials.password}"
    return f"http://{login}@{first.host}:{first.http_port}/?database={DATABASE}"


def environment_for(cluster: Cluster, s3: S3Endpoint) -> dict[str, str]:
    """Return the variables by which the test bed finds these servers; see `testbed.external`."""
    return {
        "CHS3_CLICKHOUSE_URI": " ".join(_uri(node) for node in cluster.nodes),
        "CHS3_CLICKHOUSE_CLUSTER": cluster.name,
        "CHS3_S3_ENDPOINT": s3.endpoint_url,
        "CHS3_S3_ACCESS_KEY": s3.access_key,
        "CHS3_S3_SECRET_KEY": s3.secret_key,
        "CHS3_S3_REGION": s3.region,
    }


def _uri(node: RunningNode) -> str:
    login = f"{quote(node.credentials.login, safe='')}:{quote(node.credentials.password, safe='')}"
    return f"clickhouse://{login}@{node.host}:{node.tcp_port}?http_port={node.http_port}"


def _variables(cluster: ClickHouseCluster, s3: S3Server) -> Mapping[str, Mapping[str, str]]:
    """Reader → variables."""
    return {
        "Airflow, and for `./dev test --chs3-clickhouse=env --chs3-s3=env`": {
            "AIRFLOW_CONN_CHS3_DEFAULT": json.dumps(cluster.airflow_connection() | {"schema": DATABASE}),
            "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(s3.airflow_connection()),
            **environment_for(cluster, s3),
        },
        "curl, the AWS CLI and boto3": {
            "CLICKHOUSE_URL": _url(cluster),
            "AWS_ENDPOINT_URL": s3.endpoint_url,
            "AWS_ACCESS_KEY_ID": s3.access_key,
            "AWS_SECRET_ACCESS_KEY": s3.secret_key,
            "AWS_DEFAULT_REGION": s3.region,
        },
    }


def _how_to_use(cluster: ClickHouseCluster, s3: S3Server, variables: Mapping[str, Mapping[str, str]]) -> str:
    query = (
        f"SELECT count() FROM s3Cluster('{cluster.name}', {_NAMED_COLLECTION}, filename = '{BUCKET}/trips/*/*.parquet')"
    )
    lines = [
        f"ClickHouse cluster `{cluster.name}`, each node a shard, with an empty database `{DATABASE}`:",
        *(
            f"  {node.name}  tcp {node.host}:{node.tcp_port}  http {node.host}:{node.http_port}"
            for node in cluster.nodes
        ),
        f"S3: {s3.endpoint_url}, bucket `{BUCKET}` with trips/<period>/*.parquet for {', '.join(_PERIODS)};"
        f" ClickHouse reads it through the named collection `{_NAMED_COLLECTION}`.",
        *(f"\nFor {reader}:\n  " + "\n  ".join(_exports(each)) for reader, each in variables.items()),
        f"\nAll of these are in the file {_VARIABLES}. In another terminal: . ./{_VARIABLES}",
        "",
        "Try:",
        f"  curl '{_url(cluster)}' --data \"{query}\"",
        "",
        "A table for the trips, to create on every node:",
        f"  {create_table_sql(f'{DATABASE}.trips')}",
        "",
        "Ctrl-C stops everything and removes the data.",
    ]
    return "\n".join(lines)


def _exports(variables: Mapping[str, str]) -> list[str]:
    return [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
