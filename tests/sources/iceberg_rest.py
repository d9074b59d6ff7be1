"""A local REST catalog of Iceberg: the server that Iceberg's own tests use, of Maven's jars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from airflow_provider_chs3.testbed.processes import HOST, LocalServer, free_ports
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from tests.sources.hdfs import JAVA_OPTIONS
from tests.sources.servers.local import launch, new_folder
from tests.sources.servers.packages import from_maven, required

_VERSION = "1.10.0"
_JARS = (
    f"org.apache.iceberg:iceberg-open-api:{_VERSION}:test-fixtures",
    f"org.apache.iceberg:iceberg-core:{_VERSION}",
    f"org.apache.iceberg:iceberg-core:{_VERSION}:tests",
    f"org.apache.iceberg:iceberg-aws:{_VERSION}",
    f"org.apache.iceberg:iceberg-aws-bundle:{_VERSION}",
    "org.apache.hadoop:hadoop-client-api:3.4.2",
    "org.apache.hadoop:hadoop-client-runtime:3.4.2",
    "org.xerial:sqlite-jdbc:3.50.3.0",
    "org.eclipse.jetty:jetty-servlet:11.0.26",
)


@dataclass(frozen=True, kw_only=True)
class IcebergRestServer(LocalServer):
    """A running catalog, which keeps the metadata of its tables in S3; it takes any client's id and secret."""

    url: str

    @classmethod
    def start(cls, s3: S3Endpoint, warehouse: str) -> Self:
        """Start a catalog and wait until it answers."""
        java = required("java", hint="apt-get install default-jre-headless")
        jars = from_maven(f"iceberg-rest-{_VERSION}", _JARS)
        port = free_ports(1)[0]
        with new_folder("iceberg-rest") as folder:
            command = [java, *JAVA_OPTIONS, "-cp", f"{jars}/*", "org.apache.iceberg.rest.RESTCatalogServer"]
            settings = {
                "CATALOG_REST_PORT": str(port),
                "CATALOG_URI": f"jdbc:sqlite:{folder}/catalog.db",
                "CATALOG_WAREHOUSE": f"s3://{warehouse}/",
                "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
                "CATALOG_S3_ENDPOINT": s3.endpoint_url,
                "CATALOG_S3_ACCESS__KEY__ID": s3.access_key,
                "CATALOG_S3_SECRET__ACCESS__KEY": s3.secret_key,
                "CATALOG_S3_PATH__STYLE__ACCESS": "true",
                "CATALOG_CLIENT_REGION": s3.region,
                "AWS_REGION": s3.region,
            }
            process = launch(command, name="Iceberg's REST catalog", folder=folder, port=port, environment=settings)
        return cls(process=process, folder=folder, url=f"http://{HOST}:{port}")

    def airflow_connection(self) -> dict[str, Any]:
        """Return the connection, with a client's id and secret."""
        return {"conn_type": "iceberg", "host": self.url, "login": "loader", "password": "rest-secret"}
