"""The cost of a proof at any time, beside one read of the same objects."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from airflow_provider_chs3.core.sql.quoting import literal
from airflow_provider_chs3.operators.prove import ProvePeriodsOperator
from airflow_provider_chs3.testbed.trips import COLUMNS, create_table_sql
from tests.benchmarks.lake import BUCKET, TABLE, Lake
from tests.benchmarks.measure import SECONDS
from tests.benchmarks.rounds import Comparison, Figures, measure_in_turns
from tests.benchmarks.suite import TrialContext
from tests.benchmarks.suites.formats import FEW, FORMATS, PERIOD, Format, lake_with_source, write

TITLE = "Proof of a table"

_READ, _PACKAGE = "one read of the objects", "this package"


def run(bench: TrialContext) -> Iterator[Comparison]:
    """Prove a period that one node holds, and only read its objects."""
    rows = bench.sized(full=4_000_000, quick=250_000) // FEW * FEW
    with lake_with_source(bench, rows, "bench_audit") as lake:
        lake.start_afresh(create_table_sql(f"default.{TABLE}"))
        lake.ask_every_node(f"INSERT INTO {TABLE} SELECT * FROM source")
        for one in (each for each in FORMATS if each.name in ("Parquet", "CSV")):
            write(lake, one, FEW)
            title = f"{one.name}, {rows:,} rows in {FEW} objects"
            variants = {_READ: _read(lake, one, rows), _PACKAGE: _proof(lake, one, rows)}
            yield Comparison(
                title=title,
                variants=list(variants),
                figures=[SECONDS],
                rounds=measure_in_turns(
                    title, variants, rounds=bench.rounds, console=bench.console, warm_up=not bench.is_quick
                ),
            )


def _read(lake: Lake, one: Format, rows: int) -> Callable[[], Figures]:
    url = f"{lake.s3.endpoint_url}/{BUCKET}/{one.ending}-{FEW}/{PERIOD}/*.{one.ending}"
    structure = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    source = f"s3('{url}', '{lake.s3.access_key}', '{lake.s3.secret_key}', '{one.clickhouse}', {literal(structure)})"

    def read() -> Figures:
        began = time.monotonic()
        found = lake.ask_every_node(f"SELECT count() FROM {source} WHERE NOT ignore({', '.join(COLUMNS)})")
        _check(sum(found), rows)
        return {SECONDS: time.monotonic() - began}

    return read


def _proof(lake: Lake, one: Format, rows: int) -> Callable[[], Figures]:
    def prove() -> Figures:
        lake.connect()
        where = lake.where(f"{one.ending}-{FEW}/{{YYYY-MM}}/*.{one.ending}", PERIOD)
        periods = where.pop("period")
        began = time.monotonic()
        (found,) = ProvePeriodsOperator(task_id="prove", periods=periods, **where).execute({})
        _check(found["rows"], rows)
        return {SECONDS: time.monotonic() - began}

    return prove


def _check(found: int, rows: int) -> None:
    if found != rows:
        raise RuntimeError(f"{found} rows were read, and there are {rows}.")
