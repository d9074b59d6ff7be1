"""A table of PostgreSQL or MySQL as the worker sees it: its columns, and the version of each period."""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import json
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_chs3.client.listing import Listing
from airflow_provider_chs3.core.files.row_source import unit_of, version_of
from airflow_provider_chs3.core.model.models import ObjectPage, Unit
from airflow_provider_chs3.core.model.period import Grain, Period
from airflow_provider_chs3.exceptions import Chs3Error, ConfigurationError, SourceError, TransientError
from airflow_provider_chs3.sources.database.dialect import Dialect, SqlColumn, SqlTable, column_named, periods_touched
from airflow_provider_chs3.sources.database.reading import SqlAccess, SqlSource

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Connection
    from airflow.providers.common.sql.hooks.sql import DbApiHook

#: Bytes that a value is taken for: databases do not report the size of a period.
_BYTES_OF_A_VALUE = 8
_PATH = "_path"


class RowsListing(Listing):
    """Asks a database about a table."""

    dialect: ClassVar[Dialect]
    port: ClassVar[int]
    #: This package's extra with Airflow's provider of the database.
    extra: ClassVar[str]
    #: Modules that the provider's hook may connect by.
    drivers: ClassVar[tuple[str, ...]]

    def __init__(self, conn_id: str, table: SqlTable) -> None:
        self.conn_id = conn_id
        self.table = table
        # Periods of a plan are asked about at the same time.
        self._lock = threading.Lock()
        #: Period → the state in which it was looked at, and what was found.
        self._versions: dict[Period, tuple[str | None, Unit | None]] = {}

    @cached_property
    def connection(self) -> Connection:
        """Airflow's connection."""
        from airflow.providers.common.compat.sdk import BaseHook

        connection = BaseHook.get_connection(self.conn_id)
        if not connection.host or not connection.schema:
            raise ConfigurationError(
                f"Connection {self.conn_id!r} leads to no database: set its host, and the database as schema."
            )
        return connection

    @property
    def address(self) -> str:
        """Host and port of the database."""
        return f"{self.connection.host}:{self.connection.port or self.port}"

    @property
    def place(self) -> str:
        """Database, schema and table, without slashes."""
        shown = f"{self.connection.schema}.{self.table.shown}"
        return shown.replace("%", "%25").replace("/", "%2F")

    def source(self, *, server_address: str | None, named_collection: str | None) -> SqlSource:
        """Return what the servers read."""
        # The worker asks first: if its own TLS is wrong, it says so.
        given, columns = self.connection, self.columns
        access = SqlAccess(named_collection=named_collection)
        if not named_collection:
            user, password = self.login_of_servers()
            access = SqlAccess(
                host=server_address or self.address,
                database=str(given.schema),
                user=user,
                password=password,
                tls=self.tls_of_servers(given.extra_dejson),
            )
        return SqlSource(dialect=self.dialect, table=self.table, columns=columns, full_name=self.place, access=access)

    @cached_property
    def columns(self) -> tuple[SqlColumn, ...]:
        """The table's columns."""
        statement, parameters = self.dialect.columns(self.table)
        columns = tuple(self.dialect.column(*map(_text, row)) for row in self._ask(statement, parameters))
        if not columns:
            raise SourceError(
                f"There is no table {self.table.shown} at {self.address}, or {self.connection.login!r} may not see it."
            )
        names = [column.name for column in columns]
        for name in (self.table.time_column, self.table.key_column):
            if name and name not in names:
                raise SourceError(f"{self.table.shown} has no column {name!r}. It has {', '.join(map(repr, names))}.")
        if _PATH in names:
            raise SourceError(
                f"{self.table.shown} has a column {_PATH!r}, the name of the virtual column that shows where a row is "
                "from: load a view that renames it."
            )
        return columns

    def pages(
        self, bucket: str, prefix: str, narrower: Callable[[str], Sequence[str]] | None = None
    ) -> Iterator[ObjectPage]:
        """Yield the period as one object, if it has rows; of a period's length, all periods; see `Listing.pages`."""
        periods = self._periods(Grain(prefix)) if prefix in {*Grain} else [Period.parse(prefix)]
        units = (self._unit(period) for period in periods)
        yield ObjectPage.of([unit for unit in units if unit is not None])

    def _periods(self, grain: Grain) -> list[Period]:
        table = self.table
        times = self.dialect.times_for(column_named(table.time_column, self.columns), grain)
        touched = set[Period]()
        for (day,) in self._ask(self.dialect.days(table, self.columns, grain)):
            # A day that no table holds, such as 9999-12-31, 0000-00-00 or infinity, is in no period.
            with suppress(ConfigurationError):
                touched |= periods_touched(Period.parse(_text(day)), grain, times, table.timezone)
        return sorted(touched)

    def _unit(self, period: Period) -> Unit | None:
        state, known = self._versions.get(period, (None, None))
        # Small, where the version reads all rows.
        if state and self._ask(f"SELECT {self.dialect.state(self.table)}") == [(state,)]:
            return known
        answers, table = self._ask(self.dialect.version_of_period(self.table, self.columns, period)), self.table
        # Rows and keys come first.
        if len(answers) != 1 or len(answers[0]) != 4:
            raise SourceError(f"fingerprint={table.fingerprint!r} has several values: use one, as 'sum(version)'.")
        rows, keys, changes, state = answers[0]
        unit = self._unit_of(period, int(rows), int(keys or 0), _text(changes)) if rows else None
        self._versions[period] = state, unit
        return unit

    def _unit_of(self, period: Period, rows: int, keys: int, changes: str) -> Unit:
        table = self.table
        # The columns, and how they are read, are part of it: another column, or another zone, is another period.
        read = [(column.name, column.type, column.read) for column in self.columns]
        parts = [read, table.time_column, table.timezone, table.fingerprint, changes]
        digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
        version = version_of(rows, keys, digest)
        return unit_of(self.place, period, version=version, size_bytes=rows * len(read) * _BYTES_OF_A_VALUE)

    def _ask(self, statement: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        try:
            hook = self.hook
            with self._lock, closing(hook.get_conn()) as connection, closing(connection.cursor()) as cursor:
                cursor.execute(statement, parameters)
                return list(cursor.fetchall())
        except ImportError as error:
            raise ConfigurationError(
                f"The worker needs a provider that is not installed ({error}): install the extra {self.extra} of "
                "airflow-provider-chs3."
            ) from error
        except self.driver_errors() as error:
            raise self._explained(error) from None

    def _explained(self, error: Exception) -> Chs3Error:
        where = f"{self.table.shown} at {self.address}"
        text = str(error).strip()
        if self.is_transient(error):
            return TransientError(f"The database of {where} does not answer: {text}")
        return SourceError(
            f"The database of {where} refuses {self.connection.login!r}: {text}. Check the connection "
            f"{self.conn_id!r}, the user's SELECT on the table, and fingerprint=…."
        )

    def connection_with(self, **extra: Any) -> Connection:
        """Return Airflow's connection with further options in its extra; its cursors return plain rows."""
        given = copy.copy(self.connection)
        given.extra = json.dumps({**given.extra_dejson, **extra, "cursor": None})
        return given

    def login_of_servers(self) -> tuple[str, str]:
        """Return user and password by which servers connect: with `iam` in the extra, the token of now."""
        given = self.connection
        password = given.password
        if given.extra_dejson.get("iam"):
            # PostgreSQL's hook returns login, password and port, MySQL's only the last two.
            *_, password, _ = self.hook.get_iam_token(given)
        return given.login or "", password or ""

    def tls_of_servers(self, extra: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        """Return arguments of ClickHouse's function by which servers connect as safely as the worker."""
        return ()

    @cached_property
    @abstractmethod
    def hook(self) -> DbApiHook:
        """Airflow's hook of the database, which connects."""

    def driver_errors(self) -> tuple[type[Exception], ...]:
        """Return the classes of all errors of the drivers that the hook may use."""
        return tuple(importlib.import_module(name).Error for name in self.drivers if importlib.util.find_spec(name))

    @abstractmethod
    def is_transient(self, error: Exception) -> bool:
        """Check whether an error may pass by itself."""


def _text(value: Any) -> str:
    """Return a text of a catalogue: some drivers return bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)
