"""Objects in Google Cloud Storage, which ClickHouse and boto3 read through its XML API, as S3."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.sources.s3.reading import S3Source


@dataclass(frozen=True)
class GcsSource(S3Source):
    """Objects in a bucket of Google Cloud Storage.

    Args:
        bucket: The bucket; empty if a named collection names it.
        template: Template of the names of a period's objects.
        endpoint_url: URL of the XML API, as reachable from the ClickHouse servers.
        credentials: An HMAC key, a named collection, or none for a public bucket.
        base: The part of `_path` before the name; found by listing if a named collection names the bucket.

    Raises:
        ConfigurationError: If the bucket's name is invalid or missing.
    """

    @property
    def url(self) -> str:
        """The bucket as a URL, for people and for lineage."""
        return f"gs://{self.bucket}"


def check_is_google(endpoint_url: str, hmac_conn_id: str) -> None:
    """Check that a connection does not lead to AWS, as one does that names no endpoint.

    Args:
        endpoint_url: Where it leads.
        hmac_conn_id: Its id.

    Raises:
        ConfigurationError: If it does.
    """
    if ".amazonaws.com" in endpoint_url:
        raise ConfigurationError(
            f'Connection {hmac_conn_id!r} leads to AWS: give "endpoint_url": "https://storage.googleapis.com" in its '
            "extra, and an HMAC key of Google as login and password."
        )
