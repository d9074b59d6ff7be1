"""Existing servers, named by environment variables.

CHS3_CLICKHOUSE_URI      one URI per node, separated by spaces, in the order of their shards:
                         clickhouse://user:password@host:9000?http_port=8123 (percent-encode user and password)
CHS3_CLICKHOUSE_CLUSTER  name of the cluster; chs3 by default
CHS3_S3_ENDPOINT         such as https://s3.example.com; tests and ClickHouse nodes must both reach it
CHS3_S3_ACCESS_KEY, CHS3_S3_SECRET_KEY
CHS3_S3_REGION           us-east-1 by default
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qs, unquote, urlsplit

from airflow_provider_chs3.testbed.nodes import CLUSTER, Cluster, RunningNode, User
from airflow_provider_chs3.testbed.s3 import S3Endpoint


def cluster_from(environment: Mapping[str, str]) -> Cluster:
    """Return the ClickHouse cluster that the environment names.

    Args:
        environment: Usually `os.environ`.

    Returns:
        The cluster.

    Raises:
        ValueError: If `CHS3_CLICKHOUSE_URI` is missing or invalid. Its value, with the password, is not shown.
    """
    uris = _required(environment, "CHS3_CLICKHOUSE_URI").split()
    nodes = [_node(f"node{number}", uri) for number, uri in enumerate(uris, start=1)]
    return Cluster(nodes, name=environment.get("CHS3_CLICKHOUSE_CLUSTER", CLUSTER))


def s3_from(environment: Mapping[str, str]) -> S3Endpoint:
    """Return the S3 server that the environment names.

    Args:
        environment: Usually `os.environ`.

    Returns:
        The server and the keys to it.

    Raises:
        ValueError: If a variable is missing.
    """
    return S3Endpoint(
        endpoint_url=_required(environment, "CHS3_S3_ENDPOINT").rstrip("/"),
        access_key=_required(environment, "CHS3_S3_ACCESS_KEY"),
        secret_key=_required(environment, "CHS3_S3_SECRET_KEY"),
        region=environment.get("CHS3_S3_REGION", "us-east-1"),
    )


def _required(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "").strip()
    if not value:
        raise ValueError(f"Set {name} to use your own servers; see {__name__} for its format")
    return value


def _node(name: str, uri: str) -> RunningNode:
    parts = urlsplit(uri)
    if parts.scheme != "clickhouse" or not parts.hostname:
        raise ValueError(
            f"CHS3_CLICKHOUSE_URI: the URI of {name} is not of the form clickhouse://user:password@host:9000?http_port=8123"
        )
    http_port = parse_qs(parts.query).get("http_port", ["8123"])[0]
    credentials = User(unquote(parts.username or "default"), unquote(parts.password or ""))
    return RunningNode(name, parts.hostname, parts.port or 9000, int(http_port), credentials=credentials)
