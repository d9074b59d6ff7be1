"""Differences between storages in ClickHouse."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_chs3.core.model.contents import OBJECTS, Contents
from airflow_provider_chs3.core.model.formats import Format
from airflow_provider_chs3.core.model.models import Setting, SettingValues


@dataclass(frozen=True, kw_only=True)
class StoreKind:
    """A kind of source, with all that ClickHouse does differently for it."""

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
        return {**{setting.name: setting.value for setting in self.exact}, **self.no_cache, **self.quick_failure}


def exact_files(prefix: str) -> tuple[Setting, ...]:
    """Return the settings without which an insert could lose files silently."""
    return (
        Setting(f"{prefix}_throw_on_zero_files_match", 1, "finding no file is an error"),
        Setting(f"{prefix}_ignore_file_doesnt_exist", 0, "a missing file is an error"),
        # No empty object is listed. To skip them, a server that looks for columns fetches the beginning of each first.
        Setting(f"{prefix}_skip_empty_files", 0, "an empty file is an error"),
    )
