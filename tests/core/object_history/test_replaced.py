"""Which objects are read in place of published ones."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_provider_chs3.core.object_history.replaced import objects_to_read, removed_objects
from airflow_provider_chs3.core.values.models import Manifest, ObjectChanges, Unit

WRITTEN = datetime(2026, 10, 1, tzinfo=UTC)


def manifest(**sizes):
    return Manifest.of(Unit(name, size, f"etag{size}", WRITTEN) for name, size in sizes.items())


PUBLISHED = manifest(a=10, b=20, c=30)


@pytest.mark.parametrize(
    ("now", "removed", "read"),
    [
        (manifest(a=10, b=20, c=30, d=5), (), ["d"]),
        (manifest(a=11, b=20, c=30), ("a",), ["a"]),
        (manifest(a=11, c=30, d=5), ("a", "b"), ["a", "d"]),
        (manifest(a=10, c=30), ("b", "a"), ["a"]),
        (manifest(a=10, c=30, d=5), ("b",), ["d"]),
        (manifest(), ("a", "b", "c"), []),
    ],
    ids=[
        "added",
        "overwritten",
        "all at once",
        "deleted: the smallest is read again",
        "deleted and added",
        "none left",
    ],
)
def test_what_is_removed_and_read(now, removed, read):
    changes = ObjectChanges.between(PUBLISHED, now)
    assert removed_objects(changes, now) == removed
    assert [each.path for each in objects_to_read(changes, now, removed).objects] == read
