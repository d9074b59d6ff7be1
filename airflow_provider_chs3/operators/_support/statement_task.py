"""Run a user's own statements in a task: what the operator and the sensor have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_provider_chs3.client.deadline import NEVER, Deadline
from airflow_provider_chs3.defaults import CLICKHOUSE_CONN_ID
from airflow_provider_chs3.exceptions import ClickHouseConnectionError, ConfigurationError
from airflow_provider_chs3.hooks.running_task import airflow_errors

if TYPE_CHECKING:
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook


class BaseClickHouseOperator(BaseOperator):
    """The base of the operator and the sensor that run statements.

    Args:
        sql: One statement, or several as a list: they run one after the other over one connection, so that temporary
            tables and SET stay for the next. A name that ends in `.sql` is that of a file.
        parameters: For each of the statements. A mapping fills `{name:Type}` on the server, or `%(name)s` on the
            worker, which cuts times to seconds. A list holds the rows, tuples or dicts, of an `INSERT … VALUES`.
            May be JSON text, or the name of a file that ends in `.json`. Default: none.
        external_tables: Rows to send along, as tables that the statements can read: `[{"name": "ids", "structure":
            [("id", "UInt64")], "data": [{"id": 7}]}]`. May be JSON like `parameters`. Default: none.
        query_id: The id of each of the statements. Default: a new one for each.
        settings: Settings for the statements; they override the connection's. May be JSON like `parameters`.
        database: The database of unqualified table names. Default: the connection's.
        clickhouse_conn_id: Connection of type `chs3`. Default: Airflow's `[chs3] clickhouse_conn_id`, `chs3_default`.
    """

    template_fields: Sequence[str] = (
        "sql",
        "parameters",
        "external_tables",
        "query_id",
        "settings",
        "database",
        "clickhouse_conn_id",
    )
    template_ext: Sequence[str] = (".sql", ".json")
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "sql": "sql",
        "parameters": "json",
        "external_tables": "json",
        "settings": "json",
    }
    ui_color = "#f2e6c2"

    def __init__(
        self,
        *,
        sql: str | Sequence[str],
        parameters: Mapping[str, Any] | Sequence[Any] | str | None = None,
        external_tables: Sequence[Mapping[str, Any]] | str | None = None,
        query_id: str | None = None,
        settings: Mapping[str, Any] | str | None = None,
        database: str | None = None,
        clickhouse_conn_id: str = CLICKHOUSE_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sql = sql
        self.parameters = parameters
        self.external_tables = external_tables
        self.query_id = query_id
        self.settings = settings
        self.database = database
        self.clickhouse_conn_id = clickhouse_conn_id
        self._hook: ClickHouseHook | None = None
        self._deadline: Deadline = NEVER

    def run_statements(self, **options: Any) -> Any:
        """Run the statements.

        Args:
            **options: Further arguments of `ClickHouseHook.execute`.

        Returns:
            The result of the last one.

        Raises:
            AirflowFailException: If a retry would end the same way.
            AirflowTaskTimeout: If the task took longer than its `execution_timeout`.
        """
        self._deadline.check()
        with airflow_errors(hints=False):
            try:
                return self._connect().execute(self.sql, **self._arguments(**options))
            except ClickHouseConnectionError:
                # So a statement ends that was given up.
                self._deadline.check()
                raise

    def _connect(self) -> ClickHouseHook:
        """Return the connection; `on_kill` ends what runs over it."""
        from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook

        self._hook = ClickHouseHook(clickhouse_conn_id=self.clickhouse_conn_id, schema=self.database)
        self._hook.deadline = self._deadline
        return self._hook

    def _arguments(self, **options: Any) -> dict[str, Any]:
        """Return the arguments of `ClickHouseHook.execute`, as objects."""
        return {
            "parameters": _parsed("parameters", self.parameters),
            "external_tables": _parsed("external_tables", self.external_tables) or (),
            "query_id": self.query_id,
            "settings": _mapping("settings", self.settings),
            **options,
        }

    def on_kill(self) -> None:
        """End the statement that is running, on all nodes that take part in it."""
        if self._hook:
            self._hook.cancel()


def _mapping(name: str, given: Any) -> Any:
    parsed = _parsed(name, given)
    if parsed is not None and not isinstance(parsed, Mapping):
        raise ConfigurationError(f"{name} is a {type(parsed).__name__}: pass a mapping of names and values.")
    return parsed


def _parsed(name: str, given: Any) -> Any:
    """Return an argument that a template may have made text of."""
    if not isinstance(given, str):
        return given
    if not given.strip():
        return None
    try:
        return json.loads(given)
    except json.JSONDecodeError as error:
        raise ConfigurationError(
            f"{name} is text, but not JSON: {error}. Does its template end in `| tojson`?"
        ) from None
