"""A DAG of deferred loads that last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_provider_chs3.testbed.trips import COLUMNS, Trips
from tests.scheduler.deferred_tasks import ARGUMENTS, FATES, TELLS_PID, DeferredTasks
from tests.support.lake import PERIOD, Lake
from tests.support.slow import SLOW_SETTINGS

DATABASE = "test_deferred"
TRIPS = Trips(rows_per_period=6_000, files_per_period=6)
#: The load that is held in the end.
HELD = "triggerer_killed"
SELECT = {name: name for name in COLUMNS} | {"trip_id": "trip_id + sleepEachRow(0.075)"}

DAG = f"""{TELLS_PID}

from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

CHECKED = {{
    "checks": {{"table_checks": {{"few": {{"check_statement": "count() < {TRIPS.rows_per_period}"}}}}}},
    "policies": {{"on_failed_check": "hold"}},
}}
SECONDS = {{"failed": 0.4, "cleared": "{{{{ 0.4 if ti.try_number == 1 else 0 }}}}"}}

with DAG("loads", schedule=None, start_date=datetime(2026, 1, 1)):
    for table in {FATES!r}:
        S3ToClickHouseOperator(
            task_id=table,
            bucket="BUCKET",
            key="trips/{{YYYY-MM}}/",
            database="{DATABASE}",
            table=table,
            period="{PERIOD}",
            # Some 150 s, as Airflow starts twice; what people end would take minutes, and no time again.
            select={SELECT!r}
            | ({{"trip_id": f"trip_id + sleepEachRow({{SECONDS[table]}})"}} if table in SECONDS else {{}}),
            settings={SLOW_SETTINGS!r},
            {", ".join(f"{name}={value}" for name, value in ARGUMENTS.items())},
            **(CHECKED if table == "{HELD}" else {{}}),
        )
"""


@dataclass
class Loads(DeferredTasks):
    """One run of that DAG."""

    lakes: dict[str, Lake]
    states: ClassVar[dict[str, str]] = {**DeferredTasks.states, HELD: "skipped"}

    def query_ids(self, fate: str) -> set[str]:
        return self.found_in_logs(fate, r"query id (chs3_\w+)")

    def is_running(self, fate: str) -> bool:
        ids = ", ".join(map(repr, self.query_ids(fate)))
        sql = f"SELECT count() FROM system.processes WHERE query_id IN ({ids})"
        return bool(ids) and any(rows[0][0] for rows in self.lakes[fate].on_every_node(sql))

    def have_ended(self) -> bool:
        return all("dropping its staging" in self.logs(fate) for fate in ("failed", "cleared"))
