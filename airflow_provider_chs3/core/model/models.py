"""Plain frozen data that crosses layers, validated on creation and written as JSON."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field
from datetime import date, datetime, time
from functools import cached_property
from itertools import repeat
from typing import Any, ClassVar, NamedTuple, TypeAlias

from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.quantities import objects_text, quantity, size_text

#: Airflow sends XComs between its processes as msgpack, which has no larger integers.
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1


def as_json(value: object) -> Any:
    """Return a value as JSON has it: dates and times as in ISO 8601, and all that JSON lacks as its text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if _SMALLEST <= value <= _LARGEST else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, AsJson):
        return value.as_json()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): as_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(inner) for inner in value]
    return str(value)


class AsJson:
    """A dataclass whose fields are its JSON."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def as_json(self) -> dict[str, Any]:
        """Return JSON-safe values."""
        return {name: as_json(getattr(self, name)) for name in self.__dataclass_fields__}


SettingValue: TypeAlias = str | int | float
SettingValues: TypeAlias = Mapping[str, SettingValue]

#: A table setting: from this many columns on, the buffer of each starts small when a part is written.
ADAPTIVE_BUFFERS = "min_columns_to_activate_adaptive_write_buffer"

#: More would take memory, and less would take time.
_DIGESTED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Unit:
    """One entry of a period's list: an object, a data file, or the period's rows of a database."""

    #: ClickHouse's `_path`: `<bucket>/<key>`, or the table and the period.
    path: str
    #: Its size in bytes; of rows an estimate.
    size_bytes: int
    #: A text that changes with what it holds: of an object its ETag, without quotes.
    version: str
    last_modified: datetime
    #: Whether it must have been restored before it can be read. Not compared: an object may be archived after it was
    #: loaded.
    is_archived: bool = field(default=False, compare=False)

    @property
    def content(self) -> tuple[int, str]:
        """Its size and version, which differ if it holds something else: a copy of itself has not changed."""
        return self.size_bytes, self.version

    @property
    def key(self) -> str:
        """The object's key in its bucket."""
        return self.path.partition("/")[2]


class Fingerprint:
    """The digest of a manifest, built incrementally from objects in path order."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, paths: Iterable[str], sizes_bytes: Iterable[int], etags: Iterable[str]) -> None:
        """Add the next objects, given as columns: one update for each would take twice as long."""
        self._digest.update("".join(map(repr, zip(paths, sizes_bytes, etags, strict=True))).encode())

    def __str__(self) -> str:
        return self._digest.hexdigest()[:32]


@dataclass(frozen=True)
class Manifest:
    """The exact objects that one load reads, in path order."""

    objects: tuple[Unit, ...]

    @classmethod
    def of(cls, objects: Iterable[Unit]) -> Manifest:
        """Create a manifest of these objects, given in any order."""
        return cls(tuple(sorted(objects, key=lambda unit: unit.path)))

    @cached_property
    def size_bytes(self) -> int:
        """Total size of the objects."""
        return sum(unit.size_bytes for unit in self.objects)

    @property
    def sizes(self) -> str:
        """Number and total size of the objects, for people."""
        return objects_text(len(self.objects), self.size_bytes)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of paths, sizes and ETags: equal for the same content at the same paths.

        The time of the last write is not part of it: an object copied over itself has not changed.
        """
        digest = Fingerprint()
        for first in range(0, len(self.objects), _DIGESTED_AT_ONCE):
            batch = self.objects[first : first + _DIGESTED_AT_ONCE]
            digest.add(*([getattr(unit, name) for unit in batch] for name in ("path", "size_bytes", "version")))
        return str(digest)

    def added_in(self, later: Manifest) -> int:
        """Count the objects of a later listing that are missing here."""
        return len({unit.path for unit in later.objects} - {unit.path for unit in self.objects})

    def changes_in(self, later: Manifest) -> str:
        """Describe which of these objects differ in a later listing; empty if none does."""
        before = {unit.path: unit for unit in self.objects}
        after = {unit.path: unit for unit in later.objects}
        changes = {
            "deleted": sorted(before.keys() - after.keys()),
            "overwritten": sorted(path for path in before.keys() & after.keys() if before[path] != after[path]),
        }
        return "; ".join(_with_example(what, paths) for what, paths in changes.items() if paths)


def _with_example(what: str, paths: Sequence[str]) -> str:
    first, *others = paths
    return f"{len(paths):,} {what} ({first}{'…' if others else ''})"


@dataclass(frozen=True, slots=True)
class HeldObjects:
    """The objects that periods of a table hold rows of, wherever they arrived."""

    periods: Mapping[Period, Manifest]
    #: Path of each object → its rows in all periods, where they were counted.
    rows: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class ObjectChanges:
    """The differences between the objects that a period was loaded from and those of now."""

    new: tuple[Unit, ...]
    overwritten: tuple[str, ...]
    deleted: tuple[str, ...]

    @classmethod
    def between(cls, before: Manifest, current: Manifest) -> ObjectChanges:
        """Compare two lists of objects."""
        known = {unit.path: unit.content for unit in before.objects}
        listed = {unit.path: unit.content for unit in current.objects}
        return cls(
            new=tuple(unit for unit in current.objects if unit.path not in known),
            overwritten=tuple(path for path, content in known.items() if listed.get(path, content) != content),
            deleted=tuple(path for path in known if path not in listed),
        )

    def removed(self, period: Manifest) -> tuple[str, ...]:
        """Return the paths of the objects whose published rows must go.

        An insert needs an object. If objects were only deleted, the smallest that is left is read again.
        """
        gone = (*self.overwritten, *self.deleted)
        if self.new or self.overwritten or not (gone and period.objects):
            return gone
        return (*gone, min(period.objects, key=lambda unit: (unit.size_bytes, unit.path)).path)

    def to_read(self, period: Manifest, removed: Iterable[str]) -> Manifest:
        """Return the objects whose rows are not published, or will be removed."""
        paths = {*removed, *(unit.path for unit in self.new)}
        return Manifest(tuple(unit for unit in period.objects if unit.path in paths))

    @property
    def counts(self) -> dict[str, int]:
        """The number of each, without those that are 0."""
        return {name: len(units) for name in ("new", "overwritten", "deleted") if (units := getattr(self, name))}

    def __str__(self) -> str:
        changed = {"overwritten": self.overwritten, "deleted": self.deleted}
        texts = [f"{len(self.new):,} new"] if self.new else []
        return ", ".join([*texts, *(_with_example(what, paths) for what, paths in changed.items() if paths)])


@dataclass(frozen=True, slots=True)
class PeriodObjects:
    """A period's objects, as far as a comparison needs them."""

    count: int
    size_bytes: int
    fingerprint: str
    rows: int | None = None

    @classmethod
    def of(cls, manifest: Manifest, *, rows: int | None = None) -> PeriodObjects:
        """Return what a comparison needs of a manifest."""
        return cls(len(manifest.objects), manifest.size_bytes, manifest.fingerprint, rows)

    @property
    def sizes(self) -> str:
        """The period's rows, or number and size of its objects, for people."""
        if self.rows is not None:
            return quantity(self.rows, "row")
        return objects_text(self.count, self.size_bytes)


@dataclass(frozen=True, slots=True)
class ObjectPage:
    """Some objects of a listing, in the storage's order, as columns: an `Unit` each takes longer than all else."""

    paths: Sequence[str]
    sizes_bytes: Sequence[int]
    etags: Sequence[str]
    read_times: Callable[[], Sequence[datetime]]
    archived: Sequence[bool] = ()

    @classmethod
    def of(cls, objects: Sequence[Unit]) -> ObjectPage:
        """Create a page of these objects."""
        return cls(
            [unit.path for unit in objects],
            [unit.size_bytes for unit in objects],
            [unit.version for unit in objects],
            lambda: [unit.last_modified for unit in objects],
            [unit.is_archived for unit in objects],
        )

    def objects(self) -> Iterator[Unit]:
        """Return the objects themselves."""
        return map(Unit, self.paths, self.sizes_bytes, self.etags, self.read_times(), self.archived or repeat(False))


class TableName(NamedTuple):
    """A table in its database, unquoted; `core.sql.quoting` quotes it."""

    database: str
    table: str

    @classmethod
    def of(cls, table: str, database: str | None, *, default_database: str) -> TableName:
        """Return the table that a user names."""
        before, _, after = table.partition(".")
        return cls(before, after) if before and after and not database else cls(database or default_database, table)

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


class Node(NamedTuple):
    """A ClickHouse server, as named in `system.clusters`."""

    shard_num: int
    replica_num: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.host else "the server"


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """The resources of a node for loads."""

    cores: int
    #: RAM that ClickHouse may use; 0 if it is not known.
    memory_bytes: int

    def __str__(self) -> str:
        memory = size_text(self.memory_bytes) if self.memory_bytes else "memory not known"
        return f"{quantity(self.cores, 'core')}, {memory}"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a load, with the reason for its value."""

    name: str
    value: SettingValue
    reason: str
