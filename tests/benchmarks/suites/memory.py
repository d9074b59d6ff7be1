"""The memory that a load takes on a node, beside its share: more data, more periods, wide rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.lake import BUCKET, TABLE, Lake, Periods
from tests.benchmarks.node_size import NodeSize
from tests.benchmarks.rounds import Table, Verdict
from tests.benchmarks.suite import TrialContext

TITLE = "Memory"

_SIZE = NodeSize(cores=2, memory_gib=8, held_to_cores=2)
_SHARE = 0.5
_ALL_INSERTS, _PROCESS = "MB, all inserts", "MB, process"
_YEAR = tuple(f"2026-{period:02}" for period in range(1, 13))
_WIDE_COLUMNS = 300
#: Rows in a row group of the files, but for the one that is a single group.
_GROUP_ROWS = 100_000


@dataclass(frozen=True, kw_only=True)
class Case:
    """The data to load."""

    name: str
    rows: int
    periods: tuple[str, ...] = _YEAR[:1]
    files: int = 8
    columns: int = 8
    group_rows: int = _GROUP_ROWS


def run(bench: TrialContext) -> Iterator[Table]:
    """Load each case on a node that has just started, and look at its queries' and its process's memory."""
    rows = bench.sized(full=4_000_000, quick=400_000)
    cases = (
        Case(name="a period", rows=rows),
        Case(name="ten times the rows", rows=10 * rows),
        Case(name="12 periods in parallel", rows=rows, periods=_YEAR),
        Case(name=f"{_WIDE_COLUMNS} columns", rows=rows // 2, columns=_WIDE_COLUMNS),
        Case(name="one file of one row group", rows=5 * rows, files=1, group_rows=5 * rows),
    )
    share_bytes = int(_SIZE.memory_gib * 1024**3 * _SHARE)
    found = []
    with bench.s3() as s3:
        s3.endpoint.client().create_bucket(Bucket=BUCKET)
        for number, case in enumerate(cases):
            with _SIZE.lake(s3) as lake:
                _write(lake, case, prefix=str(number))
                # The node's memory for writing the files is no load's.
                lake.cluster.restart(0)
                found.append(_measured(bench, lake, case, prefix=str(number)))
    yield Table(
        title=f"A node of {_SIZE}, of which loads may use {share_bytes / 1e6:.0f} MB",
        rows=found,
        aim="Aim: the peaks of all inserts together and of the process stay within that, however much is loaded.",
        verdicts=[_verdict(each, name, share_bytes) for each in found for name in (_ALL_INSERTS, _PROCESS)],
    )


def _verdict(found: Mapping[str, str | float], name: str, share_bytes: int) -> Verdict:
    taken = float(found[name])
    return Verdict(
        claim=f"{found['']}, {name}: at most {share_bytes / 1e6:,.0f}",
        found=f"{taken:,.0f}",
        is_met=taken <= share_bytes / 1e6,
    )


def _write(lake: Lake, case: Case, *, prefix: str) -> None:
    """Have the node itself write the files: as fast as it can be done."""
    numbers = ", ".join(f"cityHash64(number, {column}) AS c{column}" for column in range(case.columns))
    settings = (
        f"output_format_parquet_row_group_size = {case.group_rows}, max_block_size = 8192, s3_truncate_on_insert = 1"
    )
    if case.group_rows > _GROUP_ROWS:
        settings += (
            f", output_format_parquet_row_group_size_bytes = {2**40}, output_format_parquet_parallel_encoding = 0"
        )
    with lake.cluster.nodes[0].client() as client:
        for period in case.periods:
            for file in range(case.files):
                url = f"{lake.s3.endpoint_url}/{BUCKET}/{prefix}/{period}/{file}.parquet"
                access = f"'{url}', '{lake.s3.access_key}', '{lake.s3.secret_key}'"
                client.execute(
                    f"INSERT INTO FUNCTION s3({access}, 'Parquet') SELECT "
                    f"toDateTime('{period}-01', 'UTC') + number % 2000000 AS at, {numbers} "
                    f"FROM numbers({case.rows // case.files}) SETTINGS {settings}"
                )


def _measured(bench: TrialContext, lake: Lake, case: Case, *, prefix: str) -> Mapping[str, str | float]:
    columns = ", ".join(f"c{column} UInt64" for column in range(case.columns))
    lake.start_afresh(
        f"CREATE TABLE {TABLE} (at DateTime('UTC'), {columns}) ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY at"
    )
    before_bytes = _process_bytes(lake, "VmRSS")
    periods = Periods(prefix=prefix, names=case.periods, rows=case.rows, files=case.files)
    began_at, parallel = time.time(), len(case.periods)

    def load(period: str) -> dict[str, object]:
        return lake.load(periods, period, memory_share=_SHARE, parallel_loads=parallel)

    with ThreadPoolExecutor(parallel) as pool:
        results = list(pool.map(load, case.periods))
    peaks = _peaks(lake, began_at)
    bench.say(f"  {case.name}: {sum(peaks) / 1e6:.0f} MB")
    return {
        "": case.name,
        "rows": case.rows * parallel,
        "MB in S3": sum(int(str(result["source_bytes"])) for result in results) / 1e6,
        "MB, largest insert": max(peaks) / 1e6,
        _ALL_INSERTS: sum(peaks) / 1e6,
        _PROCESS: (_process_bytes(lake, "VmHWM") - before_bytes) / 1e6,
        "inserts": len(peaks),
    }


def _peaks(lake: Lake, began_at: float) -> list[int]:
    """The peak of each insert's memory, of those that failed for memory too."""
    sql = (
        "SELECT max(memory_usage) FROM system.query_log WHERE type != 'QueryStart' AND query_kind = 'Insert' "
        "AND match(initial_query_id, '^chs3_[^_]+_[^_]+_insert') "
        f"AND event_time >= fromUnixTimestamp({int(began_at)}) GROUP BY initial_query_id"
    )
    with lake.cluster.nodes[0].client() as client:
        client.execute("SYSTEM FLUSH LOGS")
        return [peak for (peak,) in client.execute(sql)]


def _process_bytes(lake: Lake, name: str) -> int:
    """A figure of the server's process: `VmRSS` is what it has of the machine's memory, `VmHWM` the most it had."""
    lines = Path(f"/proc/{lake.cluster.nodes[0].pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) * 1024
