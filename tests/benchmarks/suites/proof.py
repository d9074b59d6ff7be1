"""The cost of proving that compressed objects were not cut off, where the worker has to look."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from statistics import median
from unittest import mock

import lz4.frame
import zstandard

from airflow_provider_chs3.core.load import planning, row_counts
from airflow_provider_chs3.core.load.period_load import PeriodLoad
from airflow_provider_chs3.core.steps.operations import Log, Steps
from airflow_provider_chs3.testbed.trips import create_table_sql
from tests.benchmarks.lake import BUCKET, TABLE, Lake
from tests.benchmarks.rounds import Figures, Table, Verdict, measure_in_turns
from tests.benchmarks.servers import Distance, far_away
from tests.benchmarks.suite import TrialContext
from tests.benchmarks.suites.formats import PERIOD, Format, lake_with_source, write

TITLE = "Proof that objects were not cut off"

_CSV = Format(name="CSV", clickhouse="CSVWithNames", ending="csv")
_CODECS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "zstd": ("zst", zstandard.ZstdCompressor().compress),
    "LZ4, blocks of 64 KiB": (
        "lz4",
        lambda body: lz4.frame.compress(body, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False),
    ),
}
_OBJECTS = (1, 16)
_NEAR, _FAR = "loopback", Distance(first_byte_ms=20, connection_mb_per_second=100)
_UNPROVED, _PACKAGE = "without the proof", "this package"
_LOAD, _INSERT, _PROOF = "load", "insert", "proof"
#: At most the whole of the proof, of which a part is beside the looks at nodes and files.
_RATIO = "proof to insert, ratio"
_MOST = 0.15


def run(bench: TrialContext) -> Iterator[Table]:
    """Load a period of each codec with its proof and without, into one node."""
    rows = bench.sized(full=4_000_000, quick=250_000) // max(_OBJECTS) * max(_OBJECTS)
    with lake_with_source(bench, rows, "bench_proof") as lake, ExitStack() as servers:
        places = {_NEAR: lake}
        if bench.can_be_far:
            places[str(_FAR)] = replace(lake, s3=servers.enter_context(far_away(lake.s3, _FAR)))
        measured = []
        for objects in _OBJECTS:
            write(lake, _CSV, objects)
            for codec, (ending, pack) in _CODECS.items():
                size_bytes = _compress(lake, objects, ending, pack)
                measured += [
                    _measured(bench, place, where, codec, ending, objects, rows, size_bytes)
                    for where, place in places.items()
                ]
        yield Table(
            title=f"{rows:,} rows of CSV, medians of {bench.rounds} rounds in turns",
            rows=measured,
            verdicts=[] if bench.is_quick else [_verdict(row) for row in measured],
        )


def _compress(lake: Lake, objects: int, ending: str, pack: Callable[[bytes], bytes]) -> int:
    """Put the objects that `write` has written, compressed; give their bytes."""
    client, size_bytes = lake.s3.client(), 0
    for each in client.list_objects_v2(Bucket=BUCKET, Prefix=f"{_CSV.ending}-{objects}/{PERIOD}/")["Contents"]:
        body = pack(client.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read())
        client.put_object(Bucket=BUCKET, Key=f"{ending}-{each['Key']}.{ending}", Body=body)
        size_bytes += len(body)
    return size_bytes


def _measured(
    bench: TrialContext,
    lake: Lake,
    where: str,
    codec: str,
    ending: str,
    objects: int,
    rows: int,
    size_bytes: int,
) -> dict[str, str | float]:
    key = f"{ending}-{_CSV.ending}-{objects}/{{YYYY-MM}}/*.csv.{ending}"

    def load(prove: Callable[[PeriodLoad], Steps[None]]) -> Figures:
        lake.connect()
        lake.start_afresh(create_table_sql(f"default.{TABLE}"))
        took = list[float]()

        def timed(of: PeriodLoad) -> Steps[None]:
            began = time.monotonic()
            yield from prove(of)
            took.append(time.monotonic() - began)

        began = time.monotonic()
        with mock.patch.object(planning, "prove_whole", timed):
            result = lake.load_files(key, PERIOD)
        seconds = time.monotonic() - began
        if result["rows"] != rows:
            raise RuntimeError(f"The load has {result['rows']} rows, the files {rows}.")
        return {_LOAD: seconds, _INSERT: result["seconds_by_step"]["insert"], _PROOF: sum(took)}

    rounds = measure_in_turns(
        f"{codec}, {objects} objects, {where}",
        {_UNPROVED: partial(load, _prove_nothing), _PACKAGE: partial(load, row_counts.prove_whole)},
        rounds=bench.rounds,
        console=bench.console,
        warm_up=not bench.is_quick,
    )
    return {
        "codec": codec,
        "objects": f"{objects}",
        "MB": f"{size_bytes / 1e6:,.1f}",
        "S3": where,
        "load without, seconds": median(each[_UNPROVED][_LOAD] for each in rounds),
        "with, seconds": median(each[_PACKAGE][_LOAD] for each in rounds),
        "its insert, seconds": median(each[_PACKAGE][_INSERT] for each in rounds),
        "its proof, seconds": median(each[_PACKAGE][_PROOF] for each in rounds),
        _RATIO: median(each[_PACKAGE][_PROOF] / each[_PACKAGE][_INSERT] for each in rounds),
    }


def _prove_nothing(load: PeriodLoad) -> Steps[None]:
    yield from Log(name="Nothing is proved.")


def _verdict(row: dict[str, str | float]) -> Verdict:
    found = float(row[_RATIO])
    what = f"{row['codec']}, {row['objects']} objects, {row['S3']}"
    return Verdict(claim=f"{what}: at most {_MOST:.0%} of the insert", found=f"{found:.0%}", is_met=found <= _MOST)
