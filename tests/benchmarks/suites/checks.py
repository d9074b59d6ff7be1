"""What checks cost: of each value, whether its column can hold it as the file has it; and the user's, of all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from unittest import mock

from airflow_provider_chs3.core.files.loaded_columns import LoadedColumn
from tests.benchmarks.lake import Lake
from tests.benchmarks.measure import SECONDS
from tests.benchmarks.rounds import Comparison, Figures, Gate, measure_in_turns
from tests.benchmarks.suite import TrialContext
from tests.benchmarks.suites.formats import FEW, FORMATS, Format, lake_with_source, load_of, write

TITLE = "Checks of values and rows"

_CHECKED = (
    *(each for each in FORMATS if each.name in ("Parquet", "CSV", "TSV", "JSON")),
    Format(
        name="CSV with times as 2026-01-01T00:00:00Z",
        clickhouse="CSVWithNames",
        ending="csv",
        settings={"date_time_output_format": "iso"},
        prefix="iso",
    ),
)
_UNCHECKED, _PACKAGE = "without the checks", "this package"
_MOST = 1.05
#: Those of which docs/how-to/checks.md says what they cost.
_OF_ROWS = {
    "column_mapping": {
        "fare": {"null_check": {"equal_to": 0}},
        "pickup_at": {"max": {"geq_to": "2000-01-01 00:00:00"}},
    },
    "table_checks": {"rows": {"check_statement": "count() > 0"}},
}


def run(bench: TrialContext) -> Iterator[Comparison]:
    """Load a period of each format with its checks and without, and one with checks of its rows, into one node.

    Args:
        bench: What suites are given.
    """
    rows = bench.sized(full=4_000_000, quick=250_000) // FEW * FEW
    with lake_with_source(bench, rows, "bench_checks") as lake:
        yield from (_of_values(bench, lake, each, rows) for each in _CHECKED)
        parquet = next(each for each in _CHECKED if each.name == "Parquet")
        loads = {
            _UNCHECKED: load_of(lake, parquet, rows, FEW),
            _PACKAGE: load_of(lake, parquet, rows, FEW, checks=_OF_ROWS),
        }
        yield _compared(bench, f"Row count, NULLs and freshness, {rows:,} rows of Parquet", loads)


def _of_values(bench: TrialContext, lake: Lake, one: Format, rows: int) -> Comparison:
    write(lake, one, FEW)
    load = load_of(lake, one, rows, FEW)

    def unchecked() -> Figures:
        with mock.patch.object(LoadedColumn, "holds", return_value=None):
            return load()

    return _compared(bench, f"{one.name}, {rows:,} rows", {_UNCHECKED: unchecked, _PACKAGE: load})


def _compared(bench: TrialContext, title: str, variants: Mapping[str, Callable[[], Figures]]) -> Comparison:
    return Comparison(
        title=title,
        variants=list(variants),
        figures=[SECONDS],
        rounds=measure_in_turns(
            title, variants, rounds=bench.rounds, console=bench.console, warm_up=not bench.is_quick
        ),
        gates=[] if bench.is_quick else [Gate(variant=_PACKAGE, figure=SECONDS, at_most=_MOST)],
    )
