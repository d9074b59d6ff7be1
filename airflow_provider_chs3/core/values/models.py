"""Plain frozen data that crosses layers, validated on creation."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TypeAlias

from airflow_provider_chs3.exceptions import ConfigurationError

SettingValue: TypeAlias = str | int | float
SettingValues: TypeAlias = Mapping[str, SettingValue]

#: A table setting: from this many columns on, the buffer of each starts small when a part is written.
ADAPTIVE_BUFFERS = "min_columns_to_activate_adaptive_write_buffer"

#: So that ClickHouse's `DateTime` holds the months before and after too.
FIRST_YEAR, LAST_YEAR = 1971, 2104
_MONTH_FORMAT = re.compile(r"(\d{4})-(\d{2})")


@dataclass(frozen=True, slots=True, order=True)
class Month:
    """A calendar month; the instants it covers depend on a time zone given elsewhere.

    Args:
        year: 1971 to 2104, so that ClickHouse's `DateTime` covers the months before and after too.
        number: 1 to 12.

    Raises:
        ConfigurationError: If it is not a month.
    """

    year: int
    number: int

    def __post_init__(self) -> None:
        if not (FIRST_YEAR <= self.year <= LAST_YEAR and 1 <= self.number <= 12):
            raise ConfigurationError(
                f"{self.year:04d}-{self.number:02d} is not a month: give YYYY-MM between 1971-01 and 2104-12."
            )

    @classmethod
    def parse(cls, text: str) -> Month:
        """Parse a month written as `YYYY-MM`, such as `2026-10`.

        Raises:
            ConfigurationError: If the text does not have that form.
        """
        matched = _MONTH_FORMAT.fullmatch(text) if isinstance(text, str) else None
        if matched is None:
            raise ConfigurationError(f"month={text!r} is not a month: give it as YYYY-MM, such as '2026-10'.")
        return cls(int(matched[1]), int(matched[2]))

    def __str__(self) -> str:
        return f"{self.year:04d}-{self.number:02d}"

    def shifted(self, months: int) -> Month:
        """Return the month this many months later, or earlier if negative."""
        count = self.year * 12 + self.number - 1 + months
        return Month(count // 12, count % 12 + 1)


@dataclass(frozen=True, slots=True)
class S3Object:
    """An object in S3, as listed.

    Args:
        path: `<bucket>/<key>`, ClickHouse's `_path`.
        size_bytes: Its size in bytes.
        etag: Its ETag, without quotes.
        last_modified: Time of the last write, to the second, in UTC.
    """

    path: str
    size_bytes: int
    etag: str
    last_modified: datetime

    @property
    def key(self) -> str:
        """The object's key in its bucket."""
        return self.path.partition("/")[2]


class Fingerprint:
    """The digest of a manifest, built incrementally from objects in path order."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, each: S3Object) -> None:
        """Add the next object."""
        self._digest.update(repr((each.path, each.size_bytes, each.etag)).encode())

    def __str__(self) -> str:
        return self._digest.hexdigest()[:32]


@dataclass(frozen=True)
class Manifest:
    """The exact objects that one load reads, in path order."""

    objects: tuple[S3Object, ...]

    @classmethod
    def of(cls, objects: Iterable[S3Object]) -> Manifest:
        """Create a manifest of these objects, given in any order."""
        return cls(tuple(sorted(objects, key=lambda each: each.path)))

    @cached_property
    def size_bytes(self) -> int:
        """Total size of the objects."""
        return sum(each.size_bytes for each in self.objects)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of paths, sizes and ETags: equal for the same content at the same paths.

        The time of the last write is not part of it: an object copied over itself has not changed.
        """
        digest = Fingerprint()
        for each in self.objects:
            digest.add(each)
        return str(digest)

    def added_in(self, later: Manifest) -> int:
        """Count the objects of a later listing that are missing here."""
        return len({each.path for each in later.objects} - {each.path for each in self.objects})

    def changes_in(self, later: Manifest) -> str:
        """Describe which of these objects differ in a later listing; empty if none does."""
        before = {each.path: each for each in self.objects}
        after = {each.path: each for each in later.objects}
        changes = {
            "deleted": sorted(before.keys() - after.keys()),
            "overwritten": sorted(path for path in before.keys() & after.keys() if before[path] != after[path]),
        }
        return "; ".join(f"{len(paths)} {what} ({paths[0]}…)" for what, paths in changes.items() if paths)


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table in its database, unquoted; `core.sql.quoting` quotes it."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True, order=True)
class Node:
    """A ClickHouse server, as named in `system.clusters`.

    Args:
        shard_num: Its shard, from 1.
        replica_num: Its replica within the shard, from 1.
        host: Host name in the cluster's definition.
        port: Native port in the cluster's definition.
    """

    shard_num: int
    replica_num: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """The resources of a node for loads.

    Args:
        cores: CPU cores.
        memory_bytes: RAM that ClickHouse may use.
    """

    cores: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a load, with the reason for its value."""

    name: str
    value: SettingValue
    reason: str


@dataclass(frozen=True)
class LoadResult:
    """The result of a load.

    Args:
        status: `published`, `unchanged`, `skipped` (no objects, or its run covers other months), `appended`.
        month: The month.
        target: The table.
        reason: The reason why it was loaded or not.
        fingerprint: Fingerprint of the objects.
        objects: Number of the month's objects.
        source_bytes: Their total size.
        rows: Rows of the month in the target, over all nodes.
        rows_by_node: The same per node.
        loaded_objects: Number of objects that this load read: all, or in an increment the new ones; 0 if nothing was
            loaded.
        loaded_bytes: Their total size.
        loaded_rows: Their rows.
        other_month_rows: Skipped rows that belong to other months.
        parts: Parts at publishing, over all nodes.
        table_bytes: Bytes that the month takes on disk at publishing, each row counted once; 0 where it was appended.
        insert_seconds: Duration of the insert in seconds.
        peak_memory_bytes: Peak memory on one node; None if the insert was too short to observe.
        attempt: The attempt's nonce.
        query_ids: The inserts' query ids.
        settings: Name → value, as sent.
        seconds_by_step: Step → seconds, for the steps of `core.workflow.step_timer.STEP_NAMES` that ran.
        counted_by: Source of the objects' row count: Parquet `footers`, the `insert` that read them, or a
            `second read`; empty if nothing was counted.
    """

    status: str
    month: Month
    target: TableName
    reason: str
    fingerprint: str = ""
    objects: int = 0
    source_bytes: int = 0
    rows: int = 0
    rows_by_node: Mapping[str, int] = field(default_factory=dict)
    loaded_objects: int = 0
    loaded_bytes: int = 0
    loaded_rows: int = 0
    other_month_rows: int = 0
    parts: int = 0
    table_bytes: int = 0
    insert_seconds: float = 0.0
    peak_memory_bytes: int | None = None
    attempt: str = ""
    query_ids: tuple[str, ...] = ()
    settings: SettingValues = field(default_factory=dict)
    seconds_by_step: Mapping[str, float] = field(default_factory=dict)
    counted_by: str = ""

    def summary(self) -> str:
        """Summarize the result in one line for people."""
        of = f"{self.target} {self.month}"
        if self.status == "skipped":
            return f"{of} skipped: {self.reason}."
        if self.status == "unchanged":
            return f"{of} unchanged ({self.reason}): {self.rows:,} rows of {self.objects} objects, nothing to load."
        speed = f"{self.loaded_rows / self.insert_seconds:,.0f} rows/s" if self.insert_seconds else "nothing to insert"
        new = f", {self.loaded_rows:,} of them new," if self.loaded_objects < self.objects else ""
        left_out = f"; {self.other_month_rows:,} rows of other months left out" if self.other_month_rows else ""
        return (
            f"{of} {self.status} ({self.reason}): {self.rows:,} rows of {self.objects} objects{new} in "
            f"{self.insert_seconds:.1f} s ({speed}), {self.parts} parts on {len(self.rows_by_node)} nodes{left_out}."
        )

    def as_json(self) -> dict[str, object]:
        """Return JSON-safe values for XCom."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return values | {
            "month": str(self.month),
            "target": str(self.target),
            "rows_by_node": dict(self.rows_by_node),
            "settings": dict(self.settings),
            "query_ids": list(self.query_ids),
            "insert_seconds": round(self.insert_seconds, 3),
            "seconds_by_step": {name: round(seconds, 3) for name, seconds in self.seconds_by_step.items()},
        }
