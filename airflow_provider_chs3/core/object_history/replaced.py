"""Which objects of a month are read in place of published ones, and whose published rows must go."""

from __future__ import annotations

from collections.abc import Collection

from airflow_provider_chs3.core.values.models import Manifest, ObjectChanges


def removed_objects(changes: ObjectChanges, month: Manifest) -> tuple[str, ...]:
    """Return the paths of the objects whose published rows must go.

    An insert needs an object. If objects were only deleted, the smallest that is left is read again.

    Args:
        changes: How the objects changed since the month was published.
        month: All objects of the month.
    """
    gone = (*changes.overwritten, *changes.deleted)
    if changes.new or changes.overwritten or not (gone and month.objects):
        return gone
    return (*gone, min(month.objects, key=lambda each: (each.size_bytes, each.path)).path)


def objects_to_read(changes: ObjectChanges, month: Manifest, removed: Collection[str]) -> Manifest:
    """Return the objects whose rows are not published, or will be removed.

    Args:
        changes: How the objects changed since the month was published.
        month: All objects of the month.
        removed: The paths that `removed_objects` returned.
    """
    paths = {*removed, *(each.path for each in changes.new)}
    return Manifest(tuple(each for each in month.objects if each.path in paths))
