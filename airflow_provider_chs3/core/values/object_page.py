"""A page of a listing, in columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow_provider_chs3.core.values.models import Unit


@dataclass(frozen=True, slots=True)
class ObjectPage:
    """Some objects of a listing, in the storage's order, as columns: an `Unit` each takes longer than all else.

    Args:
        paths: `<bucket>/<key>` of each.
        sizes_bytes: The size of each, in bytes.
        etags: The ETag of each, without quotes.
        read_times: Returns the time of each one's last write, in UTC. It is called only where times are needed.
    """

    paths: Sequence[str]
    sizes_bytes: Sequence[int]
    etags: Sequence[str]
    read_times: Callable[[], Sequence[datetime]]

    @classmethod
    def of(cls, objects: Sequence[Unit]) -> ObjectPage:
        """Create a page of these objects."""
        return cls(
            [each.path for each in objects],
            [each.size_bytes for each in objects],
            [each.version for each in objects],
            lambda: [each.last_modified for each in objects],
        )

    def objects(self) -> Iterator[Unit]:
        """Return the objects themselves."""
        return map(Unit, self.paths, self.sizes_bytes, self.etags, self.read_times())
