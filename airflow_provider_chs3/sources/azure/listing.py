"""Azure Blob Storage as the worker sees it: listing through a connection of type `wasb`, and the key that it holds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.client.listing import WritableListing, cut
from airflow_provider_chs3.core.model.models import ObjectPage, Unit
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError, TransientError
from airflow_provider_chs3.sources.azure.reading import AzureAccess
from airflow_provider_chs3.sources.side_by_side import Page, pages_of

if TYPE_CHECKING:
    from azure.storage.blob import BlobServiceClient, ContainerClient

_DENIED = (
    "the key or the SAS token is wrong or has expired, or does not allow this: listing and reading takes the role "
    "'Storage Blob Data Reader', or a SAS token of services b, types c and o, permissions r and l"
)
#: Errors that will not pass by themselves: Azure's code → its meaning.
_TERMINAL = {
    "ContainerNotFound": "there is no such container",
    "AuthenticationFailed": _DENIED,
    "AuthorizationFailure": _DENIED,
    "AuthorizationPermissionMismatch": _DENIED,
    "InvalidResourceName": "that is not the name of a container",
    "BlobArchived": "it is archived: set the tier of the period's blobs to Hot, Cool or Cold, which takes hours, and "
    "run the task again",
    "AccountIsDisabled": "the account is disabled",
}


class AzureBlobListing(WritableListing):
    """Lists containers, and says how ClickHouse gets in."""

    def __init__(self, wasb_conn_id: str) -> None:
        self.wasb_conn_id = wasb_conn_id
        self._lock = threading.Lock()

    @cached_property
    def _client(self) -> BlobServiceClient:
        # At DEBUG it logs the URL of every request, with the signature of a SAS token.
        logging.getLogger("urllib3.connectionpool").setLevel(logging.INFO)
        try:
            from airflow.providers.microsoft.azure.hooks.wasb import WasbHook
        except ImportError as error:
            raise ConfigurationError(
                "Azure needs a provider that is not installed: install the extra azure of airflow-provider-chs3."
            ) from error
        try:
            client: BlobServiceClient = WasbHook(self.wasb_conn_id).get_conn()
        except ValueError:
            raise ConfigurationError(
                f"Connection {self.wasb_conn_id!r} is not understood: set login (the account) and password (a key), "
                "or connection_string or sas_token in its extra."
            ) from None
        return client

    def pages(
        self, bucket: str, prefix: str, narrower: Callable[[str], Sequence[str]] | None = None
    ) -> Iterator[ObjectPage]:
        """Yield the pages of the blobs whose names begin with a prefix, as they are asked for; see `Listing.pages`."""
        with self._errors_of(f"list {bucket}/{prefix}"):
            yield from pages_of(partial(_page, self._container(bucket)), prefix, narrower)

    def read(self, bucket: str, key: str, start: int, length: int) -> Iterator[bytes]:
        """Yield a part of a blob in pieces; see `WritableListing.read`."""
        with self._errors_of(f"read {bucket}/{key}"):
            for at, size in cut(start, length):
                yield self._container(bucket).download_blob(key, offset=at, length=size).readall()

    def put(self, bucket: str, key: str, body: bytes) -> None:
        """Write a blob; see `WritableListing.put`."""
        with self._errors_of(f"write or delete {bucket}/{key}"):
            self._container(bucket).upload_blob(key, body, overwrite=True)

    def delete(self, bucket: str, prefix: str) -> None:
        """Delete the blobs whose names begin with a prefix; see `WritableListing.delete`."""
        for unit in list(self.objects(bucket, prefix)):
            with self._errors_of(f"write or delete {unit.path}"):
                self._container(bucket).delete_blob(unit.key)

    def _container(self, name: str) -> ContainerClient:
        # Side by side, listings would each make a client of their own.
        with self._lock:
            return self._client.get_container_client(name)

    @contextmanager
    def _errors_of(self, what: str) -> Iterator[None]:
        """Raise an error that says what could not be done, and why."""
        from azure.core.exceptions import AzureError, HttpResponseError

        failed = f"Cannot {what} in Azure (connection {self.wasb_conn_id!r})"
        try:
            yield
        except HttpResponseError as error:
            code = getattr(error, "error_code", None) or error.status_code
            # The SDK's texts of codes are those of an enum.
            code = getattr(code, "value", code)
            if code in _TERMINAL:
                raise SourceError(f"{failed}: {_TERMINAL[code]}.") from None
            raise TransientError(f"{failed}: {code}.") from None
        except AzureError as error:
            raise TransientError(f"{failed}: {type(error).__name__}, no answer.") from None

    def access(self) -> AzureAccess:
        """Return what the connection holds for the servers: a key, a SAS token, or only where the account is."""
        client = self._client
        credential = client.credential
        url, _, query = client.url.partition("?")
        account_url, name = url.rstrip("/"), client.account_name or ""
        if key := getattr(credential, "account_key", None):
            return AzureAccess(account_url=account_url, account_name=name, account_key=key)
        if token := query or getattr(credential, "signature", ""):
            return AzureAccess(account_url=account_url, account_name=name, sas_token=token.lstrip("?"))
        return AzureAccess(account_url=account_url, account_name=name)


def _page(client: ContainerClient, prefix: str, token: str | None) -> Page:
    """Ask for a page."""
    pages: Any = client.list_blobs(name_starts_with=prefix or None).by_page(token)
    blobs = [_object(client.container_name, blob) for blob in next(pages, ())]
    return Page(ObjectPage.of(blobs), pages.continuation_token or None)


def _object(container: str, blob: Any) -> Unit:
    return Unit(
        path=f"{container}/{blob.name}",
        size_bytes=blob.size,
        version=blob.etag.strip('"'),
        last_modified=blob.last_modified,
        is_archived=blob.blob_tier == "Archive",
    )
