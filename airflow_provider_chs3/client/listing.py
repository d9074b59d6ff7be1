"""Listings of objects, whatever lists them; a rehearsal also writes through them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence

from airflow_provider_chs3.core.model.models import ObjectPage, Unit
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.table_snapshot import TableSnapshot

#: Sixteen objects are read at the same time.
_PIECE_BYTES = 8 * 1024**2


class Listing(ABC):
    """Lists objects from the worker, page by page."""

    def check_connection(self) -> None:  # noqa: B027  # mostly, the servers' access is asked of it anyway
        """Check that Airflow's connection gives access, before it is used; nothing by default.

        Raises:
            ConfigurationError: If it does not.
        """

    @abstractmethod
    def pages(
        self, bucket: str, prefix: str, narrower: Callable[[str], Sequence[str]] | None = None
    ) -> Iterator[ObjectPage]:
        """Yield the pages of the objects whose keys begin with a prefix, as they are asked for.

        Raises:
            SourceError: If the bucket or the credentials are wrong.
            TransientError: If the storage did not answer.
        """

    def objects(self, bucket: str, prefix: str) -> Iterator[Unit]:
        """Yield the objects whose keys begin with a prefix, in the storage's order, page by page; see `pages`."""
        for page in self.pages(bucket, prefix):
            yield from page.objects()


def cut(start: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield the pieces of a part of an object, for clients that give each as a whole: start and length."""
    for at in range(start, start + length, _PIECE_BYTES):
        yield at, min(_PIECE_BYTES, start + length - at)


class WritableListing(Listing):
    """Lists objects, reads them, and writes and deletes some.

    Raises:
        SourceError: If the credentials may not.
        TransientError: If the storage did not answer.
    """

    @abstractmethod
    def read(self, bucket: str, key: str, start: int, length: int) -> Iterator[bytes]:
        """Yield a part of an object in pieces of a few MiB at most, as they come."""

    @abstractmethod
    def put(self, bucket: str, key: str, body: bytes) -> None:
        """Write an object, in place of one of the same key."""

    @abstractmethod
    def delete(self, bucket: str, prefix: str) -> None:
        """Delete the objects whose keys begin with a prefix; there may be none."""


class SnapshotListing(Listing):
    """Lists the data files of a table by its snapshots."""

    @abstractmethod
    def snapshot(self, pinned: str | None, periods: Collection[Period]) -> TableSnapshot:
        """Return the data files of a snapshot.

        Raises:
            ConfigurationError: If the table or the connection is wrong.
            ObjectsChangedError: If the snapshot is gone.
            TransientError: If the catalog or the storage did not answer.
        """
