"""A hook that keeps its connections open, for repeated queries to the same servers."""

from __future__ import annotations

from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook


class PooledClickHouseHook(ClickHouseHook):
    """A `ClickHouseHook` whose `query` leaves connections open for the next one. Threads may share it."""

    keeps_connections = True

    def close(self) -> None:
        """Close all connections: idle ones now, those in use when their statement ends."""
        self._connections.close()
