"""How long the page takes to show the newest of many periods of many tables, of which it knows nothing yet, and all."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from datetime import date, timedelta
from pathlib import Path

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.benchmarks.lake import BUCKET, Lake, Periods
from tests.benchmarks.many_tables import create_tables
from tests.benchmarks.page_server import ANSWER, CPU_SECONDS, FIRST, FIRST_STATEMENTS, SECONDS, STATEMENTS, Look
from tests.benchmarks.rounds import Comparison, Gate
from tests.benchmarks.suite import ROOT, TrialContext

TITLE = "The periods page"

_TABLES, _TABLES_IN_QUICK = 100, 4
_PERIODS = [str(date(2022, 1, 1) + timedelta(days=number)) for number in range(1_500)]
#: The month whose load all are copies of.
_FIRST = "2022-01"


def run(bench: TrialContext) -> Iterator[Comparison]:
    """Measure the page's answer about all periods, and the statements that it sends."""
    tables = bench.sized(full=_TABLES, quick=_TABLES_IN_QUICK)
    with (
        bench.s3() as s3,
        ClickHouseCluster.start(1) as cluster,
        tempfile.TemporaryDirectory(prefix="chs3-bench-") as folder,
    ):
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        period = Periods(prefix="page", names=[_FIRST], rows=600, files=3)
        period.upload(s3.endpoint)
        lake = Lake(cluster, s3.endpoint, "chs3_default")
        lake.start_afresh()
        lake.load(period, _FIRST)
        bench.say(f"Publish {len(_PERIODS)} periods of {tables} tables")
        create_tables(cluster, _PERIODS, tables=tables)
        look = Look(periods=tables * len(_PERIODS), rounds=bench.rounds, result_file=str(Path(folder, "rounds.json")))
        command = [sys.executable, "-m", "tests.benchmarks.page_server", json.dumps(asdict(look))]
        subprocess.run(command, cwd=ROOT, check=True)
        # Before the servers' files are removed: they are more than a million.
        yield Comparison(
            title=f"{tables} tables of {len(_PERIODS):,} days, one node",
            variants=[FIRST_STATEMENTS, FIRST, STATEMENTS, ANSWER],
            figures=[SECONDS, CPU_SECONDS],
            rounds=json.loads(Path(look.result_file).read_text(encoding="utf-8")),
            aim="within a second",
            gates=[Gate(variant=FIRST, figure=SECONDS, at_most=1, is_ratio=False)],
        )
        bench.say("Remove the servers' files")
