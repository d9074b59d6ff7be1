"""The same period from each source: what people write, and this package."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from typing import Any

from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.sources.database.dialect import Dialect, SqlColumn, SqlTable
from airflow_provider_chs3.sources.mysql.reading import MySql
from airflow_provider_chs3.sources.postgres.reading import Postgres
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.programs.packages import ProgramMissingError
from airflow_provider_chs3.testbed.trips import COLUMNS, Trips
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.benchmarks.lake import TABLE, Lake
from tests.benchmarks.measure import MEMORY, SECONDS, watched
from tests.benchmarks.places import PERIOD, PLACES, FilledPlace, PlaceKind
from tests.benchmarks.rounds import Comparison, Figures, Gate, Round, Table, measure_in_turns
from tests.benchmarks.servers import BenchS3
from tests.benchmarks.suite import TrialContext
from tests.sources.rows import MySqlRows, PostgresRows, Rows
from tests.sources.servers.mysql import MySqlServer
from tests.sources.servers.postgres import PostgresServer

TITLE = "Sources"

_PLAIN, _PACKAGE = "plain", "this package"
_READ_BEFORE, _READ = "read, times by a format (before)", "read"
_HASH_BEFORE, _HASH = "fingerprint, MD5 of texts (before)", "fingerprint"
_MICROSECONDS = "microseconds of CPU a row"
_TO_CHAR = "rtrim(rtrim(to_char({}, 'YYYY-MM-DD HH24:MI:SS.US'), '0'), '.')"
_DATE_FORMAT = "TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM DATE_FORMAT({}, '%Y-%m-%d %H:%i:%s.%f')))"


def run(bench: TrialContext) -> Iterator[Table | Comparison]:
    """Load a period of each source whose server can be started here into one node."""
    yield place_table(bench, PLACES, title="A period of each source, into one node", warm_up=not bench.is_quick)

    for cost in (_cost_of_postgres, _cost_of_mysql):
        try:
            yield cost(bench)
        except ProgramMissingError as error:
            bench.say(f"The cost for a database is left out: {error}")


def place_table(bench: TrialContext, kinds: Iterable[PlaceKind], *, title: str, warm_up: bool) -> Table:
    """Measure the plain statement and this package at each source whose server can be started here."""
    rows = []
    with bench.s3() as s3, ClickHouseCluster.start(1) as one:
        for kind in kinds:
            try:
                rows.append(_measured(bench, kind, s3, one, warm_up=warm_up))
            except ProgramMissingError as error:
                bench.say(f"{kind.title} is left out: {error}")
    return Table(
        title=title,
        rows=rows,
        aim=f"The ratio is that of {_PACKAGE} to a plain INSERT … SELECT from the same table function, round by round.",
    )


def _cost_of_postgres(bench: TrialContext) -> Comparison:
    """Compare what PostgreSQL does for a load with what it did before, over the same rows."""
    count = bench.sized(full=1_000_000, quick=50_000)
    with PostgresServer.start() as server:
        rows = PostgresRows.create(server)
        rows.put(Trips(rows_per_period=count).table(PERIOD))
        table, columns = _described(rows, dialect := Postgres(), schema="public")
        texts = [_TO_CHAR.format(column.name) if dialect.times_of(column) else column.written for column in columns]
        asked = {
            _PLAIN: f"COPY (SELECT * FROM {rows.table}) TO '/dev/null'",
            _READ_BEFORE: f"COPY (SELECT {', '.join(texts)} FROM {rows.table}) TO '/dev/null'",
            _READ: f"COPY ({dialect.rows_of_period(table, columns, Period.parse(PERIOD))}) TO '/dev/null'",
            _HASH_BEFORE: f"SELECT sum(('x' || left(md5(ROW({', '.join(texts)})::text), 15))::bit(60)::bigint) "
            f"FROM {rows.table}",
            _HASH: dialect.version_of_period(table, columns, Period.parse(PERIOD)),
        }
        with closing(rows.connection(autocommit=True)) as connection:
            connection.execute("SET max_parallel_workers_per_gather = 0")
            return _compared(bench, "PostgreSQL", connection, connection.info.backend_pid, asked, count)


def _cost_of_mysql(bench: TrialContext) -> Comparison:
    """Compare what MariaDB does for a load with what it did before, over the same rows."""
    count = bench.sized(full=300_000, quick=50_000)
    with MySqlServer.start() as server:
        rows = MySqlRows.create(server)
        rows.put(Trips(rows_per_period=count).table(PERIOD))
        table, columns = _described(rows, dialect := MySql(), schema=None)
        texts = [_DATE_FORMAT.format(column.name) if dialect.times_of(column) else column.written for column in columns]
        hashes = ", ".join(f"COALESCE(MD5({text}), '')" for text in texts)
        asked = {
            _PLAIN: f"SELECT * FROM {rows.table}",
            _READ_BEFORE: f"SELECT {', '.join(texts)} FROM {rows.table}",
            _READ: dialect.rows_of_period(table, columns, Period.parse(PERIOD)),
            _HASH_BEFORE: f"SELECT SUM(CAST(CONV(LEFT(MD5(CONCAT_WS(',', {hashes})), 15), 16, 10) AS UNSIGNED)) "
            f"FROM {rows.table}",
            _HASH: dialect.version_of_period(table, columns, Period.parse(PERIOD)),
        }
        process = int((server.folder / "pid").read_text(encoding="ascii"))
        with closing(rows.connection()) as connection:
            return _compared(bench, "MariaDB", connection, process, asked, count)


def _described(rows: Rows, dialect: Dialect, schema: str | None) -> tuple[SqlTable, list[SqlColumn]]:
    table = SqlTable(
        name=rows.table, schema=schema, time_column="pickup_at", key_column=None, fingerprint=None, timezone="UTC"
    )
    with closing(rows.connection()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(*dialect.columns(table))
        return table, [dialect.column(*each) for each in cursor.fetchall()]


def _compared(
    bench: TrialContext, title: str, connection: Any, process: int, asked: Mapping[str, str], count: int
) -> Comparison:
    """Measure the CPU that a process of the database takes for statements."""

    def measured(statement: str) -> Callable[[], Figures]:
        def measure() -> Figures:
            before = _cpu_seconds(process)
            with closing(connection.cursor()) as cursor:
                cursor.execute(statement)
            return {_MICROSECONDS: (_cpu_seconds(process) - before) / count * 1e6}

        return measure

    variants = {name: measured(statement) for name, statement in asked.items()}
    return Comparison(
        title=f"What a load of {count:,} rows costs {title}: reads, and fingerprints",
        variants=list(variants),
        figures=[_MICROSECONDS],
        rounds=measure_in_turns(title, variants, rounds=bench.rounds, console=bench.console),
        aim="Reads and fingerprints take less CPU of the database than they did before.",
        gates=[
            Gate(variant=_READ, figure=_MICROSECONDS, at_most=0.9, base=_READ_BEFORE),
            Gate(variant=_HASH, figure=_MICROSECONDS, at_most=0.5, base=_HASH_BEFORE),
        ],
    )


def _cpu_seconds(process: int) -> float:
    """Return the CPU time that a process has taken so far, its own and the kernel's."""
    *_, fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")
    return sum(map(int, fields.split()[11:13])) / os.sysconf("SC_CLK_TCK")


def _measured(
    bench: TrialContext, kind: PlaceKind, s3: BenchS3, one: ClickHouseCluster, *, warm_up: bool
) -> Mapping[str, str | float]:
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
            warm_up=warm_up,
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
