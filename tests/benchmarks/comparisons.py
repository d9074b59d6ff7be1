"""What is compared; each measures its variants side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.console import Console

from tests.benchmarks.lake import Lake, Months
from tests.benchmarks.rounds import Comparison, Figures, measure_in_turns

_SECONDS = "seconds"
_HEALTHY = "healthy after seconds"
_PARTS = "parts written"


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What all comparisons need.

    Args:
        lake: One node that has the machine for itself.
        rounds: How often each variant is measured.
        console: Where progress goes.
    """

    lake: Lake
    rounds: int
    console: Console


def one_month(bench: Bench, months: Months) -> Iterator[Comparison]:
    """One large month: what staging costs, and what tuning brings."""
    lake, month = bench.lake, months.names[0]
    lake.start_afresh()
    settings = lake.load(months, month)["settings"]
    package, same, defaults = "this package", "plain, the same settings", "plain, the server's defaults"
    rounds = measure_in_turns(
        "One month",
        {
            defaults: _measured(lake, months, lambda: lake.insert(months, month, {}), staging=False),
            same: _measured(lake, months, lambda: lake.insert(months, month, settings), staging=False),
            package: _measured(lake, months, lambda: lake.load(months, month), staging=True),
        },
        rounds=bench.rounds,
        console=bench.console,
    )
    yield Comparison(
        title=f"Staged, verified, published load to the same plain INSERT SELECT: {months.total_rows:,} rows, one node",
        aim="Aim: at most 1.10. The rest is a fixed cost, of 1.5 s at most.",
        variants=[same, package],
        figures=[_SECONDS],
        rounds=rounds,
    )
    yield Comparison(
        title=f"Tuned to the server's defaults: {months.total_rows:,} rows, one node",
        aim="Aim: never slower beside the fixed cost, a third to half of the parts, healthy no later.",
        variants=[defaults, same, package],
        figures=[_SECONDS, _PARTS, _HEALTHY],
        rounds=rounds,
    )


def side_by_side(bench: Bench, months: Months) -> Iterator[Comparison]:
    """Several months: by the server's defaults one after another, and by the operator 1, 2 and 3 at a time."""
    lake = bench.lake

    def by_defaults() -> None:
        for month in months.names:
            lake.insert(months, month, {})

    variants = {"plain, defaults, one by one": _measured(lake, months, by_defaults, staging=False)}
    for parallel in (1, 2, 3):
        variants[f"parallel_months={parallel}"] = _measured(
            lake, months, lambda parallel=parallel: lake.load_side_by_side(months, parallel), staging=True
        )
    yield Comparison(
        title=f"Months side by side: {len(months.names)} months of {months.rows:,} rows, one node",
        aim="Aim: no slower than the defaults beside the fixed cost of each month, with half of the parts.",
        variants=list(variants),
        figures=[_SECONDS, _PARTS, _HEALTHY],
        rounds=measure_in_turns("Side by side", variants, rounds=bench.rounds, console=bench.console),
    )


def three_nodes_to_one(bench: Bench, three: Lake, months: Months) -> Iterator[Comparison]:
    """The same load by one node and by three, each held to the same part of a core."""
    month = months.names[0]
    variants = {
        "one node": _measured(bench.lake, months, lambda: bench.lake.load(months, month), staging=True),
        "three nodes": _measured(three, months, lambda: three.load(months, month), staging=True),
    }
    yield Comparison(
        title=f"Three nodes of half a core to one: {months.total_rows:,} rows",
        aim="Aim: 0.37, which is 2.7 times as fast. 0.33 would be ideal.",
        variants=list(variants),
        figures=[_SECONDS],
        rounds=measure_in_turns("Three nodes to one", variants, rounds=bench.rounds, console=bench.console),
    )


def _measured(lake: Lake, months: Months, load: Callable[[], object], *, staging: bool) -> Callable[[], Figures]:
    def measure() -> Figures:
        lake.start_afresh()
        start = time.monotonic()
        load()
        seconds = time.monotonic() - start
        lake.wait_until_healthy(months.names)
        healthy_seconds = time.monotonic() - start
        _check(lake, months)
        return {_SECONDS: seconds, _HEALTHY: healthy_seconds, _PARTS: lake.written_parts(staging=staging)}

    return measure


def _check(lake: Lake, months: Months) -> None:
    """A load that loses rows may be as quick as it likes."""
    rows = lake.rows()
    if rows != months.total_rows:
        raise RuntimeError(f"The table holds {rows} rows, the files {months.total_rows}.")
