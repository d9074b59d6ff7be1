"""The period's files, and the statements that read them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from airflow_provider_chs3.core.files.reading import Batch
from airflow_provider_chs3.core.files.source import Source
from airflow_provider_chs3.core.model.formats import Format, compression_of_key
from airflow_provider_chs3.core.model.models import Manifest, SettingValues
from airflow_provider_chs3.core.sql.complete_answers import passed_on
from airflow_provider_chs3.core.sql.quoting import PARSED, Sql
from airflow_provider_chs3.core.steps.operations import Query, ReadBytes, Steps
from airflow_provider_chs3.exceptions import SourceError

#: Settings of statements that inspect files before anything is loaded.
LOOK_SETTINGS: SettingValues = {
    **PARSED,
    "schema_inference_make_columns_nullable": "1",
    "use_hive_partitioning": 0,
    # As in an insert: `core.tuning.exact_settings`.
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

    def compression_of(self, path: str) -> str:
        """Return ClickHouse's name of an object's compression; `none` without any."""
        return compression_of_key(path) if self.compression == "auto" else self.compression.lower()

    def batches(self) -> list[Batch]:
        """Group all files into as few batches as possible."""
        return self.source.batches(self.manifest)

    def check_restored(self) -> Steps[None]:
        """Check that archived objects can be read by now: servers try for two minutes, and do not say why it fails.

        Raises:
            SourceError: If one cannot.
        """
        for unit in self.manifest.objects:
            place = self.source.for_worker(unit.path) if unit.is_archived else None
            if place is not None:
                bucket, key = place
                name = f"Read a byte of {unit.path}, which is archived, or was"
                next((yield from ReadBytes(name=name, bucket=bucket, key=key, start=0, length=1, connections=1)))

    def check_found(self, paths: Collection[str]) -> None:
        """Check that servers found all objects.

        Raises:
            SourceError: If one is missing.
        """
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
