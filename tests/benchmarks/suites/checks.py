"""The cost of checks: of each value, whether its column can hold it as the file has it; and the user's, of all rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
#: Figures of the statement alone: servers analyze the checks, however few the rows are.
_CPU = "the INSERT's CPU ms"
#: Those of which docs/how-to/checks.md says what they cost.
_OF_ROWS = {
    "column_mapping": {
        "fare": {"null_check": {"equal_to": 0}},
        "pickup_at": {"max": {"geq_to": "2000-01-01 00:00:00"}},
    },
    "table_checks": {"rows": {"check_statement": "count() > 0"}},
}


def run(bench: TrialContext) -> Iterator[Comparison]:
    """Load a period of each format with its checks and without, and one with checks of its rows, into one node."""
    rows = bench.sized(full=4_000_000, quick=250_000) // FEW * FEW
    with lake_with_source(bench, FEW, "bench_checks_few") as lake:
        yield from (_of_values(bench, lake, each, FEW) for each in _CHECKED)
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

    def checked() -> Figures:
        began_at = time.time()
        return {**load(), _CPU: _cpu_ms(lake, began_at)}

    def unchecked() -> Figures:
        with mock.patch.object(LoadedColumn, "holds", None):
            return checked()

    variants = {_UNCHECKED: unchecked, _PACKAGE: checked}
    return _compared(bench, f"{one.name}, {rows:,} rows", variants, figures=[SECONDS, _CPU], has_gate=rows > FEW)


def _cpu_ms(lake: Lake, began_at: float) -> float:
    lake.ask_every_node("SYSTEM FLUSH LOGS")
    return sum(
        lake.ask_every_node(
            "SELECT sum(ProfileEvents['UserTimeMicroseconds'] + ProfileEvents['SystemTimeMicroseconds']) / 1e3 "
            "FROM system.query_log WHERE type = 'QueryFinish' "
            f"AND position(initial_query_id, '_insert') > 0 AND toFloat64(event_time_microseconds) >= {began_at}"
        )
    )


def _compared(
    bench: TrialContext,
    title: str,
    variants: Mapping[str, Callable[[], Figures]],
    *,
    figures: Sequence[str] = (SECONDS,),
    has_gate: bool = True,
) -> Comparison:
    return Comparison(
        title=title,
        variants=list(variants),
        figures=list(figures),
        rounds=measure_in_turns(
            title, variants, rounds=bench.rounds, console=bench.console, warm_up=not bench.is_quick
        ),
        gates=[] if bench.is_quick or not has_gate else [Gate(variant=_PACKAGE, figure=SECONDS, at_most=_MOST)],
    )
