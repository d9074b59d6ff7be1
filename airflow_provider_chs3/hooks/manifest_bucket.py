"""Objects of a bucket, one of which is replaced only if it is still the one that was read."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from airflow_provider_chs3.hooks.landing.written_once import WrittenOnce

_LOST = ("PreconditionFailed", "412", "ConditionalRequestConflict", "409", "NoSuchKey", "404")


class ManifestBucket(WrittenOnce):
    """A bucket with manifests; errors are as in `WrittenOnce.put`."""

    def read(self, key: str) -> tuple[bytes, str] | None:
        """Read an object and its ETag; None if there is none.

        Args:
            key: Its key.
        """
        found: tuple[bytes, str] | None = self._tried(key, ("NoSuchKey", "404"), lambda: self._read(key))
        return found

    def _read(self, key: str) -> tuple[bytes, str]:
        answer = self._client.get_object(Bucket=self.bucket, Key=key)
        return answer["Body"].read(), answer["ETag"]

    def swap(self, key: str, body: bytes, etag: str | None) -> bool:
        """Write an object if it is still the one that was read, by S3's `If-Match`.

        Args:
            key: Its key.
            body: What it is to hold.
            etag: Its ETag when it was read; None if it did not exist.

        Returns:
            Whether it was written.
        """
        condition: dict[str, Any] = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}

        def put() -> Any:
            return self._client.put_object(Bucket=self.bucket, Key=key, Body=body, **condition)

        return self._tried(key, _LOST, put) is not None

    def sizes(self, prefix: str) -> dict[str, tuple[int, str]]:
        """List objects: key → size in bytes and ETag.

        Args:
            prefix: The beginning of their keys.
        """
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)

        def listed() -> dict[str, tuple[int, str]]:
            every = (each for page in pages for each in page.get("Contents", ()))
            return {each["Key"]: (each["Size"], each["ETag"].strip('"')) for each in every}

        found: dict[str, tuple[int, str]] = self._tried(prefix, (), listed)
        return found

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; those that are gone are no error.

        Args:
            keys: Their keys.
        """
        for key in keys:
            self._tried(key, (), partial(self._client.delete_object, Bucket=self.bucket, Key=key))
