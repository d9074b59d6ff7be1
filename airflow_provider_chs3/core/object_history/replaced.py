"""Which objects of a period are read in place of published ones, and whose published rows must go."""

from __future__ import annotations

from collections.abc import Collection

from airflow_provider_chs3.core.values.models import Manifest, ObjectChanges


def removed_objects(changes: ObjectChanges, period: Manifest) -> tuple[str, ...]:
    """Return the paths of the objects whose published rows must go.

    An insert needs an object. If objects were only deleted, the smallest that is left is read again.

    Args:
        changes: How the objects changed since the period was published.
        period: All objects of the period.
    """
    gone = (*changes.overwritten, *changes.deleted)
    if changes.new or changes.overwritten or not (gone and period.objects):
        return gone
    return (*gone, min(period.objects, key=lambda each: (each.size_bytes, each.path)).path)


def objects_to_read(changes: ObjectChanges, period: Manifest, removed: Collection[str]) -> Manifest:
    """Return the objects whose rows are not published, or will be removed.

    Args:
        changes: How the objects changed since the period was published.
        period: All objects of the period.
        removed: The paths that `removed_objects` returned.
    """
    paths = {*removed, *(each.path for each in changes.new)}
    return Manifest(tuple(each for each in period.objects if each.path in paths))
