"""The objects of a rehearsal: small, with known rows."""

from __future__ import annotations

import re

from airflow_provider_chs3.core.cluster.untested_engines import NAME_PREFIX
from airflow_provider_chs3.core.rehearsal import scratch
from airflow_provider_chs3.core.rehearsal.scratch import MONTH
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.hooks.s3 import S3Listing

#: Characters with a special meaning in a load's key template, or to ClickHouse.
_NOT_LITERAL = re.compile(r"^/|//|[{}*?]")


class RehearsedObjects:
    """The objects of a rehearsal under a prefix, which it writes, overwrites and deletes.

    Args:
        listing: The access to the bucket.
        bucket: The bucket.
        prefix: Prefix of the keys; no objects may exist under it.
        name: The name of the rehearsal.

    Raises:
        ConfigurationError: If keys cannot begin with the prefix.
    """

    def __init__(self, listing: S3Listing, *, bucket: str, prefix: str, name: str) -> None:
        if _NOT_LITERAL.search(prefix):
            raise ConfigurationError(
                f"--prefix {prefix!r}: give the beginning of keys in the bucket, without a leading slash, double "
                "slashes, braces or wildcards."
            )
        self.listing = listing
        self.bucket = bucket
        self.prefix = prefix
        self.folder = f"{prefix}{name}/"
        self._files: dict[int, list[scratch.Row]] = {}

    @property
    def rows(self) -> list[scratch.Row]:
        """The rows of all objects, in order."""
        return sorted(row for rows in self._files.values() for row in rows)

    def check_unused(self) -> None:
        """Check that nothing exists under the prefix.

        Raises:
            ConfigurationError: If something does.
        """
        if any(True for _ in self.listing.objects(self.bucket, self.prefix)):
            raise ConfigurationError(
                f"There are objects under s3://{self.bucket}/{self.prefix}: give an unused prefix, as a rehearsal "
                "writes, overwrites and deletes objects there. --clean removes what an earlier one left behind."
            )

    def add(self) -> None:
        """Write another object."""
        self.write(len(self._files), version=0)

    def write(self, number: int, *, version: int) -> None:
        """Write or overwrite an object.

        Args:
            number: Number of the object, from 0.
            version: Version of the object; each has different rows.
        """
        self._files[number] = scratch.rows_of_file(number, version=version)
        self.listing.put(self.bucket, self._key(number), scratch.body_of_file(self._files[number]))

    def delete_one(self) -> None:
        """Delete the last object."""
        number, _ = self._files.popitem()
        self.listing.delete(self.bucket, self._key(number))

    def delete_own(self) -> None:
        """Delete all objects of this rehearsal."""
        self.listing.delete(self.bucket, self.folder)

    def delete_left(self) -> None:
        """Delete the objects of all rehearsals under the prefix."""
        self.listing.delete(self.bucket, f"{self.prefix}{NAME_PREFIX}")

    def _key(self, number: int) -> str:
        return f"{self.folder}{MONTH}/part-{number:03d}.jsonl"
