"""The month's files, and how statements read them."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_chs3.core.source.formats import Format
from airflow_provider_chs3.core.source.s3_source import READ_SETTINGS, Batch, S3Source
from airflow_provider_chs3.core.sql.complete_answers import passed_on
from airflow_provider_chs3.core.sql.quoting import PARSED, Sql
from airflow_provider_chs3.core.values.models import Manifest, SettingValues
from airflow_provider_chs3.core.workflow.operations import Query

#: Of statements that look into files before anything is loaded.
LOOK_SETTINGS: SettingValues = {
    **PARSED,
    "schema_inference_make_columns_nullable": "1",
    "use_hive_partitioning": 0,
    "s3_throw_on_zero_files_match": 1,
    # Both caches go by the time of writing: with clocks that differ, an object's last version would be taken for it.
    "use_cache_for_count_from_files": 0,
    "schema_inference_use_cache_for_s3": 0,
    **READ_SETTINGS,
}

#: Threads of a statement that looks into all files at once: each waits for the storage nearly all of its time. 96
#: footers, 100 ms away each, took 8.4 s with the two threads of two cores, and 1.4 s with 32.
LOOK_THREADS = 64


@dataclass(frozen=True)
class Files:
    """The month's files, and how to read them.

    Args:
        source: Where they are.
        manifest: Which they are.
        format: Their format.
        compression: ClickHouse's name of their compression; `auto` goes by the key.
        cluster: The cluster that reads; None for a single server.
        look_threads: Threads of a statement that looks into all of them.
        settings: How their fields are read, with whatever statement.
        neutral: The settings about reading, as far as this package does not say otherwise; see
            `core.sql.server_defaults`.
        waiting: How long to wait for nodes, where some are down.
    """

    source: S3Source
    manifest: Manifest
    format: Format
    compression: str
    cluster: str | None
    look_threads: int = LOOK_THREADS
    settings: SettingValues = field(default_factory=dict)
    neutral: SettingValues = field(default_factory=dict)
    waiting: SettingValues = field(default_factory=dict)

    @property
    def look_settings(self) -> SettingValues:
        """Of statements that look into them before anything is loaded."""
        return {**self.neutral, **LOOK_SETTINGS, **self.waiting, **self.settings}

    def look(self, name: str, sql: Sql, settings: SettingValues | None = None) -> Query:
        """Ask what they hold, on all nodes.

        Args:
            name: What is asked, in words.
            sql: A SELECT.
            settings: Settings beside those of all looks; none by default.
        """
        return Query(name=name, sql=passed_on(sql, {**self.look_settings, **(settings or {})}), settings=PARSED)

    def read(
        self, glob: str, *, structure: str = "auto", file_format: str | None = None, on_cluster: bool = True
    ) -> Sql:
        """The table function that reads them."""
        return self.source.table_function(
            glob,
            file_format=file_format or self.format.name,
            structure=structure,
            compression=self.compression,
            cluster=self.cluster if on_cluster else None,
        )

    def batches(self) -> list[Batch]:
        """All of them, as few batches."""
        return self.source.batches(self.manifest)
