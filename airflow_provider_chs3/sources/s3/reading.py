"""Objects in S3, and in what speaks its protocol."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import quote

from airflow_provider_chs3.core.files.object_source import ObjectSource
from airflow_provider_chs3.core.model.store_kind import StoreKind, exact_files
from airflow_provider_chs3.core.sql.quoting import Sql, literal
from airflow_provider_chs3.exceptions import ConfigurationError

S3 = StoreKind(
    title="S3",
    function="s3",
    privilege="READ ON S3",
    glob_argument="filename",
    shape=("format", "structure", "compression_method"),
    bytes_event="ReadBufferFromS3Bytes",
    time_event="ReadBufferFromS3Microseconds",
    connection="the AWS connection: keys, endpoint_url, region_name",
    server_remedy="; endpoint_url sets the URL for servers only",
    # ClickHouse's S3 client refuses an empty name in a key, and cuts off a version.
    unreadable=("//", "?versionId="),
    exact=exact_files("s3"),
    # A lost connection request is sent again after a second, which is all the time that servers give it by default.
    quick_failure={"s3_retry_attempts": 5, "s3_connect_timeout_ms": 3_000},
    no_cache={"schema_inference_use_cache_for_s3": 0},
    probe_settings={
        "schema_inference_use_cache_for_s3": 0,
        # Adaptive timeouts would give it half a second.
        "s3_retry_attempts": 0,
        "s3_request_timeout_ms": 5_000,
        "s3_use_adaptive_timeouts": 0,
    },
)

#: Servers take these for a glob in a key, also where the URL has it encoded; in a glob they decode nothing.
_GLOB = re.compile(r"[*?{}]")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")

#: Characters of an access key id from which on it is hidden; those of AWS have 16 or more.
_SHORTEST_HIDDEN_ID = 8


@dataclass(frozen=True)
class Credentials:
    """Credentials of the ClickHouse servers for the bucket. Exactly one kind, or none for a public bucket.

    Raises:
        ConfigurationError: If an external id is for no role.
    """

    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    named_collection: str | None = None
    role_arn: str | None = None
    external_id: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.external_id and not self.role_arn:
            raise ConfigurationError("external_id is for a role, and no role is set: set role_arn, too.")


@dataclass(frozen=True)
class S3Source(ObjectSource):
    """Objects in a bucket of S3.

    Raises:
        ConfigurationError: If the bucket's name is invalid or missing.
    """

    kind = S3

    endpoint_url: str
    credentials: Credentials
    scheme: str = field(default="s3", kw_only=True)

    def __post_init__(self) -> None:
        if self.credentials.named_collection is None and not _BUCKET.fullmatch(self.bucket):
            wrong = f"bucket={self.bucket!r} is not the name of a bucket" if self.bucket else "No bucket"
            raise ConfigurationError(
                f"{wrong}: set it without s3:// and without a key, or name it with the key: {self.scheme}://my-bucket/…"
            )

    @property
    def url(self) -> str:
        """The bucket as a URL, for people and for lineage."""
        return f"{self.scheme}://{self.bucket}"

    @property
    def named_collection(self) -> str | None:
        """The named collection through which the servers read; None if they use other credentials."""
        return self.credentials.named_collection

    @property
    def server_url(self) -> str:
        """The URL at which the servers look for the storage; empty if a named collection says it."""
        return self.endpoint_url

    @property
    def lists_through_clickhouse(self) -> bool:
        """Return whether ClickHouse lists the objects, because the worker has no keys."""
        return bool(self.named_collection or self.credentials.role_arn)

    def glob_of(self, path: str) -> str:
        """Return a glob that matches one object: its key as in a URL, unless that is a glob."""
        key = path[len(self.base) :]
        return super().glob_of(path) if _GLOB.search(key) else quote(key, safe="/=")

    def _located(self, glob: str) -> Sql:
        given = self.credentials
        access = "NOSIGN"
        keys = tuple(secret for secret in (given.access_key_id, given.secret_access_key, given.session_token) if secret)
        # An id is no secret by itself, but logs need not name it. Hiding a short one would hide words of messages.
        ids = (given.access_key_id, given.external_id)
        hidden = (*keys, *filter(None, [given.external_id]))
        secrets = tuple(secret for secret in hidden if secret not in ids or len(secret) >= _SHORTEST_HIDDEN_ID)
        if given.role_arn:
            external = f", external_id = {literal(given.external_id)}" if given.external_id else ""
            access = f"extra_credentials(role_arn = {literal(given.role_arn)}{external})"
        elif given.access_key_id:
            access = ", ".join(map(literal, keys))
        url = f"{self.endpoint_url.rstrip('/')}/{self.bucket}/{glob}"
        return Sql(f"{literal(url)}, {access}", secrets)
