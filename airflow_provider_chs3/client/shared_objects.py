"""Objects in S3 that tasks agree on: each is written if it is absent, or still the one that was read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, BinaryIO, TypeVar

from airflow_provider_chs3.exceptions import SourceError, TransientError

T = TypeVar("T")

_ABSENT = ("NoSuchKey", "404")
_EXISTS = ("PreconditionFailed", "412")
_CHANGED = (*_EXISTS, "ConditionalRequestConflict", "409", *_ABSENT)
#: Answers to what a retry cannot mend.
_REFUSED = {"AccessDenied", "403", "NoSuchBucket", "InvalidAccessKeyId", "SignatureDoesNotMatch", "NotImplemented"}


class SharedObjects:
    """Objects of a bucket. All methods raise as `put`."""

    def __init__(self, bucket: str, client: Any) -> None:
        self.bucket = bucket
        self._client = client

    def put(self, key: str, body: bytes | BinaryIO) -> bool:
        """Write an object unless it is there, by S3's `If-None-Match`, and return whether it was written.

        Raises:
            SourceError: If the keys may not.
            TransientError: If S3 did not answer.
        """
        return self._put(key, body, _EXISTS, IfNoneMatch="*")

    def swap(self, key: str, body: bytes, etag: str | None) -> bool:
        """Write an object if it is still the one that was read, by S3's `If-Match`; return whether it was written."""
        return self._put(key, body, _CHANGED, **({"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}))

    def read(self, key: str) -> tuple[bytes, str] | None:
        """Read an object and its ETag; None if there is none."""

        def read() -> tuple[bytes, str]:
            answer = self._client.get_object(Bucket=self.bucket, Key=key)
            return answer["Body"].read(), answer["ETag"]

        return self._tried(key, _ABSENT, read)

    def get(self, key: str) -> bytes | None:
        """Read an object; None if there is none."""
        answer = self.read(key)
        return answer[0] if answer else None

    def agreed(self, key: str, body: bytes) -> bytes:
        """Write an object unless it exists, and return its current content."""
        if self.put(key, body):
            return body
        held = self.get(key)
        if held is None:
            raise TransientError(f"s3://{self.bucket}/{key} has disappeared: somebody deletes landed objects.")
        return held

    def listed(self, prefix: str) -> dict[str, tuple[int, str]]:
        """List objects: key → size in bytes and ETag."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)

        def listed() -> dict[str, tuple[int, str]]:
            every = (entry for page in pages for entry in page.get("Contents", ()))
            return {entry["Key"]: (entry["Size"], entry["ETag"].strip('"')) for entry in every}

        return self._tried(prefix, (), listed) or {}

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; those that are gone are no error."""
        for key in keys:
            self._tried(key, (), partial(self._client.delete_object, Bucket=self.bucket, Key=key))

    def _put(self, key: str, body: bytes | BinaryIO, lost: tuple[str, ...], **condition: str) -> bool:
        put = partial(self._client.put_object, Bucket=self.bucket, Key=key, Body=body, **condition)
        return self._tried(key, lost, put) is not None

    def _tried(self, key: str, expected: tuple[str, ...], call: Callable[[], T]) -> T | None:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return call()
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code in expected:
                return None
            kind = SourceError if code in _REFUSED else TransientError
            raise kind(f"Cannot read or write s3://{self.bucket}/{key}: {code}.") from error
        except BotoCoreError as error:
            raise TransientError(f"Cannot read or write s3://{self.bucket}/{key}: {error}") from error
