"""Tables of trips in databases, all of one shape, so that one test runs on each of them."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pytest

from airflow_provider_chs3.core.sql.quoting import literals
from airflow_provider_chs3.testbed.trips import COLUMNS
from tests.sources.servers.local import DatabaseServer

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Rows(ABC):
    """A table of trips in a database, empty at first."""

    server: DatabaseServer
    table: str
    #: ClickHouse's name of the database.
    kind: ClassVar[str]
    #: The database's type of each column of `COLUMNS`.
    types: ClassVar[tuple[str, ...]]

    @classmethod
    def create(cls, server: DatabaseServer) -> Self:
        rows = cls(server, f"trips_{uuid.uuid4().hex[:12]}")
        columns = ", ".join(f"{name} {kind}" for name, kind in zip(COLUMNS, cls.types, strict=True))
        with closing(rows.connection()) as connection:
            connection.cursor().execute(f"CREATE TABLE {rows.table} ({columns})")
            connection.commit()
        return rows

    @abstractmethod
    def connection(self, **options: Any) -> Any:
        """Connect with a client in Python's common shape (PEP 249); options take precedence, such as a password."""

    def put(self, table: pa.Table) -> None:
        """Append rows of trips."""
        marks = ", ".join(["%s"] * len(COLUMNS))
        rows = list(zip(*(_plain(table[name]) for name in COLUMNS), strict=True))
        with closing(self.connection()) as connection:
            connection.cursor().executemany(f"INSERT INTO {self.table} VALUES ({marks})", rows)
            connection.commit()

    def function(self) -> str:
        """The table function that reads the rows."""
        server = self.server
        place = [f"{server.host}:{server.port}", server.database, self.table, server.user, server.password]
        return f"{self.kind}({literals(place)})"


class PostgresRows(Rows):
    kind = "postgresql"
    types = (
        "bigint", "text", "timestamp", "timestamp", "smallint", "double precision", "numeric(10, 2)", "text", "text",
        "text",
    )  # fmt: skip

    def connection(self, **options: Any) -> Any:
        import psycopg

        server = self.server
        login = {"user": server.user, "password": server.password, "dbname": server.database}
        return psycopg.connect(host=server.host, port=server.port, **login | options)


class MySqlRows(Rows):
    kind = "mysql"
    types = (
        "bigint unsigned NOT NULL", "text NOT NULL", "datetime NOT NULL", "datetime NOT NULL",
        "tinyint unsigned NOT NULL", "double NOT NULL", "decimal(10, 2) NOT NULL", "text NOT NULL", "text NOT NULL",
        "text",
    )  # fmt: skip

    @classmethod
    def create(cls, server: DatabaseServer) -> Self:
        """Create an empty table, unless this machine lacks what the worker connects by."""
        pytest.importorskip("MySQLdb", reason="needs libmariadb-dev and pkg-config when ./dev makes its environment")
        return super().create(server)

    def connection(self, **options: Any) -> Any:
        import pymysql

        server = self.server
        login = {"user": server.user, "password": server.password, "database": server.database}
        return pymysql.connect(host=server.host, port=server.port, **login | options)


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """Values as databases keep them: times in UTC, without a zone."""
    import pyarrow as pa

    return (column.cast(pa.timestamp("s")) if pa.types.is_timestamp(column.type) else column).to_pylist()
