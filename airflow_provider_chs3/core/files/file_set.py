"""The period's files in groups of equal types, and the statements and globs that read them."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from airflow_provider_chs3.core.files.key_template import shared_prefix
from airflow_provider_chs3.core.files.loaded_columns import FileGroup, LoadedColumn
from airflow_provider_chs3.core.files.source import Batch, Source
from airflow_provider_chs3.core.model.error_codes import is_of_servers
from airflow_provider_chs3.core.model.models import Manifest, SettingValues
from airflow_provider_chs3.core.model.store_kind import Format, compression_of_key
from airflow_provider_chs3.core.sql.complete_answers import passed_on
from airflow_provider_chs3.core.sql.quoting import PARSED, Sql
from airflow_provider_chs3.core.steps.operations import Query, ReadBytes, Row, Steps
from airflow_provider_chs3.core.target.table_facts import Column
from airflow_provider_chs3.exceptions import ClickHouseServerError, SourceError

#: Settings of statements that inspect files before anything is loaded.
LOOK_SETTINGS: SettingValues = {
    **PARSED,
    "schema_inference_make_columns_nullable": "1",
    "use_hive_partitioning": 0,
    # As in an insert: `core.tuning.insert_settings`.
    "input_format_parallel_parsing": 0,
    # It uses the time of the last write: if clocks differ, it would return an earlier version of an object.
    "use_cache_for_count_from_files": 0,
}

#: Threads of a statement that inspects all files at once: each spends nearly all its time waiting for the storage. 96
#: footers, 100 ms away each, took 8.4 s with the two threads of two cores, and 1.4 s with 32.
LOOK_THREADS = 64


@dataclass(frozen=True)
class Files:
    """The period's files and the settings for reading them."""

    source: Source
    manifest: Manifest
    format: Format
    compression: str
    cluster: str | None
    look_threads: int = LOOK_THREADS
    settings: SettingValues = field(default_factory=dict)
    neutral: SettingValues = field(default_factory=dict)
    waiting: SettingValues = field(default_factory=dict)
    has_older_readers: bool = False

    @property
    def zone(self) -> str:
        """The zone in which times without one are read."""
        return str(self.neutral.get("session_timezone", "")) or "UTC"

    @property
    def look_settings(self) -> SettingValues:
        """Settings of statements that inspect the files before anything is loaded."""
        return {**self.neutral, **LOOK_SETTINGS, **self.source.kind.look_settings, **self.waiting, **self.settings}

    def look(self, name: str, sql: Sql, settings: SettingValues | None = None, *, on_cluster: bool = True) -> Query:
        """Query the files on all nodes, or on one."""
        if not on_cluster:
            return Query(name=name, sql=sql, settings={**self.look_settings, **(settings or {})})
        return Query(name=name, sql=passed_on(sql, {**self.look_settings, **(settings or {})}), settings=PARSED)

    def try_look(
        self, name: str, sql: Sql, settings: SettingValues | None = None, *, on_cluster: bool = True
    ) -> Steps[list[Row] | ClickHouseServerError]:
        """Query the files; an error that they cause is returned."""
        try:
            return (yield from self.look(name, sql, settings, on_cluster=on_cluster))
        except ClickHouseServerError as error:
            if is_of_servers(error):
                raise
            return error

    def read(
        self, glob: str, *, structure: str = "auto", file_format: str | None = None, on_cluster: bool = True
    ) -> Sql:
        """Return the table function that reads the files."""
        return self.source.table_function(
            glob,
            file_format=file_format or self.format.name,
            structure=structure,
            compression=self.compression,
            cluster=self.cluster if on_cluster else None,
        )

    def select_one(
        self, path: str, values: str, *, structure: str = "auto", file_format: str | None = None, after: str = ""
    ) -> Sql:
        """Return the SELECT of values of one file, which one server reads."""
        function = self.read(self.source.glob_of(path), structure=structure, file_format=file_format, on_cluster=False)
        return function.between(f"SELECT {values} FROM ", f" WHERE {self.source.condition_of(path)}{after}")

    def compression_of(self, path: str) -> str:
        """Return ClickHouse's name of an object's compression; `none` without any."""
        return compression_of_key(path) if self.compression == "auto" else self.compression.lower()

    def batches(self) -> list[Batch]:
        """Group all files into as few batches as possible."""
        return self.source.batches(self.manifest)

    def check_restored(self) -> Steps[None]:
        """Check that archived objects can be read by now: servers try for two minutes, and do not say why it fails."""
        for unit in self.manifest.objects:
            place = self.source.for_worker(unit.path) if unit.is_archived else None
            if place is not None:
                bucket, key = place
                name = f"Read a byte of {unit.path}, which is archived, or was"
                next((yield from ReadBytes(name=name, bucket=bucket, key=key, start=0, length=1, connections=1)))

    def check_found(self, paths: Collection[str]) -> None:
        """Check that servers found all objects."""
        wanted = [unit.path for unit in self.manifest.objects]
        missing = [path for path in wanted if path not in paths]
        if missing:
            way_out = "Does it reach the same storage, and may it read every object?"
            if "//" in missing[0]:
                way_out = "Copy the object to a key without '//', which some servers do not find."
            raise SourceError(
                f"{len(wanted)} objects were listed, but ClickHouse found {len(wanted) - len(missing)} of them, and "
                f"not {missing[0]}. {way_out}"
            )


@dataclass(frozen=True)
class Reading:
    """The files of a period that a load reads, in groups."""

    #: Groups of files: those whose columns have no common type are in different ones. Usually there is one.
    groups: tuple[FileGroup, ...]
    rows: int | None = None
    uncompressed_bytes: int | None = None
    #: All columns of the files; None if files do not name them, or not in a way that can be looked up.
    names: tuple[str, ...] | None = None
    #: Rows of each file, in the order of their paths, if footers have them.
    file_rows: tuple[int, ...] | None = None

    @property
    def loaded(self) -> tuple[LoadedColumn, ...]:
        """The target's loaded columns, each with its source in the first group."""
        return self.groups[0].loaded if self.groups else ()

    @property
    def types(self) -> Mapping[str, str]:
        """Column → type, of the first group."""
        return self.groups[0].types if self.groups else {}

    @property
    def depends_on(self) -> str:
        """A function in `select` whose value may change between two loads; empty if there is none."""
        return next((column.depends_on for group in self.groups for column in group.loaded if column.depends_on), "")

    @property
    def of_others(self) -> Reading | None:
        """Return how further files like these are read, whatever rows they have; None if these are not alike."""
        if len(self.groups) != 1 or self.names is None:
            return None
        return replace(self, rows=None, uncompressed_bytes=None, names=tuple(sorted(self.names)), file_rows=None)

    @property
    def as_text(self) -> str:
        """The values of `as_json` as a text: of equal ones, the inserts are the same statement, but for settings."""
        return json.dumps(self.as_json(), ensure_ascii=False)

    def batches(self, files: Files) -> list[tuple[FileGroup, Batch]]:
        """Return what each statement reads."""
        elsewhere = frozenset[str]().union(*(group.paths for group in self.groups if group.paths is not None))
        batches = []
        for group in self.groups:
            objects = (
                unit
                for unit in files.manifest.objects
                if (unit.path in group.paths if group.paths is not None else unit.path not in elsewhere)
            )
            batches += [(group, batch) for batch in files.source.batches(Manifest(tuple(objects)))]
        return batches

    def as_json(self) -> dict[str, Any]:
        """Return JSON-safe values."""
        groups = [
            {
                "types": dict(group.types),
                "loaded": [asdict(column) for column in group.loaded],
                "paths": None if group.paths is None else sorted(group.paths),
                "defaults": dict(group.defaults),
            }
            for group in self.groups
        ]
        return {"groups": groups, "rows": self.rows, "names": self.names, "file_rows": self.file_rows}

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Reading:
        """Create it from the values of `as_json`."""
        groups = tuple(
            FileGroup(
                types=group["types"],
                loaded=tuple(_parse_column(column) for column in group["loaded"]),
                paths=None if group["paths"] is None else frozenset(group["paths"]),
                defaults=group["defaults"],
            )
            for group in values["groups"]
        )
        names, file_rows = values["names"], values["file_rows"]
        return cls(
            groups=groups,
            rows=values["rows"],
            names=None if names is None else tuple(names),
            file_rows=None if file_rows is None else tuple(file_rows),
        )


def _parse_column(values: Mapping[str, Any]) -> LoadedColumn:
    return LoadedColumn(**{**values, "column": Column(**values["column"]), "altered": tuple(values["altered"])})


#: Characters that are literal in every table function; all others are matched by a glob.
_PLAIN = re.compile(r"[A-Za-z0-9/_.=-]*")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9/_.=-]")
#: Keys with wildcards that are listed in braces: each takes a server some 3 ms, for its regular expression.
_FEW = 100


def plain_prefix(text: str) -> str:
    """Return the longest prefix of a key that is literal in a glob."""
    return _NOT_PLAIN.split(text, maxsplit=1)[0]


def any_name(levels: int) -> str:
    """Return a glob for all names this many levels down. `**` matches no braces below its first level."""
    return "*" + "/*" * levels


def glob_of_key(key: str) -> str:
    """Return a glob that matches one key, and rarely another."""
    return _NOT_PLAIN.sub("?", key)


def grouped_by_glob(paths: Sequence[str], *, base: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Group objects into few globs: one, except for keys with special characters of globs.

    Keys are listed in braces, so that hardly any other object is opened: an INSERT reads everything its glob matches,
    and `_path IN` only filters the rows. Those of plain characters are by themselves, as servers then list nothing.
    Many others need one wildcard, with one glob per level if any contains braces, as `**` does not match those.
    """
    plain, others = list[str](), list[str]()
    for path in paths:
        (plain if _PLAIN.fullmatch(path, len(base)) else others).append(path)
    are_few = len(others) <= _FEW
    for group in filter(None, (plain, others if are_few else [])):
        yield _names([path[len(base) :] for path in group]), tuple(group)
    any_braces = any(brace in path for path in others for brace in "{}")
    levels: dict[int, list[str]] = defaultdict(list)
    for path in () if are_few else others:
        levels[path.count("/") if any_braces else 0].append(path)
    for level in levels.values():
        prefix = _shared_prefix([path[len(base) :] for path in level])
        below = any_name(level[0].count("/", len(base) + len(prefix))) if any_braces else "**"
        yield prefix + below, tuple(level)


def _names(keys: Sequence[str]) -> str:
    prefix = _shared_prefix(keys)
    folder = prefix[: prefix.rfind("/") + 1]
    names = list(dict.fromkeys(glob_of_key(key[len(folder) :]) for key in keys))
    return f"{folder}{names[0]}" if len(names) == 1 else f"{folder}{{{','.join(names)}}}"


def _shared_prefix(keys: Sequence[str]) -> str:
    return plain_prefix(shared_prefix([keys[0], keys[-1]]))
