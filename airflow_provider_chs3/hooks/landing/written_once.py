"""Objects in S3 that are written once: what is there stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

from airflow_provider_chs3.exceptions import SourceError, TransientError

#: Answers to what a retry cannot mend.
_REFUSED = {"AccessDenied", "403", "NoSuchBucket", "InvalidAccessKeyId", "SignatureDoesNotMatch", "NotImplemented"}


class WrittenOnce:
    """Objects of a bucket that no later write replaces, by S3's `If-None-Match`.

    Args:
        bucket: The bucket.
        aws_conn_id: The AWS connection.
    """

    def __init__(self, bucket: str, aws_conn_id: str) -> None:
        from airflow_provider_chs3.hooks._s3_client import QuickS3Hook

        self.bucket = bucket
        self._client: Any = QuickS3Hook(aws_conn_id=aws_conn_id).get_conn()

    def put(self, key: str, body: bytes | BinaryIO) -> bool:
        """Write an object, unless it is there.

        Args:
            key: Its key.
            body: What it holds.

        Returns:
            Whether it was written.

        Raises:
            SourceError: If the keys may not.
            TransientError: If S3 did not answer.
        """
        return self._tried(key, ("PreconditionFailed", "412"), lambda: self._put(key, body)) is not None

    def _put(self, key: str, body: bytes | BinaryIO) -> Any:
        return self._client.put_object(Bucket=self.bucket, Key=key, Body=body, IfNoneMatch="*")

    def get(self, key: str) -> bytes | None:
        """Read an object; None if there is none. Raises as `put`.

        Args:
            key: Its key.
        """
        answer: bytes | None = self._tried(key, ("NoSuchKey", "404"), lambda: self._get(key))
        return answer

    def _get(self, key: str) -> bytes:
        body: bytes = self._client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return body

    def agreed(self, key: str, body: bytes) -> bytes:
        """Write an object unless it exists, and return its current content. Raises as `put`.

        Args:
            key: Its key.
            body: What it is to hold.
        """
        if self.put(key, body):
            return body
        held = self.get(key)
        if held is None:
            raise TransientError(f"s3://{self.bucket}/{key} has disappeared: somebody deletes landed objects.")
        return held

    def keys(self, prefix: str) -> list[str]:
        """List keys. Raises as `put`.

        Args:
            prefix: Their beginning.
        """
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        listed: list[str] = self._tried(
            prefix, (), lambda: [each["Key"] for page in pages for each in page.get("Contents", ())]
        )
        return listed

    def _tried(self, key: str, expected: tuple[str, ...], call: Callable[[], Any]) -> Any:
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
