"""Create what a rehearsal needs, and remove it afterwards: a table, and small objects with known rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow_provider_chs3.client.listing import WritableListing
from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.doctor import rehearsal_tables as scratch
from airflow_provider_chs3.core.doctor.rehearsal_tables import PERIOD, Where, clean_after
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.target.table_facts import NAME_PREFIX
from airflow_provider_chs3.core.target.topology import TableLocation
from airflow_provider_chs3.exceptions import Chs3Error, ConfigurationError, TransientError
from airflow_provider_chs3.sources.storage import Storage

#: Characters with a special meaning in a load's key template, or to ClickHouse.
_NOT_LITERAL = re.compile(r"^/|//|[{}*?]")
#: The way to remove anything left behind.
CLEAN = "run `rehearse --clean` with the same arguments when it can be reached again"


class RehearsedObjects:
    """The objects of a rehearsal under a prefix, which it writes, overwrites and deletes."""

    def __init__(self, store_of: Callable[[str], Storage], *, prefix: str, name: str) -> None:
        folder = f"{name}/{{YYYY-MM}}/"
        store = store_of(f"{prefix}{folder}")
        if "bucket" in store.options and not store.place:
            raise ConfigurationError("A rehearsal writes objects: pass their bucket or container as --bucket.")
        # Without what does not belong to keys, such as the slash at the beginning of HDFS paths.
        prefix = store.template.removesuffix(folder)
        if _NOT_LITERAL.search(prefix):
            raise ConfigurationError(
                f"--prefix {prefix!r}: pass the beginning of keys in the bucket, without a leading slash, double "
                "slashes, braces or wildcards."
            )
        listing = store.listing()
        assert isinstance(listing, WritableListing)  # of a storage of objects
        self.store = store
        self.listing = listing
        self.prefix = prefix
        self.folder = f"{prefix}{name}/"
        self._files: dict[int, list[scratch.Row]] = {}

    @property
    def where(self) -> str:
        """The prefix as a URL, for messages."""
        return f"{self.store.namespace(self.store.place)}/{self.prefix}"

    @property
    def rows(self) -> list[scratch.Row]:
        """The rows of all objects, in order."""
        return sorted(row for rows in self._files.values() for row in rows)

    def check_unused(self) -> None:
        """Check that nothing exists under the prefix."""
        if any(True for _ in self.listing.objects(self.store.place, self.prefix)):
            raise ConfigurationError(
                f"There are objects under {self.where}: pass an unused prefix, as a rehearsal "
                "writes, overwrites and deletes objects there. --clean removes what an earlier one left behind."
            )

    def add(self) -> None:
        """Write another object."""
        self.write(len(self._files), version=0)

    def write(self, number: int, *, version: int) -> None:
        """Write or overwrite an object."""
        self._files[number] = scratch.rows_of_file(number, version=version)
        self.listing.put(self.store.place, self._key(number), scratch.body_of_file(self._files[number]))

    def delete_one(self) -> None:
        """Delete the last object."""
        number, _ = self._files.popitem()
        self.listing.delete(self.store.place, self._key(number))

    def delete_own(self) -> None:
        """Delete all objects of this rehearsal."""
        self.listing.delete(self.store.place, self.folder)

    def delete_left(self) -> None:
        """Delete the objects of all rehearsals under the prefix."""
        self.listing.delete(self.store.place, f"{self.prefix}{NAME_PREFIX}")

    def _key(self, number: int) -> str:
        return f"{self.folder}{PERIOD}/part-{number:03d}.jsonl"


@contextmanager
def stage(
    runner: Runner, where: Where, objects: RehearsedObjects, *, warn: Callable[[str], object]
) -> Iterator[tuple[Node, ...]]:
    """Create the table of a rehearsal, yield its nodes, and remove everything that the rehearsal created."""
    location, context = runner.run(scratch.plan_table(where))
    try:
        runner.run(scratch.create_table(where, context))
        yield location.nodes
    except BaseException:
        # Also after Ctrl-C: an interrupted load leaves staging and queries behind.
        for left in _remove_all(runner, location, objects):
            warn(f"{left}; {CLEAN}.")
        raise
    if left := "; ".join(_remove_all(runner, location, objects)):
        raise TransientError(f"{left}; {CLEAN}.")


def _remove_all(runner: Runner, location: TableLocation, objects: RehearsedObjects) -> Iterator[str]:
    """Remove what the rehearsal created, and report anything left behind."""
    try:
        objects.delete_own()
    except Exception as error:
        # Airflow's connection and boto3's chain of credentials raise different errors.
        yield f"left {objects.folder} under {objects.where} ({error})"
    try:
        cleaned = runner.run(clean_after(location))
    except Chs3Error as error:
        yield f"left {location.target}, with staging and records ({error})"
    else:
        yield from filter(None, (cleaned.left,))
