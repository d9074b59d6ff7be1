"""The same period in every format, as few large files and as many small ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_chs3.core.model.models import SettingValues
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import COLUMNS, create_table_sql
from tests.benchmarks.lake import BUCKET, TABLE, Lake, Periods
from tests.benchmarks.measure import MEMORY, SECONDS, SPEED, watched
from tests.benchmarks.rounds import Comparison, Figures, measure_in_turns
from tests.benchmarks.suite import TrialContext

TITLE = "Formats"

PERIOD = "2026-01"
FEW, _MANY, _MANY_IN_QUICK = 4, 64, 16


@dataclass(frozen=True, kw_only=True)
class Format:
    """One format."""

    name: str
    clickhouse: str
    ending: str
    settings: SettingValues = field(default_factory=dict)
    prefix: str = ""
    litwintschik_seconds: int | None = None


_PARQUET = Format(name="Parquet", clickhouse="Parquet", ending="parquet", litwintschik_seconds=158)
FORMATS = (
    _PARQUET,
    Format(name="Native", clickhouse="Native", ending="native"),
    Format(name="CSV", clickhouse="CSVWithNames", ending="csv", litwintschik_seconds=358),
    Format(name="CSV.gz", clickhouse="CSVWithNames", ending="csv.gz", litwintschik_seconds=285),
    Format(name="CSV.zst", clickhouse="CSVWithNames", ending="csv.zst"),
    Format(name="TSV", clickhouse="TabSeparatedWithNames", ending="tsv"),
    Format(name="JSON", clickhouse="JSONEachRow", ending="jsonl", litwintschik_seconds=610),
    Format(name="JSON.gz", clickhouse="JSONEachRow", ending="jsonl.gz", litwintschik_seconds=849),
)
_ROW_GROUPS = tuple(
    Format(
        name=f"Parquet, row groups of {rows:,}",
        clickhouse="Parquet",
        ending="parquet",
        settings={"output_format_parquet_row_group_size": rows},
        prefix=f"groups-{rows}",
    )
    for rows in (100_000, 10_000)
)


def run(bench: TrialContext) -> Iterator[Comparison]:
    """Load each by this package, into one node."""
    # So that all files of a period have the same number of rows.
    rows = -(-bench.sized(full=4_000_000, quick=250_000) // (FEW * _MANY)) * FEW * _MANY
    with lake_with_source(bench, rows, "bench_formats") as lake:
        yield _compared(bench, lake, f"{rows:,} rows in {FEW} large files", rows, FEW, [*FORMATS, *_ROW_GROUPS])
        many = _MANY_IN_QUICK if bench.is_quick else _MANY
        yield _compared(bench, lake, f"{rows:,} rows in {many} small files", rows, many, [*FORMATS])


@contextmanager
def lake_with_source(bench: TrialContext, rows: int, conn_id: str) -> Iterator[Lake]:
    """Start one node and S3, and give a lake whose table `source` has a period of rows."""
    with bench.s3() as s3, ClickHouseCluster.start(1) as one:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        lake = Lake(one, s3.endpoint, conn_id)
        source = Periods(prefix="source", names=[PERIOD], rows=rows, files=FEW)
        source.upload(s3.endpoint)
        lake.start_afresh()
        lake.insert(source, PERIOD, {})
        lake.ask_every_node(f"RENAME TABLE {TABLE} TO source")
        yield lake


def _compared(bench: TrialContext, lake: Lake, title: str, rows: int, files: int, formats: list[Format]) -> Comparison:
    sizes = {each.name: write(lake, each, files) for each in formats}
    variants = {each.name: load_of(lake, each, rows, files) for each in formats}
    theirs = {each.name: each.litwintschik_seconds for each in formats if each.litwintschik_seconds}
    return Comparison(
        title=title,
        variants=list(variants),
        figures=[SECONDS, SPEED, MEMORY],
        rounds=measure_in_turns(
            title, variants, rounds=bench.rounds, console=bench.console, warm_up=not bench.is_quick
        ),
        beside={
            "MB in S3": {name: f"{size / 1e6:,.1f}" for name, size in sizes.items()},
            "Litwintschik's seconds": {name: str(seconds) for name, seconds in theirs.items()},
            "his ratio": {name: f"{seconds / theirs[_PARQUET.name]:.2f}" for name, seconds in theirs.items()},
        },
    )


def prefix_of(one: Format, files: int) -> str:
    """Return the beginning of the keys of files that `write` writes."""
    return f"{one.prefix or one.ending}-{files}"


def write(lake: Lake, one: Format, files: int) -> int:
    """Let ClickHouse write the period's files; give their bytes."""
    prefix = f"{prefix_of(one, files)}/{PERIOD}/"
    url = f"{lake.s3.endpoint_url}/{BUCKET}/{prefix}{{_partition_id}}.{one.ending}"
    target = f"FUNCTION s3('{url}', '{lake.s3.access_key}', '{lake.s3.secret_key}', '{one.clickhouse}')"
    with lake.cluster.nodes[0].client() as client:
        columns = ", ".join(COLUMNS)
        client.execute(
            f"INSERT INTO {target} PARTITION BY toString(trip_id % {files}) SELECT {columns} FROM source",
            settings=dict(one.settings),
        )
    pages = lake.s3.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    return sum(each["Size"] for page in pages for each in page["Contents"])


def load_of(lake: Lake, one: Format, rows: int, files: int, **arguments: Any) -> Callable[[], Figures]:
    """Return the measurement of a load of written files."""
    periods = Periods(prefix=prefix_of(one, files), names=[PERIOD], rows=rows, files=files)
    key = f"{periods.prefix}/{{YYYY-MM}}/*.{one.ending}"
    create_sql = create_table_sql(f"default.{TABLE}")
    return watched(
        lake, rows, lambda: lake.load(periods, PERIOD, key=key, **arguments), create_sql=create_sql, staging=True
    )
