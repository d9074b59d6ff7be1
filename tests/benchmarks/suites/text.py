"""One large file of text: parsed whole, as every load does, and in chunks, which servers do by default."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from airflow_provider_chs3.testbed.trips import create_table_sql
from tests.benchmarks.lake import TABLE, Lake
from tests.benchmarks.measure import MEMORY, SECONDS, watched
from tests.benchmarks.rounds import Comparison, Figures, Gate, measure_in_turns
from tests.benchmarks.suite import TrialContext
from tests.benchmarks.suites.formats import FORMATS, PERIOD, Format, lake_with_source, load_of, prefix_of, write

TITLE = "One large file of text"

_CHUNKS, _WHOLE, _PACKAGE = "plain, parsed in chunks", "plain, parsed whole", "this package"
_TEXTS = ("CSV", "TSV")


def run(bench: TrialContext) -> Iterator[Comparison]:
    """Load a file of CSV and one of TSV into one node: 4 GB of CSV in a full run."""
    rows = bench.sized(full=35_000_000, quick=500_000)
    with lake_with_source(bench, rows, "bench_text") as lake:
        for file_format in FORMATS:
            if file_format.name in _TEXTS:
                yield _compared(bench, lake, rows, file_format)


def _compared(bench: TrialContext, lake: Lake, rows: int, file_format: Format) -> Comparison:
    size_bytes = write(lake, file_format, files=1)
    title = f"{rows:,} rows in one file of {file_format.name}, {size_bytes / 1e9:.1f} GB"
    variants = {
        _CHUNKS: _plain(lake, rows, file_format, is_in_chunks=True),
        _WHOLE: _plain(lake, rows, file_format, is_in_chunks=False),
        _PACKAGE: load_of(lake, file_format, rows, files=1),
    }
    return Comparison(
        title=title,
        variants=list(variants),
        figures=[SECONDS, MEMORY],
        # A load of half a minute needs no warm-up.
        rounds=measure_in_turns(title, variants, rounds=bench.rounds, console=bench.console, warm_up=False),
        gates=[Gate(variant=_PACKAGE, figure=SECONDS, at_most=1.1)],
    )


def _plain(lake: Lake, rows: int, file_format: Format, *, is_in_chunks: bool) -> Callable[[], Figures]:
    glob = f"{prefix_of(file_format, files=1)}/{PERIOD}/*.{file_format.ending}"
    settings = {"input_format_parallel_parsing": int(is_in_chunks)}
    return watched(
        lake,
        rows,
        lambda: lake.insert_files(glob, file_format.clickhouse, settings, into=TABLE),
        create_sql=create_table_sql(f"default.{TABLE}"),
        staging=False,
    )
