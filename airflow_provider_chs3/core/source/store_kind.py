"""Differences between storages in ClickHouse."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_chs3.core.source.contents import OBJECTS, Contents
from airflow_provider_chs3.core.source.formats import Format
from airflow_provider_chs3.core.values.models import Setting, SettingValues


@dataclass(frozen=True, kw_only=True)
class StoreKind:
    """A kind of source, with all that ClickHouse does differently for it.

    Args:
        title: The storage's name, for people.
        function: The table function; with `Cluster` behind it, that of all nodes.
        privilege: What the user of the servers needs for it.
        glob_argument: Name of the glob where a named collection has the rest.
        shape: The order of format, structure and compression.
        bytes_event: The servers' counter of bytes received. For text it must be exact: it proves that files were read
            to their ends. None if there is none: text is then read twice.
        time_event: The servers' counter of microseconds that threads waited for the storage; None if there is none.
        path: SQL of an object's path as it is listed. Default: `_path`.
        unreadable: What ClickHouse does not read in a key as it is.
        exact: Settings without which an insert could lose rows.
        quick_failure: Settings of small reads: they fail within seconds if the storage does not answer; by default
            servers retry for minutes.
        no_cache: Settings that keep statements from caches that go by the time of the last write: if clocks differ,
            these would return an earlier version of an object.
        probe_settings: Settings of the doctor, which looks for storage that does not answer.
        contents: What a period consists of. Default: objects.
        connection: What to check of the worker's connection, for the doctor. Default: that to the storage.
        server_remedy: What else to check where servers do not reach the storage, for the doctor.
        format: The format of all objects; None if it follows from keys, or the user gives it.
    """

    title: str
    function: str
    privilege: str
    glob_argument: str
    shape: tuple[str, ...]
    bytes_event: str | None
    time_event: str | None
    exact: tuple[Setting, ...]
    path: str = "_path"
    unreadable: tuple[str, ...] = ()
    quick_failure: SettingValues = field(default_factory=dict)
    no_cache: SettingValues = field(default_factory=dict)
    probe_settings: SettingValues = field(default_factory=dict)
    contents: Contents = OBJECTS
    connection: str = ""
    server_remedy: str = ""
    format: Format | None = None

    @property
    def look_settings(self) -> SettingValues:
        """Settings of statements that inspect files which were listed."""
        return {**{each.name: each.value for each in self.exact}, **self.no_cache, **self.quick_failure}


def exact_files(prefix: str) -> tuple[Setting, ...]:
    """Return the settings without which an insert could lose files silently.

    Args:
        prefix: How ClickHouse's settings of the storage begin.
    """
    return (
        Setting(f"{prefix}_throw_on_zero_files_match", 1, "finding no file is an error"),
        Setting(f"{prefix}_ignore_file_doesnt_exist", 0, "a missing file is an error"),
        # No empty object is listed. To skip them, a server that looks for columns fetches the beginning of each first.
        Setting(f"{prefix}_skip_empty_files", 0, "an empty file is an error"),
    )
