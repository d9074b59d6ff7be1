"""The same period from each source: what people write, and this package."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from statistics import median
from typing import Any

from airflow_provider_chs3.sources.database.dialect import SqlTable
from airflow_provider_chs3.sources.postgres.reading import Postgres
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.programs.packages import ProgramMissingError
from airflow_provider_chs3.testbed.sources.postgres import PostgresServer
from airflow_provider_chs3.testbed.trips import COLUMNS, Trips
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.benchmarks.lake import TABLE, Lake
from tests.benchmarks.measure import MEMORY, SECONDS, watched
from tests.benchmarks.places import PERIOD, PLACES, FilledPlace, PlaceKind
from tests.benchmarks.rounds import Comparison, Figures, Gate, Round, Table, measure_in_turns
from tests.benchmarks.servers import BenchS3
from tests.benchmarks.suite import TrialContext
from tests.sources.rows import PostgresRows

TITLE = "Sources"

_PLAIN, _PACKAGE = "plain", "this package"
_MD5, _SENT, _COUNT = "MD5 of texts (before)", "hash of bytes as sent", "count alone"
_MICROSECONDS = "microseconds a row"


def run(bench: TrialContext) -> Iterator[Table | Comparison]:
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

    try:
        yield _fingerprints(bench)
    except ProgramMissingError as error:
        bench.say(f"PostgreSQL's fingerprint is left out: {error}")


def _fingerprints(bench: TrialContext) -> Comparison:
    """Compare the default fingerprint of PostgreSQL with the one that it had before, over the same rows."""
    count = bench.sized(full=1_000_000, quick=50_000)
    with PostgresServer.start() as server:
        rows = PostgresRows.create(server)
        rows.put(Trips(rows_per_period=count).table(PERIOD))
        dialect = Postgres()
        table = SqlTable(
            name=rows.table, schema="public", time_column="pickup_at", key_column=None, fingerprint=None, timezone="UTC"
        )
        with closing(rows.connection()) as connection:
            found = connection.execute(*dialect.columns(table)).fetchall()
        columns = [dialect.column(*each) for each in found]
        texts = ", ".join(each.written for each in columns)
        digests = {
            _MD5: f"sum(('x' || left(md5(ROW({texts})::text), 15))::bit(60)::bigint)",
            _SENT: dialect.digest(columns),
            _COUNT: "count(*)",
        }
        variants = {name: _asked(rows, digest, count) for name, digest in digests.items()}
        rounds = measure_in_turns("Fingerprint", variants, rounds=bench.rounds, console=bench.console)
    return Comparison(
        title=f"The default fingerprint of {count:,} rows of PostgreSQL, one process",
        variants=list(variants),
        figures=[_MICROSECONDS],
        rounds=rounds,
        aim="Hashing rows takes half the time that MD5 of their texts took, or less.",
        gates=[Gate(variant=_SENT, figure=_MICROSECONDS, at_most=0.5)],
    )


def _asked(rows: PostgresRows, digest: str, count: int) -> Callable[[], Figures]:
    def measure() -> Figures:
        with closing(rows.connection()) as connection:
            connection.execute("SET max_parallel_workers_per_gather = 0")
            start = time.monotonic()
            connection.execute(f"SELECT {digest} FROM {rows.table}").fetchall()
            return {_MICROSECONDS: (time.monotonic() - start) / count * 1e6}

    return measure


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
