"""The driver's DB-API, with what common-sql's operators expect of one.

Beyond the driver's own: every statement has an id and a `log_comment`; errors are this package's; positional parameters
(`%s`) work, and a lone `%` needs no doubling; rows of an INSERT go out as typed blocks; nothing of an earlier statement
is left in the cursor.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import clickhouse_driver.dbapi.connection  # noqa: TID253
import clickhouse_driver.dbapi.cursor  # noqa: TID253
from clickhouse_driver.dbapi.errors import OperationalError  # noqa: TID253

from airflow_provider_chs3.client.connection import ConnectionOptions
from airflow_provider_chs3.client.driver import Client, open_client
from airflow_provider_chs3.client.parameters import Parameters, bind
from airflow_provider_chs3.client.server_errors import translated_errors
from airflow_provider_chs3.hooks.running_task import airflow_log_comment

log = logging.getLogger(__name__)

# common-sql's column checks unite columns without a common type: the default since 26.1; 25.8 refuses them even so.
_SETTINGS = {"use_variant_as_common_type": 1}

_INSERT_ROWS = re.compile(
    r"(?P<head>\s*INSERT\s.*\bVALUES)\s*(?P<row>\(\s*%(?:\([^)]+\))?s(?:\s*,\s*%(?:\([^)]+\))?s)*\s*\))?[\s;]*",
    re.IGNORECASE | re.DOTALL,
)
_NAMES = re.compile(r"%\(([^)]+)\)s")


class Connection(clickhouse_driver.dbapi.connection.Connection):
    """A DB-API connection; each of its cursors is a session of its own."""

    def __init__(self, options: ConnectionOptions) -> None:
        (host, port), *_ = options.hosts
        super().__init__(host=host, port=port, user=options.user, database=options.database)
        self._options = options

    def _make_client(self) -> Client:
        return open_client(self._options)

    def cursor(self, cursor_factory: type | None = None) -> Any:
        """Return a new cursor."""
        return super().cursor(cursor_factory or Cursor)

    def close(self) -> None:
        """Close the connection and its cursors."""
        # The driver's own loop runs over the list that closing shortens, and leaves every second cursor open.
        for cursor in tuple(self.cursors):
            cursor.close()
        self.is_closed = True


class Cursor(clickhouse_driver.dbapi.cursor.Cursor):
    """A cursor whose statements can be found in `system.query_log`."""

    def execute(self, operation: str, parameters: Parameters | None = None) -> None:
        """Run one statement."""
        operation, values = bind(operation, parameters)
        with self._statement():
            super().execute(operation, values)

    def executemany(self, operation: str, seq_of_parameters: Sequence[Parameters]) -> None:
        """Insert rows as blocks; any other statement runs once for each set of parameters."""
        insert = _INSERT_ROWS.fullmatch(operation)
        if insert is None:
            for parameters in seq_of_parameters:
                self.execute(operation, parameters)
            return
        names = _NAMES.findall(insert["row"] or "")
        rows = [tuple(row[name] for name in names) if names else row for row in seq_of_parameters]
        with self._statement():
            # With the placeholders left in, the server would read them as values.
            super().executemany(insert["head"], rows)

    @property
    def description(self) -> list[Any] | None:
        """The columns of the result; None for a statement without one."""
        return super().description or None

    @contextmanager
    def _statement(self) -> Iterator[None]:
        query_id = str(uuid.uuid4())
        log.info("Query id: %s", query_id)
        self.set_query_id(query_id)
        given = self._client.settings | (self._settings or {})
        self.set_settings(_SETTINGS | given | {"log_comment": airflow_log_comment()})
        self._columns, self._types, self._rows, self._rowcount = None, None, None, -1
        with translated_errors(self._client, query_id=query_id):
            try:
                yield
            except OperationalError as error:
                # The driver wraps its own errors, with the server's stack trace in the text.
                raise error.args[0] from None
