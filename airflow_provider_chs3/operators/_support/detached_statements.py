"""A user's own statements in a task that leaves its worker while those without a result run."""

from __future__ import annotations

import hashlib
import hmac
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_chs3.client.connection import Address, check_settings
from airflow_provider_chs3.client.detached_runner import DetachedQuery, without_database
from airflow_provider_chs3.client.open_connections import in_turn
from airflow_provider_chs3.client.parameters import Bound, bound, over_http
from airflow_provider_chs3.client.runner import ProgressLog
from airflow_provider_chs3.core.steps.insert_progress import running_query
from airflow_provider_chs3.exceptions import (
    ClickHouseConnectionError,
    ConfigurationError,
    StatementLostError,
    TransientError,
)
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.hooks.running_task import airflow_log_comment
from airflow_provider_chs3.hooks.statements.statement_runs import statements_of

_BLANK = r"(?:\s|--[^\n]*|#[^\n]*|/\*.*?\*/)*"
_WITHOUT_RESULT = re.compile(
    rf"{_BLANK}(?:ALTER|ATTACH|BACKUP|CREATE|DELETE|DETACH|DROP|EXCHANGE|INSERT|OPTIMIZE|RENAME|REPLACE|RESTORE|SYSTEM"
    r"|TRUNCATE|UNDROP|UPDATE)\b",
    re.IGNORECASE | re.DOTALL,
)
#: Its result is a row for each node.
_ON_CLUSTER = re.compile(r"\bON\s+CLUSTER\b", re.IGNORECASE)
_OF_SESSION = re.compile(
    rf"{_BLANK}(?:SET|USE|BEGIN|COMMIT|ROLLBACK|(?:CREATE|REPLACE|CREATE\s+OR\s+REPLACE)\s+TEMPORARY)\b",
    re.IGNORECASE | re.DOTALL,
)

#: A backup has ended before it sends its row; without this, 25.8 counts it as failed if nobody takes that (error 210).
_WITH_ROW_LAST = {"wait_end_of_query": "1"}

#: The most that servers take as a field of a form (`http_max_field_value_size`).
_LARGEST_FIELD_BYTES = 128 * 1024

#: How long a statement of an earlier try may take to end after it was killed.
_END_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class RunningStatement:
    """A statement that continues without its worker."""

    number: int
    query_id: str
    address: Address | None = None

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> RunningStatement:
        """Return the statement from values that have been JSON."""
        address = values["address"]
        return cls(**{**values, "address": (address[0], address[1]) if address else None})


def why_worker_is_held(statements: Sequence[str], parameters: Any, external_tables: Sequence[Any]) -> str:
    """Return why no statement of a task can continue without its worker; empty if one can."""
    if external_tables:
        return "its statements send external tables"
    if parameters is not None and not isinstance(parameters, Mapping):
        return "its statements send rows"
    if any(_OF_SESSION.match(statement) for statement in statements):
        return "its statements share a session"
    return "" if any(map(has_no_result, statements)) else "its statements have results"


def has_no_result(sql: str) -> bool:
    """Check whether a statement returns no rows to wait for; BACKUP and RESTORE return one, with their status."""
    return bool(_WITHOUT_RESULT.match(sql)) and not _ON_CLUSTER.search(sql)


class DetachingStatements:
    """Statements of a task, one after the other. Those without a result continue without this process."""

    def __init__(
        self,
        *,
        hook: ClickHouseHook,
        sql: str | Sequence[str],
        parameters: Mapping[str, Any] | None,
        options: Mapping[str, Any],
        owner: str,
        wait: Callable[[RunningStatement], None] | None,
        log: ProgressLog,
        progress_interval_seconds: float,
    ) -> None:
        self.hook = hook
        self.statements = statements_of(sql)
        self.parameters = parameters
        self.options = options
        self.wait = wait
        self.log = log
        self.progress_interval_seconds = progress_interval_seconds
        owner = hashlib.sha256((owner or uuid.uuid4().hex).encode()).hexdigest()[:16]
        self._prefix = f"{options.get('query_id') or 'chs3_statement'}_{owner}_"
        self._running: RunningStatement | None = None

    def run(self, running: RunningStatement | None = None) -> Any:
        """Run the statements."""
        statements = [bound(statement, self.parameters) for statement in self.statements]
        running = running or self._of_earlier_try()
        result = self._finish(running) if running else None
        for number in range(running.number + 1 if running else 0, len(statements)):
            sql = self.statements[number]
            if has_no_result(sql) and _fits(statements[number]):
                result = self._detach(number, statements[number])
            else:
                result = self.hook.execute(sql, self.parameters, **self.options)
        return result

    def end(self, running: RunningStatement | None = None) -> None:
        """End a statement that continues by itself, on all nodes."""
        if running := running or self._running:
            self.log.info("Ending query %s.", running.query_id)
            self._query(running).end()

    def _detach(self, number: int, statement: Bound) -> Any:
        query_id = f"{self._prefix}{self._digest}_{number}_{uuid.uuid4().hex[:8]}"
        running = RunningStatement(number=number, query_id=query_id)
        query = self._query(running)
        if not query.has_log():
            raise ConfigurationError(
                f"ClickHouse has no system.query_log on {self.hook.options.cluster or self.hook.options.hosts[0][0]}, "
                "and a deferrable or durable task needs it to see how its statement ended: configure query_log on the "
                "servers, or leave deferrable and durable out."
            )
        sql, parameters = self._as_sent(statement)
        user_settings = check_settings(self.options["settings"] or {}, where="settings")
        settings = {"log_comment": airflow_log_comment(), **user_settings, **_WITH_ROW_LAST}
        self.log.info("Query id: %s", query_id)
        self._running = running
        sent = in_turn(lambda: query.send(sql, settings=settings, parameters=parameters), sql)
        if sent.stats is None:
            self.log.info("The statement continues without this process.")
            return self._finish(running if query.cluster else replace(running, address=sent.address))
        self._running = None
        return self._no_rows()

    def _finish(self, running: RunningStatement) -> Any:
        """Wait for the end of a statement."""
        self._running = running
        query = self._query(running)
        if self.wait is None:
            query.watch(self.log, self.progress_interval_seconds)
        while self.wait and query.is_running():
            self.wait(running)
        if query.outcome() is None:
            raise StatementLostError(
                f"Statement {running.query_id} no longer runs, and no node's system.query_log shows how it ended: a "
                "server was restarted, or another server answers, as behind a load balancer (then set the connection's "
                "extra 'cluster'). The statement may have taken effect."
            )
        self._running = None
        return self._no_rows()

    def _no_rows(self) -> Any:
        return ([], []) if self.options["with_column_types"] else []

    def _query(self, running: RunningStatement) -> DetachedQuery:
        cluster = self.hook.options.cluster
        return DetachedQuery(session=self.hook, query_id=running.query_id, cluster=cluster, address=running.address)

    def _as_sent(self, statement: Bound) -> tuple[str, Mapping[str, str] | None]:
        """Return the statement, and the parameters that the server puts in."""
        from airflow_provider_chs3.client.server_errors import translated_errors

        if statement.is_server_side:
            return statement.sql, over_http(statement.parameters)
        if statement.parameters is None:
            return statement.sql, None
        with self.hook.client() as client, translated_errors(client):
            # The driver writes times in the server's time zone.
            client.connection.force_connect()
            return client.substitute_params(statement.sql, statement.parameters, client.connection.context), None

    @property
    def _digest(self) -> str:
        """Tells these statements from others of the same task: a DAG may change between two tries."""
        said = repr((self.statements, self.parameters, self.options["settings"], self.hook.options.database))
        # With a key, as all can read query ids, and might guess what parameters are.
        return hmac.new(self.hook.options.password.encode(), said.encode(errors="replace"), "sha256").hexdigest()[:12]

    def _of_earlier_try(self) -> RunningStatement | None:
        """Find the statement that an earlier try has left running; others of that task are ended first."""
        for _ in range(_END_TIMEOUT_SECONDS):
            others = []
            for query_id, address in self._left_running():
                digest, number, _ = query_id.removeprefix(self._prefix).split("_")
                running = RunningStatement(number=int(number), query_id=query_id, address=address)
                if digest == self._digest:
                    self.log.info("Waiting for query %s of an earlier try, which still runs.", query_id)
                    return running
                others.append(running)
            if not others:
                return None
            for other in others:
                self.log.info("Ending query %s: the task has other statements now.", other.query_id)
                self._query(other).end()
            time.sleep(1)
        raise TransientError(
            f"Query {others[0].query_id} of an earlier try still runs {_END_TIMEOUT_SECONDS} s after KILL QUERY: look "
            "at it in system.processes."
        )

    def _left_running(self) -> Iterator[tuple[str, Address | None]]:
        options, observer = self.hook.options, without_database(self.hook)
        sql = running_query(self._prefix, options.cluster).text
        addresses: Sequence[Address | None] = [None] if options.cluster else options.hosts
        for address in addresses:
            try:
                rows = observer.query(sql, address=address)
            except ClickHouseConnectionError:
                # A server that is down runs nothing; if all are, the statement finds no server either.
                continue
            yield from ((query_id, address) for (query_id,) in rows)


def _fits(statement: Bound) -> bool:
    """Check whether servers take a statement with its parameters as a form."""
    if not statement.is_server_side:
        return True
    fields = [statement.sql, *over_http(statement.parameters).values()]
    return all(len(field.encode(errors="replace")) <= _LARGEST_FIELD_BYTES for field in fields)
