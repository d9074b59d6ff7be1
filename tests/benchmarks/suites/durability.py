"""The cost of writing staging and ledger through to the disk, so that a power cut takes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from unittest import mock

from airflow_provider_chs3.core.ledger.table import DURABLE
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.benchmarks.lake import BUCKET, TABLE, Lake, Periods
from tests.benchmarks.measure import SECONDS, watched
from tests.benchmarks.rounds import Comparison, Figures, Gate, measure_in_turns
from tests.benchmarks.suite import TrialContext

TITLE = "Durability"

_WITHOUT, _PACKAGE = "without fsync", "this package"
_ON_DISK = "MB on disk"
_GATE = Gate(variant=_PACKAGE, figure=SECONDS, at_most=1.03)
_FILE_ROWS = 500_000


def run(bench: TrialContext) -> Iterator[Comparison]:
    """Load a period of some 500 MB of parts into one node, with the settings that write through to the disk and
    without.
    """
    rows = bench.sized(full=18_000_000, quick=1_000_000)
    files = max(4, rows // _FILE_ROWS)
    periods = Periods(prefix="periods", names=["2026-01"], rows=rows, files=files, copies=3)
    with bench.s3() as s3, ClickHouseCluster.start(1) as one:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        periods.upload(s3.endpoint)
        lake = Lake(one, s3.endpoint, "bench_durability")
        variants = {_WITHOUT: partial(_without_fsync, lake, periods), _PACKAGE: partial(_measured, lake, periods)}
        title = f"{periods.total_rows:,} rows, one node, one disk"
        yield Comparison(
            title=title,
            variants=list(variants),
            figures=[SECONDS, _ON_DISK],
            rounds=measure_in_turns(title, variants, rounds=bench.rounds, console=bench.console),
            gates=[] if bench.is_quick else [_GATE],
        )


def _measured(lake: Lake, periods: Periods) -> Figures:
    (period,) = periods.names
    figures = watched(lake, periods.total_rows, lambda: lake.load(periods, period), staging=True)()
    size_bytes = sum(
        lake.ask_every_node(f"SELECT sum(bytes_on_disk) FROM system.parts WHERE table = '{TABLE}' AND active")
    )
    return {SECONDS: figures[SECONDS], _ON_DISK: size_bytes / 1e6}


def _without_fsync(lake: Lake, periods: Periods) -> Figures:
    with mock.patch.dict(DURABLE, dict.fromkeys(DURABLE, 0)):
        return _measured(lake, periods)
