"""`execute`: a user's own statements, one after the other over one connection."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.client.connection import check_settings
from airflow_provider_chs3.client.open_connections import in_turn
from airflow_provider_chs3.client.parameters import Bound, Parameters, bound
from airflow_provider_chs3.client.session import Session
from airflow_provider_chs3.core.sql.complete_answers import READABLE
from airflow_provider_chs3.core.sql.quoting import literal
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseConnectionError, ConfigurationError
from airflow_provider_chs3.hooks.statements.row_inserts import RowInserts

if TYPE_CHECKING:
    from airflow_provider_chs3.client.driver import Client


log = logging.getLogger(__name__)


class StatementRuns(RowInserts, Session):
    """The part of the hook that runs statements with everything that the driver can send along."""

    _running: tuple[str, Client] | None = None

    def execute(
        self,
        sql: str | Sequence[str],
        parameters: Parameters | Iterator[Any] | None = None,
        *,
        with_column_types: bool = False,
        external_tables: Sequence[Mapping[str, Any]] = (),
        query_id: str | None = None,
        settings: Mapping[str, Any] | None = None,
        types_check: bool = False,
        columnar: bool = False,
    ) -> Any:
        """Run statements one after the other over one connection, so that temporary tables and SET stay for the next.

        They run under the user's profile and the connection's settings. Nothing is undone if a later one fails.

        Args:
            sql: One statement, or several as a list.
            parameters: For each of the statements. A mapping fills `{name:Type}` on the server, or `%(name)s` here,
                which cuts times to seconds. A list holds the rows, tuples or dicts, of an `INSERT … VALUES`.
            with_column_types: Whether to return the columns too. Default: False.
            external_tables: Rows to send along, as tables that the statements can read: `{"name": "ids", "structure":
                [("id", "UInt64")], "data": [{"id": 7}]}`. Default: none.
            query_id: The id of each of the statements. Default: a new one for each.
            settings: Settings for the statements; they override the connection's.
            types_check: Whether the driver checks the types of all values before it sends them. Default: False.
            columnar: Whether rows are given and returned as columns. Default: False.

        Returns:
            The result of the last statement: rows; with `with_column_types` a tuple of rows and `(name, type)` of each
            column; for an `INSERT … VALUES` with rows, their number.

        Raises:
            ConfigurationError: If arguments do not fit each other, before anything is sent.
            RowError: If a row of `parameters` does not fit the table.
            ClickHouseServerError: If the server answers with an error.
            ClickHouseConnectionError: If the server does not answer, or the connection breaks.
        """
        if isinstance(parameters, Iterator):
            # Each statement takes them again.
            parameters = list(parameters)
        statements = [bound(statement, parameters) for statement in statements_of(sql)]
        options = {
            "with_column_types": with_column_types,
            "external_tables": [_external_table(table) for table in external_tables],
            "types_check": types_check,
            "columnar": columnar,
        }
        sent = {**READABLE, "log_comment": self.log_comment, **check_settings(settings or {}, where="settings")}
        result = None
        with self.client() as client:
            client.connection.deadline = self.deadline.at
            for statement in statements:
                result = self._send(client, statement, query_id or str(uuid.uuid4()), sent, options)
        return result

    def _send(
        self, client: Client, statement: Bound, query_id: str, settings: Mapping[str, Any], options: Mapping[str, Any]
    ) -> Any:
        from airflow_provider_chs3.client.server_errors import translated_errors

        # Not the statement, which may hold keys.
        log.info("Query id: %s", query_id)
        settings = {**settings, "server_side_params": statement.is_server_side}

        def run() -> Any:
            with translated_errors(client, query_id=query_id), _misfits_named(client, options["external_tables"]):
                return client.execute(
                    statement.sql, statement.parameters, query_id=query_id, settings=settings, **options
                )

        self._running = (query_id, client)
        try:
            return in_turn(run, statement.sql)
        finally:
            self._running = None

    def cancel(self) -> None:
        """End the statement that `execute` is running, on all nodes that take part in it."""
        if self._running is None:
            return
        query_id, client = self._running
        log.info("Ending query %s.", query_id)
        for address in self._addresses_of(client):
            try:
                self.query(f"KILL QUERY WHERE query_id = {literal(query_id)} ASYNC", address=address)
            except ClickHouseConnectionError as error:
                # A node that is down runs nothing.
                log.warning("%s", error)


def statements_of(sql: str | Sequence[str]) -> list[str]:
    """Return the statements of an argument that takes one, or several as a list."""
    statements: list[Any] = list(sql) if isinstance(sql, list | tuple) else [sql]
    if not statements or not all(isinstance(statement, str) and statement.strip() for statement in statements):
        raise ConfigurationError(f"sql={sql!r}: pass a statement, or a list of statements.")
    return statements


def _external_table(given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        name, structure = given["name"], [tuple(column) for column in given["structure"]]
        names = [column for column, _ in structure]
        rows = [tuple(row[name] for name in names) if isinstance(row, Mapping) else tuple(row) for row in given["data"]]
        is_table = name and names and all(isinstance(column, list | tuple) for column in given["structure"])
        if not is_table or any(len(row) != len(names) for row in rows):
            raise ValueError(name)
    except (KeyError, TypeError, ValueError):
        raise ConfigurationError(
            "external_tables: pass a list of tables, each as {'name': 'ids', 'structure': [('id', 'UInt64')], 'data': "
            f"[(7,)]}} with a value for each column in every row, not {given!r}."
        ) from None
    return {"name": name, "structure": structure, "data": rows}


@contextmanager
def _misfits_named(client: Client, tables: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """Name the value of an external table that the driver cannot send."""
    from airflow_provider_chs3.client.inserted_rows import OF_OTHERS, first_misfit

    try:
        yield
    except (*OF_OTHERS, Chs3Error):
        raise
    except Exception:
        for table in tables:
            if misfit := first_misfit(table["structure"], table["data"], client.connection.context):
                problem = f"row {misfit.row}: {misfit.problem}"
                raise ConfigurationError(f"external_tables, {table['name']!r}: {problem}.") from None
        raise
