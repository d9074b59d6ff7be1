"""The same period from each source: what people write, and this package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from statistics import median
from typing import Any

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.programs.packages import ProgramMissingError
from airflow_provider_chs3.testbed.trips import COLUMNS
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.benchmarks.lake import TABLE, Lake
from tests.benchmarks.measure import MEMORY, SECONDS, watched
from tests.benchmarks.places import PERIOD, PLACES, FilledPlace, PlaceKind
from tests.benchmarks.rounds import Figures, Round, Table, measure_in_turns
from tests.benchmarks.servers import BenchS3
from tests.benchmarks.suite import TrialContext

TITLE = "Sources"

_PLAIN, _PACKAGE = "plain", "this package"


def run(bench: TrialContext) -> Iterator[Table]:
    """Load a period of each source whose server can be started here into one node.

    Args:
        bench: What suites are given.
    """
    rows = []
    with bench.s3() as s3, ClickHouseCluster.start(1) as one:
        for kind in PLACES:
            try:
                rows.append(_measured(bench, kind, s3, one))
            except ProgramMissingError as error:
                bench.say(f"{kind.title} is left out: {error}")
    yield Table(
        title="A period of each source, into one node",
        rows=rows,
        aim=f"The ratio is that of {_PACKAGE} to a plain INSERT … SELECT from the same table function, round by round.",
    )


def _measured(bench: TrialContext, kind: PlaceKind, s3: BenchS3, one: ClickHouseCluster) -> Mapping[str, str | float]:
    rows = bench.sized(full=kind.rows, quick=kind.rows_in_quick) // kind.files * kind.files or kind.files
    with ExitStack() as servers:
        place = kind.filled(servers, s3.endpoint, rows)
        lake = Lake(one, place.s3 or s3.endpoint, "bench_sources")
        variants = {
            _PLAIN: watched(lake, rows, _plain(lake, place), staging=False),
            _PACKAGE: watched(lake, rows, lambda: _load(lake, place), staging=True),
        }
        rounds = measure_in_turns(
            f"{kind.title}, {rows:,} rows",
            variants,
            rounds=bench.rounds,
            console=bench.console,
            warm_up=not bench.is_quick,
        )
    return _line(kind.title, rows, rounds)


def _plain(lake: Lake, place: FilledPlace) -> Callable[[], object]:
    columns = ", ".join(COLUMNS)

    def insert() -> None:
        with lake.cluster.nodes[0].client() as client:
            client.execute(f"INSERT INTO {TABLE} ({columns}) SELECT {columns} FROM {place.function}")

    return insert


def _load(lake: Lake, place: FilledPlace) -> dict[str, Any]:
    return S3ToClickHouseOperator(
        task_id="load",
        table=TABLE,
        period=PERIOD,
        objects=place.objects,
        cluster=lake.cluster.name,
        clickhouse_conn_id=lake.clickhouse_conn_id,
    ).execute({})


def _line(title: str, rows: int, rounds: list[Round]) -> Mapping[str, str | float]:
    def middle(variant: str, figure: str) -> float:
        return median(each[variant][figure] for each in rounds)

    ratios = [_seconds(each[_PACKAGE]) / _seconds(each[_PLAIN]) for each in rounds]
    return {
        "source": title,
        "rows": f"{rows:,}",
        "plain, seconds": f"{middle(_PLAIN, SECONDS):.2f}",
        f"{_PACKAGE}, seconds": f"{middle(_PACKAGE, SECONDS):.2f}",
        "ratio": f"{median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})",
        f"{_PACKAGE}, thousand rows/s": f"{rows / middle(_PACKAGE, SECONDS) / 1e3:,.0f}",
        f"plain, {MEMORY}": f"{middle(_PLAIN, MEMORY):,.0f}",
        f"{_PACKAGE}, {MEMORY}": f"{middle(_PACKAGE, MEMORY):,.0f}",
    }


def _seconds(figures: Figures) -> float:
    return figures[SECONDS]
