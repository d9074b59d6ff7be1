"""The table of trips that sources are loaded into, as the user of loads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.testbed.trips import PeriodFacts, create_table_sql, read_facts
from tests.support.narrow_user import narrow_connection

if TYPE_CHECKING:
    import pytest

    from airflow_provider_chs3.testbed.nodes import Cluster

PERIOD = "2026-01"


class TripsTarget:
    """The table `trips` on every node of a cluster."""

    cluster: Cluster
    database: str

    def create_target(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Create it, and make Airflow's connection."""
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(narrow_connection(self.cluster)))
        self.on_every_node(create_table_sql(f"{self.database}.trips"))

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of every task that loads into it."""
        where = {"table": "trips", "database": self.database, "cluster": self.cluster.name}
        return where | {"task_id": "load", "period": PERIOD, "progress_interval_seconds": 0.2}

    def on_every_node(self, sql: str) -> list[list[tuple[Any, ...]]]:
        answers = []
        for node in self.cluster.nodes:
            with node.client() as client:
                answers.append(client.execute(sql))
        return answers

    def facts(self, period: str = PERIOD) -> PeriodFacts:
        with self.cluster.nodes[0].client() as client:
            return read_facts(client, f"cluster('{self.cluster.name}', {self.database}, trips)", period)

    def rows_per_node(self) -> list[int]:
        return [rows[0][0] for rows in self.on_every_node(f"SELECT count() FROM {self.database}.trips")]

    def staging(self) -> list[str]:
        """Staging tables of loads, on any node."""
        like = "name LIKE 'chs3\\_%' AND name NOT IN ('chs3_ledger', 'chs3_loads', 'chs3_objects')"
        return self._names(f"SELECT name FROM system.tables WHERE database = '{self.database}' AND {like}")

    def left_behind(self) -> list[str]:
        """Staging tables and running queries of loads, on any node."""
        of_loads = f"startsWith(initial_query_id, 'chs3_') AND position(query, '{self.database}') > 0"
        return self.staging() + self._names(f"SELECT query_id FROM system.processes WHERE {of_loads}")

    def _names(self, sql: str) -> list[str]:
        return [name for rows in self.on_every_node(sql) for (name,) in rows]
