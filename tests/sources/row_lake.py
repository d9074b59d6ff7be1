"""A table in a database and a table in ClickHouse, and loads from one to the other as the user of loads."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.sources.database import TableRows
from airflow_provider_chs3.sources.mysql import MySqlRows
from airflow_provider_chs3.sources.postgres import PostgresRows
from airflow_provider_chs3.testbed.trips import COLUMNS
from airflow_provider_chs3.transfers.mysql_to_clickhouse import MySqlToClickHouseOperator
from airflow_provider_chs3.transfers.postgres_to_clickhouse import PostgresToClickHouseOperator
from tests.sources.rows import MySqlRows as MySqlTable
from tests.sources.rows import Rows
from tests.sources.trips_target import TripsTarget
from tests.support.arguments import grouped

if TYPE_CHECKING:
    import pyarrow as pa
    import pytest

    from airflow_provider_chs3.testbed.nodes import Cluster


@dataclass
class RowLake(TripsTarget):
    """A table of a database, the table `trips` on every node, and loads from one to the other."""

    rows: Rows
    cluster: Cluster
    database: str

    @classmethod
    def create(cls, rows: Rows, cluster: Cluster, database: str, monkeypatch: pytest.MonkeyPatch) -> RowLake:
        lake = cls(rows, cluster, database)
        lake.connect(monkeypatch)
        lake.create_target(monkeypatch)
        return lake

    @property
    def is_mysql(self) -> bool:
        return isinstance(self.rows, MySqlTable)

    def connect(self, monkeypatch: pytest.MonkeyPatch, **wrong: Any) -> None:
        """Make Airflow's connection to the database."""
        server, kind = self.rows.server, "mysql" if self.is_mysql else "postgres"
        given = {"conn_type": kind, "host": server.host, "port": server.port, "schema": server.database}
        given |= {"login": server.user, "password": server.password}
        monkeypatch.setenv(f"AIRFLOW_CONN_{kind.upper()}_DEFAULT", json.dumps(given | wrong))

    def store(self, **options: Any) -> TableRows:
        kind = MySqlRows if self.is_mysql else PostgresRows
        return kind(**{"table": self.rows.table, "time_column": "pickup_at", "key_column": "trip_id"} | options)

    def operator(self, **options: Any) -> PostgresToClickHouseOperator | MySqlToClickHouseOperator:
        kind = MySqlToClickHouseOperator if self.is_mysql else PostgresToClickHouseOperator
        given = {"source_table": self.rows.table, "time_column": "pickup_at", "key_column": "trip_id"}
        return kind(**grouped(**self.arguments | given | options))

    def put(self, table: pa.Table) -> None:
        """Add rows to the table of the database."""
        self.rows.put(table)

    @property
    def source_argument(self) -> tuple[str, str]:
        """The argument of the operator that names the table, and its value."""
        return "source_table", self.rows.table

    @property
    def doctor_options(self) -> list[str]:
        """The options by which the doctor knows the table."""
        kind = "mysql" if self.is_mysql else "postgres"
        return ["--storage", kind, "--source-table", self.rows.table, "--time-column", "pickup_at"]

    @property
    def dataset(self) -> tuple[str, str]:
        """OpenLineage's namespace and name of the table."""
        server = self.rows.server
        scheme, schema = ("mysql", "") if self.is_mysql else ("postgres", "public.")
        return f"{scheme}://{server.host}:{server.port}", f"{server.database}.{schema}{self.rows.table}"

    def load(self, **options: Any) -> dict[str, Any]:
        return self.operator(**options).execute({})

    def change(self, sql: str, **options: Any) -> None:
        """Run a statement in the database, with `{t}` for the table."""
        self.run(sql.format(t=self.rows.table), **options)

    def run(self, sql: str, **options: Any) -> None:
        """Run a statement in the database."""
        with closing(self.rows.connection(**options)) as connection:
            connection.cursor().execute(sql)
            connection.commit()

    def slowly(self, seconds: float) -> str:
        """An expression of empty text that takes a while in each row whose value is wanted, and in no other."""
        if self.is_mysql:
            return f"IF(SLEEP({seconds} + 0 * trip_id), '', '')"
        # PostgreSQL computes what is volatile for every look at a view, whatever columns it is for.
        self.run(
            "CREATE OR REPLACE FUNCTION slowly(float) RETURNS text STABLE LANGUAGE plpgsql "
            "AS $$BEGIN PERFORM pg_sleep($1); RETURN ''; END$$"
        )
        return f"slowly({seconds})"

    @property
    def other_columns(self) -> list[str]:
        """All columns of trips but the key."""
        return [name for name in COLUMNS if name != "trip_id"]
