"""The load by the rules and by a calibrated profile, in turns, for several kinds of files, near by and far away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from airflow_provider_chs3.operators.calibrate import CalibrateLoadOperator
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.benchmarks.kinds import AMAZON, PERIOD, Kind
from tests.benchmarks.lake import BUCKET, TABLE, Lake
from tests.benchmarks.measure import SECONDS
from tests.benchmarks.rounds import Comparison, Figures, Gate, Table, measure_in_turns
from tests.benchmarks.servers import far_away
from tests.benchmarks.suite import TrialContext

TITLE = "Calibration"

_RULE, _CALIBRATED = "by the rules", "calibrated"
_INSERT, _PARTS = "insert seconds", "parts"
#: A profile may be slower than the rules by no more than this: what two runs of the same differ by.
_NOISE = 1.05


_LARGE = Kind(name="two large Parquet", file_format="parquet", files=2, rows=8_000_000)
_SMALL = Kind(name="many small Parquet", file_format="parquet", files=96, rows=8_000_000)
_TINY = Kind(name="tiny Parquet", file_format="parquet", files=384, rows=1_920_000)
_TEXT = Kind(name="CSV.gz", file_format="csv.gz", files=12, rows=3_000_000)
_NEAR, _FAR = (_LARGE, _SMALL, _TEXT), (_TINY, _SMALL, _TEXT)
#: A quick run has so many times fewer rows, and this kind alone.
_QUICK, _QUICK_KINDS = 32, (_SMALL,)


def run(bench: TrialContext) -> Iterator[Comparison | Table]:
    """Calibrate for each kind of files, and compare loads by what was found with loads by the rules, one node.

    Args:
        bench: What suites are given.
    """
    near, far = ([kind for kind in kinds if not bench.is_quick or kind in _QUICK_KINDS] for kinds in (_NEAR, _FAR))
    found: list[dict[str, str | float]] = []
    with bench.s3() as s3, ClickHouseCluster.start(1) as one:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        for kind in {*near, *far}:
            kind.upload(s3.endpoint, _rows(bench, kind))
        lake = Lake(one, s3.endpoint, "bench_near")
        for kind in near:
            yield _compared(bench, lake, kind, "S3 on loopback", found)
        if bench.can_be_far:
            with far_away(s3.endpoint, AMAZON) as endpoint:
                lake = Lake(one, endpoint, "bench_far")
                for kind in far:
                    yield _compared(bench, lake, kind, f"S3 {AMAZON}", found)
        else:
            bench.say("S3 far away is skipped: it requires Toxiproxy, which Go builds")
    yield Table(title="Results of the calibrations", rows=found)


def _rows(bench: TrialContext, kind: Kind) -> int:
    return bench.sized(full=kind.rows, quick=kind.rows // _QUICK)


def _calibrate(bench: TrialContext, lake: Lake, kind: Kind, place: str) -> dict[str, Any]:
    bench.say(f"Calibrate with {kind.name}, {place}")
    return CalibrateLoadOperator(
        task_id="calibrate",
        **lake.where(kind.key, PERIOD),
        budget_seconds=30 if bench.is_quick else 120,
        least_try_seconds=0 if bench.is_quick else 1,
    ).execute({})


def _told(kind: Kind, place: str, found: dict[str, Any]) -> dict[str, str | float]:
    settings = ", ".join(f"{name} = {value}" for name, value in found["settings"].items())
    return {
        "files": kind.name,
        "S3": place.removeprefix("S3 "),
        "trials": found["tried"],
        "seconds": found["seconds"],
        "noise, %": 100 * found["noise"],
        "better in the trials, ratio": 1 / found["gain"],
        "periods in parallel": found["profile"]["parallel_loads"] or "not tried",
        "settings": settings or "the rules'",
    }


def _compared(
    bench: TrialContext, lake: Lake, kind: Kind, place: str, found: list[dict[str, str | float]]
) -> Comparison:
    lake.start_afresh()
    found.append(_told(kind, place, _calibrate(bench, lake, kind, place)))

    def load(*, use_calibration: bool) -> Figures:
        _forget_loads(lake)
        start = time.monotonic()
        result = lake.load_files(kind.key, PERIOD, use_calibration=use_calibration)
        seconds = time.monotonic() - start
        return {SECONDS: seconds, _INSERT: result["insert_seconds"], _PARTS: result["parts"]}

    variants = {_RULE: lambda: load(use_calibration=False), _CALIBRATED: lambda: load(use_calibration=True)}
    return Comparison(
        title=f"{kind.name[0].upper()}{kind.name[1:]}: {kind.files} files, {_rows(bench, kind):,} rows, {place}",
        variants=list(variants),
        figures=[SECONDS, _INSERT, _PARTS],
        rounds=measure_in_turns(kind.name, variants, rounds=bench.rounds, console=bench.console),
        # Loads of a quick run take parts of a second, and differ by more than that by themselves.
        gates=[] if bench.is_quick else [Gate(variant=_CALIBRATED, figure=_INSERT, at_most=_NOISE)],
    )


def _forget_loads(lake: Lake) -> None:
    """An empty table, the same one, whose ledger knows of its calibration alone."""
    for node in lake.cluster.nodes:
        with node.client() as client:
            client.execute(f"TRUNCATE TABLE {TABLE}")
            client.execute("ALTER TABLE chs3_ledger DELETE WHERE event != 'calibrated' SETTINGS mutations_sync = 1")
