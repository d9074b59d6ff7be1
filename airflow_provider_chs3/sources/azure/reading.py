"""Objects in Azure Blob Storage."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import unquote

from airflow_provider_chs3.core.files.object_source import ObjectSource
from airflow_provider_chs3.core.model.store_kind import StoreKind, exact_files
from airflow_provider_chs3.core.sql.quoting import Sql, literals
from airflow_provider_chs3.exceptions import ConfigurationError

AZURE_BLOB = StoreKind(
    title="Azure Blob Storage",
    function="azureBlobStorage",
    privilege="READ ON AZURE",
    glob_argument="blob_path",
    shape=("format", "compression_method", "structure"),
    bytes_event="ReadBufferFromAzureBytes",
    time_event="ReadBufferFromAzureMicroseconds",
    exact=exact_files("azure"),
    quick_failure={"azure_sdk_max_retries": 3},
    no_cache={"schema_inference_use_cache_for_azure": 0},
    probe_settings={"schema_inference_use_cache_for_azure": 0, "azure_sdk_max_retries": 0},
)

#: Azure's rule, and the three containers with names of their own.
_CONTAINER = re.compile(r"(?=.{3,63}$)[a-z0-9]+(?:-[a-z0-9]+)*|\$root|\$web|\$logs")

#: Names that the table function takes as they are, in which a glob would put a wildcard for some characters.
_LITERAL = re.compile(r"(?!.*//)[A-Za-z0-9/_.=\- +,;&@()!$']*")


@dataclass(frozen=True, kw_only=True)
class AzureAccess:
    """The access of the ClickHouse servers to the container: a key, a SAS token, an identity, or a named collection."""

    account_url: str = ""
    account_name: str = ""
    account_key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)
    named_collection: str | None = None


@dataclass(frozen=True)
class AzureBlobSource(ObjectSource):
    """Objects in a container of Azure Blob Storage.

    Raises:
        ConfigurationError: If the container's name is invalid or missing.
    """

    kind = AZURE_BLOB

    access: AzureAccess

    def __post_init__(self) -> None:
        if self.access.named_collection is None and not _CONTAINER.fullmatch(self.bucket):
            raise ConfigurationError(
                f"container={self.bucket!r} is not the name of a container: set it without a URL or a blob's name."
            )

    @property
    def url(self) -> str:
        """The container as a URL, for people and for lineage."""
        account = self.access.account_name
        return f"wasbs://{self.bucket}@{account}" if account else f"wasbs://{self.bucket}"

    @property
    def named_collection(self) -> str | None:
        """The named collection through which the servers read; None if they use other credentials."""
        return self.access.named_collection

    @property
    def server_url(self) -> str:
        """The URL at which the servers look for the storage; empty if a named collection says it."""
        return self.access.account_url

    def glob_of(self, path: str) -> str:
        """Return a glob that matches one object: its name unless that is a glob; so more names can be distinguished."""
        key = path[len(self.base) :]
        return key if _LITERAL.fullmatch(key) else super().glob_of(path)

    def _located(self, glob: str) -> Sql:
        given = self.access
        if given.account_key:
            url_and_key = [given.account_url, self.bucket, glob, given.account_name, given.account_key]
            return Sql(literals(url_and_key), (given.account_key,))
        if given.sas_token:
            string = f"BlobEndpoint={given.account_url};SharedAccessSignature={given.sas_token}"
            return Sql(literals([string, self.bucket, glob]), _signatures(given.sas_token))
        # With the URL alone, servers use the identity that Azure gives their machines.
        return Sql(literals([given.account_url, self.bucket, glob]))


def _signatures(sas_token: str) -> tuple[str, ...]:
    """Return the secret part of a token, as it is and decoded: the rest only shows what it allows, and until when."""
    signatures = [field.removeprefix("sig=") for field in sas_token.split("&") if field.startswith("sig=")]
    return tuple(
        dict.fromkeys(
            spelling for signature in signatures or [sas_token] for spelling in (signature, unquote(signature))
        )
    )
