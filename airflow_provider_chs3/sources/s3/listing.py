"""S3 as the worker sees it: listing through an AWS connection, and the keys that it holds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from airflow_provider_chs3.client.listing import WritableListing
from airflow_provider_chs3.core.model.models import ObjectPage, Unit
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError, TransientError
from airflow_provider_chs3.sources.s3.page_reader import ARCHIVES, LISTED, read_leanly
from airflow_provider_chs3.sources.s3.reading import Credentials
from airflow_provider_chs3.sources.side_by_side import AT_ONCE, Page, pages_of

if TYPE_CHECKING:
    from airflow.providers.amazon.aws.hooks.s3 import S3Hook

#: Errors that will not pass by themselves.
_TERMINAL = {
    "NoSuchBucket": "there is no such bucket",
    "AccessDenied": "access is denied: the keys need s3:ListBucket and s3:GetObject",
    "403": "access is denied: the keys need s3:ListBucket and s3:GetObject",
    "InvalidAccessKeyId": "the access key is not known there",
    "SignatureDoesNotMatch": "the secret key is wrong",
    "ExpiredToken": "the session token has expired: set a new one in the AWS connection",
    "InvalidToken": "the session token is not known there: set the one of its keys in the AWS connection",
    "InvalidObjectState": "it is archived: restore the period's objects (`aws s3api restore-object`), which takes "
    "hours, and run the task again",
    "PermanentRedirect": "the bucket is in another region: set region_name in the AWS connection",
}

#: Pieces in which an object is read; larger ones are not faster.
_PIECE_BYTES = 1024**2
#: Ends the name of a directory bucket, of S3 Express: its prefixes must end with a slash.
_DIRECTORY_BUCKET = "--x-s3"


class S3Listing(WritableListing):
    """Lists buckets, and returns the credentials that ClickHouse reads them with.

    Args:
        aws_conn_id: The AWS connection; None reads without signing, for public buckets.
        is_patient: Whether a storage that does not answer is tried as long as the AWS connection says, which is minutes
            by default; else it has seconds. Default: True.
    """

    def __init__(self, aws_conn_id: str | None, *, is_patient: bool = True) -> None:
        self.aws_conn_id = aws_conn_id
        self.is_patient = is_patient
        self._lock = threading.Lock()

    @cached_property
    def _hook(self) -> S3Hook:
        from airflow_provider_chs3.sources.s3.client import QuickS3Hook

        # At DEBUG it logs the session token of every request, and the keys that STS answers with.
        logging.getLogger("botocore").setLevel(logging.INFO)
        from botocore import UNSIGNED
        from botocore.config import Config

        hasty = Config(connect_timeout=5, read_timeout=5, retries={"total_max_attempts": 2})
        if self.aws_conn_id is None:
            config = Config(signature_version=UNSIGNED)
            return QuickS3Hook(aws_conn_id=None, config=config if self.is_patient else config.merge(hasty))
        hook = QuickS3Hook(aws_conn_id=self.aws_conn_id)
        return hook if self.is_patient else QuickS3Hook(aws_conn_id=self.aws_conn_id, config=hook.config.merge(hasty))

    @cached_property
    def _client(self) -> Any:
        from botocore.config import Config

        config = self._hook.config
        options = Config(
            # Requests that find no connection free each make one, and urllib3 warns of it.
            max_pool_connections=max(AT_ONCE, config.max_pool_connections),
            # Not all that speak S3's protocol know the checksums that boto3 sends by default.
            request_checksum_calculation="when_required",
        )
        client = self._hook.get_client_type(self._hook.region_name, config.merge(options))
        read_leanly(client)
        return client

    def pages(
        self, bucket: str, prefix: str, narrower: Callable[[str], Sequence[str]] | None = None
    ) -> Iterator[ObjectPage]:
        """Yield the pages of the objects whose keys begin with a prefix, as they are asked for; see `Listing.pages`."""
        if bucket.endswith(_DIRECTORY_BUCKET):
            narrower = None
        with self._errors_of(f"list s3://{bucket}/{prefix}"):
            # Side by side, listings would each make a client of their own.
            with self._lock:
                client = self._client
            yield from pages_of(partial(_page, client, bucket), prefix, narrower)

    def read(self, bucket: str, key: str, start: int, length: int) -> Iterator[bytes]:
        """Yield a part of an object in pieces; see `WritableListing.read`."""
        wanted = f"bytes={start}-{start + length - 1}"
        with (
            self._errors_of(f"read s3://{bucket}/{key}"),
            closing(self._client.get_object(Bucket=bucket, Key=key, Range=wanted)["Body"]) as body,
        ):
            yield from body.iter_chunks(_PIECE_BYTES)

    @contextmanager
    def _errors_of(self, what: str) -> Iterator[None]:
        """Raise an error that says what could not be done, and why."""
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        failed = f"Cannot {what} (connection {self.aws_conn_id!r})"
        try:
            yield
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code in _TERMINAL:
                raise SourceError(f"{failed}: {_TERMINAL[code]}.") from error
            raise TransientError(f"{failed}: {code}.") from error
        except (BotoCoreError, ResponseParserError) as error:
            # A page may follow.
            reason, _, _ = str(error).partition("\n")
            raise TransientError(f"{failed}: {reason}") from error

    def put(self, bucket: str, key: str, body: bytes) -> None:
        """Write an object; see `WritableListing.put`."""
        self._change("put_object", bucket, key, Body=body)

    def delete(self, bucket: str, prefix: str) -> None:
        """Delete the objects whose keys begin with a prefix; see `WritableListing.delete`."""
        for unit in list(self.objects(bucket, prefix)):
            self._change("delete_object", bucket, unit.key)

    def _change(self, operation: str, bucket: str, key: str, **sent: bytes) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            getattr(self._client, operation)(Bucket=bucket, Key=key, **sent)
        except (BotoCoreError, ClientError) as error:
            raise SourceError(
                f"Cannot write or delete s3://{bucket}/{key} (connection {self.aws_conn_id!r}): {error}"
            ) from error

    def access(self) -> tuple[Credentials, str]:
        """Return the keys that the connection holds, or has been given for a while, and the storage's endpoint.

        Raises:
            ConfigurationError: If nothing gives keys.
        """
        hook = self._hook
        endpoint_url = self._client.meta.endpoint_url
        if self.aws_conn_id is None:
            return Credentials(), endpoint_url
        credentials = hook.get_session(region_name=hook.region_name).get_credentials()
        if credentials is None:
            raise ConfigurationError(
                f"AWS connection {self.aws_conn_id!r} has no keys, and nothing else on this machine has any: set its "
                "login and password or a role, or aws_conn_id=None for a public bucket."
            )
        keys = credentials.get_frozen_credentials()
        return Credentials(keys.access_key, keys.secret_key, keys.token), endpoint_url


def _page(client: Any, bucket: str, prefix: str, token: str | None) -> Page:
    """Ask for a page, and read what is on it."""
    page = client.list_objects_v2(
        Bucket=bucket, Prefix=prefix, **{"ContinuationToken": token} if token is not None else {}
    )
    following = page.get("NextContinuationToken") if page.get("IsTruncated") else None
    if page.get("IsTruncated") and following in (None, "", token):
        raise TransientError(
            f"Cannot list s3://{bucket}/{prefix}: the storage says that there is more, but not how to continue."
        )
    if LISTED not in page:
        return Page(ObjectPage.of([_s3_object(bucket, entry) for entry in page.get("Contents", ())]), following)
    listed = page[LISTED]
    keys = _decoded(listed.keys) if page.get("EncodingType") == "url" else listed.keys
    paths, times = [f"{bucket}/{key}" for key in keys], listed.times
    return Page(ObjectPage(paths, list(map(int, listed.sizes)), listed.etags, partial(_times, times)), following)


def _decoded(keys: list[str]) -> list[str]:
    """Decode keys that are written as in a URL: all at once if no line ends in one, as each call takes its time."""
    lines = "\n".join(keys)
    if "%" not in lines and "+" not in lines:
        return keys
    decoded = unquote_plus(lines).split("\n")
    return (
        decoded if len(decoded) == len(keys) and lines.count("\n") == len(keys) - 1 else list(map(unquote_plus, keys))
    )


def _times(texts: Sequence[str]) -> list[datetime]:
    from airflow_provider_chs3.sources.s3.client import parse_time

    try:
        return list(map(datetime.fromisoformat, texts))
    except ValueError:
        return list(map(parse_time, texts))


def _s3_object(bucket: str, listed: dict[str, Any]) -> Unit:
    return Unit(
        path=f"{bucket}/{listed['Key']}",
        size_bytes=listed["Size"],
        version=listed["ETag"].strip('"'),
        last_modified=listed["LastModified"],
        is_archived=listed.get("StorageClass") in ARCHIVES,
    )
