"""The same files near by and far away: what people do, and this package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.benchmarks.kinds import AMAZON, PERIOD, Kind
from tests.benchmarks.lake import BUCKET, Lake
from tests.benchmarks.measure import MEMORY, PARTS, SECONDS, watched
from tests.benchmarks.rounds import Comparison, Figures, Gate, measure_in_turns
from tests.benchmarks.servers import far_away
from tests.benchmarks.suite import TrialContext

TITLE = "S3 far away"

_MANY = 96
_KINDS = {
    Kind(name="many small Parquet", file_format="parquet", files=_MANY, rows=4_000_000): "Parquet",
    Kind(name="many small CSV.gz", file_format="csv.gz", files=_MANY, rows=3_000_000): "CSVWithNames",
    Kind(name="few large Parquet", file_format="parquet", files=4, rows=8_000_000): "Parquet",
}
#: A quick run has so many times fewer rows.
_QUICK = 32
_DEFAULTS, _PACKAGE, _FURTHER = "plain, the server's defaults", "this package", "this package, a further load"


def run(bench: TrialContext) -> Iterator[Comparison]:
    """Compare for each kind of files, on loopback and far away, one node."""
    with bench.s3() as s3, ClickHouseCluster.start(1) as one:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        for kind, file_format in _KINDS.items():
            rows = bench.sized(full=kind.rows, quick=kind.rows // _QUICK)
            kind.upload(s3.endpoint, rows)
            for distance in (None, AMAZON) if bench.can_be_far else (None,):
                with far_away(s3.endpoint, distance) if distance else nullcontext(s3.endpoint) as endpoint:
                    lake = Lake(one, endpoint, "bench_far" if distance else "bench_near")
                    place = f"S3 {distance or 'on loopback'}"
                    yield _compared(bench, lake, kind, file_format, rows=rows, place=place, is_far=bool(distance))


def _compared(
    bench: TrialContext, lake: Lake, kind: Kind, file_format: str, *, rows: int, place: str, is_far: bool
) -> Comparison:
    all_rows = max(1, rows // kind.files) * kind.files
    variants: dict[str, Callable[[], Figures]] = {
        _DEFAULTS: watched(
            lake, all_rows, lambda: lake.insert_files(f"{kind.prefix}*", file_format, {}), staging=False
        ),
        _PACKAGE: watched(lake, all_rows, lambda: lake.load_files(kind.key, PERIOD), staging=True),
        _FURTHER: watched(lake, all_rows, lambda: lake.load_files(kind.key, PERIOD), staging=True, is_first=False),
    }
    gated = is_far and kind.files == _MANY and not bench.is_quick
    title = f"{kind.name[0].upper()}{kind.name[1:]}: {kind.files} files, {all_rows:,} rows, {place}"
    return Comparison(
        title=title,
        variants=list(variants),
        figures=[SECONDS, PARTS, MEMORY],
        rounds=measure_in_turns(title, variants, rounds=bench.rounds, console=bench.console),
        # Else these are loads of seconds, which have their fixed cost; the suite `limit` measures that.
        gates=[Gate(variant=_PACKAGE, figure=SECONDS, at_most=1.0)] if gated else [],
    )
