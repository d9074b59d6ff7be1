"""What Airflow reads at start, of every provider: imports nothing."""

from __future__ import annotations


def get_provider_info() -> dict[str, object]:
    """The provider's name, its connection type and the form for it."""
    return {
        "package-name": "airflow-provider-chs3",
        "name": "ClickHouse loads from S3",
        "description": "Scheduled loads from S3 into ClickHouse, one month a task.",
        "versions": ["0.1.0"],
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://clickhouse.com/docs",
                "tags": ["service"],
            }
        ],
        "operators": [_modules(*_OPERATORS, package="operators")],
        "transfers": [*(_transfer(source, module) for source, module in _TRANSFERS.items()), *_TO_S3],
        "sensors": [_modules("merge_health", "clickhouse", package="sensors")],
        "triggers": [_modules("load", "merge_health", "optimize", package="triggers")],
        "hooks": [_modules("clickhouse", package="hooks")],
        "cli": ["airflow_provider_chs3.cli.airflow_commands.get_commands"],
        "extra-links": ["airflow_provider_chs3.operators.links.MonthsPageLink"],
        "connection-types": [
            {
                "connection-type": "chs3",
                "hook-class-name": "airflow_provider_chs3.hooks.clickhouse.ClickHouseHook",
                "hook-name": "ClickHouse (S3 loads)",
                "ui-field-behaviour": _FIELD_BEHAVIOUR,
                "conn-fields": _CONNECTION_FIELDS,
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


_INTEGRATION = "ClickHouse (S3 loads)"
_OPERATORS = (
    *("s3_to_clickhouse", "s3_months_to_clickhouse", "plan_months"),
    *("calibrate", "optimize", "ledger", "assets", "clickhouse"),
)


_TRANSFERS = {
    "Microsoft Azure Blob Storage": "azure_blob_to_clickhouse",
    "Google Cloud Storage (GCS)": "gcs_to_clickhouse",
    "Hadoop Distributed File System (HDFS)": "hdfs_to_clickhouse",
    "PostgreSQL": "postgres_to_clickhouse",
    "MySQL": "mysql_to_clickhouse",
    "Apache Iceberg": "iceberg_to_clickhouse",
    "Delta Lake": "delta_to_clickhouse",
}


def _transfer(source: str, module: str) -> dict[str, str]:
    return {
        "source-integration-name": source,
        "target-integration-name": _INTEGRATION,
        "python-module": f"airflow_provider_chs3.transfers.{module}",
    }


#: Kafka's provider knows its integration; Amazon's knows S3's.
_TO_S3 = tuple(
    {
        "source-integration-name": source,
        "target-integration-name": "Amazon Simple Storage Service (S3)",
        "python-module": f"airflow_provider_chs3.transfers.{module}",
    }
    for source, module in (("Apache Kafka", "kafka_to_s3"), (_INTEGRATION, "clickhouse_to_s3"))
)


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

_CONNECTION_FIELDS = {
    "alt_hosts": {
        "label": "Further hosts",
        "description": "For failover, tried in this order: host or host:port, separated by commas.",
        "schema": {"type": ["string", "null"]},
    },
    "http_port": {
        "label": "HTTP port",
        "description": "8123 by default, 8443 with TLS.",
        "schema": {"type": ["integer", "null"], "minimum": 1, "maximum": 65535},
    },
    "secure": {
        "label": "TLS",
        "schema": {"type": ["boolean", "null"], "default": False},
    },
    "verify": {
        "label": "Verify the server's certificate",
        "schema": {"type": ["boolean", "null"], "default": True},
    },
    "ca_certs": {
        "label": "CA certificates",
        "description": "A file on the workers; by default the authorities that certifi or the system trust.",
        "schema": {"type": ["string", "null"]},
    },
    "certfile": {
        "label": "Client certificate",
        "description": "A file on the workers.",
        "schema": {"type": ["string", "null"]},
    },
    "keyfile": {
        "label": "Client key",
        "description": "A file on the workers; not needed where the certificate's file holds the key.",
        "schema": {"type": ["string", "null"]},
    },
    "compression": {
        "label": "Compression",
        "description": "Between Airflow and ClickHouse.",
        "schema": {"type": ["string", "null"], "enum": ["lz4", "zstd", "none"], "default": "lz4"},
    },
    "connect_timeout_seconds": {
        "label": "Connect timeout, seconds",
        "schema": {"type": ["number", "null"], "exclusiveMinimum": 0, "default": 10},
    },
    "send_receive_timeout_seconds": {
        "label": "Send and receive timeout, seconds",
        "description": "How long to wait for the next packet; not a limit on a query's run time.",
        "schema": {"type": ["number", "null"], "exclusiveMinimum": 0, "default": 300},
    },
    "cluster": {
        "label": "Default cluster",
        "description": "A name from system.clusters.",
        "schema": {"type": ["string", "null"]},
    },
    "node_addresses": {
        "label": "Node addresses",
        "description": (
            "From host_name or host_name:port, as in system.clusters, to the address that workers reach: "
            '{"ch-1": "10.0.0.1:9000"}'
        ),
        "schema": {"type": ["object", "null"]},
    },
    "node_specs": {
        "label": "Node specs",
        "description": 'From host name, or "default", to its size: {"default": {"cores": 8, "memory": "32GiB"}}',
        "schema": {"type": ["object", "null"]},
    },
    "settings": {
        "label": "Query settings",
        "description": 'Sent with every query: {"max_execution_time": 3600}',
        "schema": {"type": ["object", "null"]},
    },
}
