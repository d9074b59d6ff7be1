"""Describe the provider to Airflow, which reads this at every start: imports nothing but the version."""

from __future__ import annotations

from airflow_provider_chs3 import __version__


def _option(description: str, *, default: str, example: str, kind: str = "float") -> dict[str, str]:
    return {
        "description": description,
        "version_added": "0.2.0",
        "type": kind,
        "example": example,
        "default": default,
    }


def get_provider_info() -> dict[str, object]:
    """Return the provider's name, its connection type and the form for it."""
    return {
        "package-name": "airflow-provider-chs3",
        "name": "ClickHouse loads from S3",
        "description": "Scheduled loads from S3 into ClickHouse, one period per task.",
        "versions": [__version__],
        # Where new providers start, as Airflow's own do (AIP-95).
        "lifecycle": "incubation",
        "integrations": _INTEGRATIONS,
        "operators": [_modules(*_OPERATORS, package="operators")],
        "transfers": [_transfer(*transfer) for transfer in _TRANSFERS],
        "sensors": [_modules("clickhouse", "merge_health", package="sensors")],
        "triggers": [_modules("insert", "merge_health", "optimize", "running_query", "statement", package="triggers")],
        "hooks": [_modules("clickhouse", package="hooks")],
        "config": {
            "chs3": {"description": "Defaults of loads into ClickHouse, for all DAGs.", "options": OPTIONS},
        },
        "cli": ["airflow_provider_chs3.cli.airflow_commands.get_commands"],
        "extra-links": ["airflow_provider_chs3.operators.links.LoadsPageLink"],
        "connection-types": [
            {
                "connection-type": "chs3",
                "hook-class-name": "airflow_provider_chs3.hooks.clickhouse.ClickHouseHook",
                "hook-name": "ClickHouse (S3 loads)",
                "ui-field-behaviour": _FIELD_BEHAVIOUR,
                "conn-fields": CONNECTION_FIELDS,
            }
        ],
        "asset-uris": [
            {
                "schemes": ["clickhouse"],
                "handler": "airflow_provider_chs3.assets.sanitize_uri",
                "factory": "airflow_provider_chs3.assets.create_asset",
                "to_openlineage_converter": "airflow_provider_chs3.assets.convert_asset_to_openlineage",
            }
        ],
    }


#: Options in section `[chs3]` of Airflow's configuration; `defaults` reads them.
OPTIONS = {
    "clickhouse_conn_id": _option(
        "Connection of type ``chs3`` for operators, sensors, the hook and the command line.",
        kind="string",
        default="chs3_default",
        example="clickhouse_prod",
    ),
    "aws_conn_id": _option(
        "Connection of type ``aws`` that lists and reads objects in S3.",
        kind="string",
        default="aws_default",
        example="s3_lake",
    ),
    "progress_interval_seconds": _option(
        "Seconds between two lines of progress in the log of a load; deferred loads are polled as often.",
        default="10",
        example="60",
    ),
    "optimize_poll_interval_seconds": _option(
        "Seconds between two polls of ``OptimizePartitionOperator``; they grow up to 300 while nothing changes.",
        default="10",
        example="30",
    ),
    "page_query_timeout_seconds": _option(
        "Seconds after which the pages in Airflow's UI give up on a query to ClickHouse.",
        default="10",
        example="30",
    ),
    "page_cache_seconds": _option(
        "Seconds for which all users of the pages share an answer; answers from query logs are shared six times as "
        "long.",
        default="5",
        example="60",
    ),
}

_INTEGRATION = "ClickHouse (S3 loads)"
_OPERATORS = ("clickhouse", "emit_period", "held", "ledger", "optimize", "plan_loads", "prove", "versions")
_DELTA = "Delta Lake"
_S3 = "Amazon Simple Storage Service (S3)"
#: For everything that is not a transfer.
_GUIDES = (
    "nightly", "backfill", "arrivals", "many-tables", "hold-and-approve", "ledger", "optimize", "prove", "statements",
    "undo",
)  # fmt: skip
_INTEGRATIONS = [
    {
        "integration-name": _INTEGRATION,
        "external-doc-url": "https://clickhouse.com/docs",
        "logo": "/docs/integration-logos/chs3.svg",
        "how-to-guide": [f"/docs/how-to/{guide}.md" for guide in _GUIDES],
        "tags": ["service"],
    },
    # No provider of Airflow's own declares this source of a transfer.
    {
        "integration-name": _DELTA,
        "external-doc-url": "https://delta.io",
        "how-to-guide": ["/docs/how-to/lakehouse.md"],
        "tags": ["software"],
    },
]


#: Source, target, module and guide; sources are integrations that Airflow's own providers declare, or this one.
_TRANSFERS = (
    (_S3, _INTEGRATION, "s3_to_clickhouse", "nightly"),
    ("Microsoft Azure Blob Storage", _INTEGRATION, "azure_blob_to_clickhouse", "azure"),
    ("Google Cloud Storage (GCS)", _INTEGRATION, "gcs_to_clickhouse", "gcs"),
    ("Hadoop Distributed File System (HDFS)", _INTEGRATION, "hdfs_to_clickhouse", "hdfs"),
    ("PostgreSQL", _INTEGRATION, "postgres_to_clickhouse", "postgres-mysql"),
    ("MySQL", _INTEGRATION, "mysql_to_clickhouse", "postgres-mysql"),
    ("Iceberg", _INTEGRATION, "iceberg_to_clickhouse", "lakehouse"),
    (_DELTA, _INTEGRATION, "delta_to_clickhouse", "lakehouse"),
    ("Apache Kafka", _S3, "kafka_to_s3", "kafka"),
    (_INTEGRATION, _INTEGRATION, "clickhouse_to_clickhouse", "materialized-views"),
    (_INTEGRATION, _S3, "clickhouse_to_s3", "unload"),
)


def _transfer(source: str, target: str, module: str, guide: str) -> dict[str, str]:
    return {
        "source-integration-name": source,
        "target-integration-name": target,
        "python-module": f"airflow_provider_chs3.transfers.{module}",
        "how-to-guide": f"/docs/how-to/{guide}.md",
    }


def _modules(*names: str, package: str) -> dict[str, object]:
    modules = [f"airflow_provider_chs3.{package}.{name}" for name in names]
    return {"integration-name": _INTEGRATION, "python-modules": modules}


_FIELD_BEHAVIOUR = {
    "hidden-fields": [],
    "relabeling": {"schema": "Database", "login": "User", "port": "Native port"},
    "placeholders": {
        "host": "clickhouse-1.example.com",
        "port": "9000, or 9440 with TLS (not the HTTP port)",
        "schema": "default",
        "login": "default",
    },
}


def _field(label: str, kind: str, description: str = "", **schema: object) -> dict[str, object]:
    about = {"description": description} if description else {}
    return {"label": label, **about, "schema": {"type": [kind, "null"], **schema}}


#: The extras of a connection, with their fields in Airflow's form.
CONNECTION_FIELDS = {
    "alt_hosts": _field(
        "Further hosts", "string", "For failover, tried in this order: host or host:port, separated by commas."
    ),
    "http_port": _field("HTTP port", "integer", "8123 by default, 8443 with TLS.", minimum=1, maximum=65535),
    "secure": _field("TLS", "boolean", default=False),
    "verify": _field("Verify the server's certificate", "boolean", default=True),
    "ca_certs": _field(
        "CA certificates",
        "string",
        "A file on the workers; by default the authorities that certifi or the system trusts.",
    ),
    "certfile": _field("Client certificate", "string", "A file on the workers."),
    "keyfile": _field(
        "Client key", "string", "A file on the workers; not needed if the certificate's file also holds the key."
    ),
    "server_hostname": _field(
        "Server name of TLS", "string", "Where the host is not the name in the certificate; by default the host."
    ),
    "compression": _field(
        "Compression", "string", "Between Airflow and ClickHouse.", enum=["lz4", "zstd", "none"], default="lz4"
    ),
    "connect_timeout_seconds": _field("Connect timeout, seconds", "number", exclusiveMinimum=0, default=10),
    "send_receive_timeout_seconds": _field(
        "Send and receive timeout, seconds",
        "number",
        "How long to wait for the next packet; not a limit on a query's run time.",
        exclusiveMinimum=0,
        default=300,
    ),
    "cluster": _field("Default cluster", "string", "A name from system.clusters."),
    "node_addresses": _field(
        "Node addresses",
        "object",
        "From host_name or host_name:port, as in system.clusters, to the address that workers reach: "
        '{"ch-1": "10.0.0.1:9000"}',
    ),
    "one_door": _field(
        "One door",
        "boolean",
        "The host leads to any node of the cluster, as a load balancer does, and workers reach nodes through it alone.",
        default=False,
    ),
    "node_specs": _field(
        "Node specs",
        "object",
        'From host name, or "default", to its size: {"default": {"cores": 8, "memory": "32GiB"}}',
    ),
    "settings": _field("Query settings", "object", 'Sent with every query: {"max_execution_time": 3600}'),
}
