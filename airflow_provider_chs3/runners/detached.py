"""Inserts that outlive the process that started them.

ClickHouse cancels a query of the native protocol when its client disconnects, but completes an INSERT SELECT that came
over HTTP. So the insert is sent over HTTP, and any process can watch it in `system.processes`. The client is httpx,
which Airflow itself uses for its API.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.sql.complete_answers import COMPLETE
from airflow_provider_chs3.core.values.error_codes import TOO_MANY_QUERIES
from airflow_provider_chs3.core.workflow.insert_progress import insert_outcome_query, progress_of, progress_query
from airflow_provider_chs3.core.workflow.operations import Insert, InsertStats
from airflow_provider_chs3.exceptions import ClickHouseConnectionError, ClickHouseServerError, InsertLostError
from airflow_provider_chs3.hooks.native.log_comment import client_name
from airflow_provider_chs3.hooks.native.secrets import scrub
from airflow_provider_chs3.runners.blocking import Runner
from airflow_provider_chs3.runners.insert import announce

if TYPE_CHECKING:
    import httpx

    from airflow_provider_chs3.hooks.connection import ConnectionOptions

#: Seconds that the process that starts an insert waits for its end: short inserts need no deferral.
_ATTACHED_SECONDS = 5.0

#: Seconds in which the end of an insert must show in `system.query_log`, which servers write every 7.5 s by default.
_LOG_TIMEOUT_SECONDS = 30

#: A client that disconnects must not cancel the insert: a server that sends progress in headers would notice it.
_DETACHED = {"send_progress_in_http_headers": "0", "wait_end_of_query": "0"}


class DetachingRunner(Runner):
    """A `Runner` that starts inserts so that they outlive the process.

    Args:
        wait: Called while an insert runs, until it has ended; in Airflow it defers the task, and does not return.
        **kwargs: As for `Runner`.
    """

    def __init__(self, *, wait: Callable[[Insert], None], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.wait = wait

    def insert(self, step: Insert) -> InsertStats:
        """Start an insert, or watch one that was started, and return its result.

        Raises:
            ClickHouseServerError: If the insert failed.
            ClickHouseConnectionError: If ClickHouse cannot be reached.
            InsertLostError: If no server knows how it ended.
        """
        if not step.is_started and (stats := self._start(step)):
            return stats
        while self._is_running(step):
            self.wait(step)
        return self._outcome(step)

    def _is_running(self, step: Insert) -> bool:
        try:
            rows = self.hook.query(progress_query([step.query_id], step.cluster).text)
        except ClickHouseServerError as error:
            if error.code != TOO_MANY_QUERIES:
                raise
            # The user runs as many queries there as allowed: the next check shows whether the insert is one of them.
            return True
        return progress_of(step.query_id, rows, step.cluster).is_running

    def _start(self, step: Insert) -> InsertStats | None:
        """Send the insert. Return its result, or None if it is still running."""
        announce(step, self.log)
        started = time.monotonic()
        response = self._post(step)
        if response is None:
            self.log.info("The insert continues without this process.")
            return None
        _raise_for_error(response, step, self.hook.options)
        seen = json.loads(response.headers.get("X-ClickHouse-Summary", "{}"))
        memory_bytes = int(seen.get("memory_usage", 0)) or None
        return InsertStats(time.monotonic() - started, int(seen.get("read_rows", 0)), memory_bytes)

    def _post(self, step: Insert) -> httpx.Response | None:
        import httpx

        from airflow_provider_chs3.hooks.native.server_errors import untrusted_certificate

        options = self.hook.options
        timeout = httpx.Timeout(
            options.send_receive_timeout_seconds, connect=options.connect_timeout_seconds, read=_ATTACHED_SECONDS
        )
        settings = {**options.settings, **COMPLETE, **step.settings, **self.log_comment, **_DETACHED}
        parameters = {"query_id": step.query_id, "database": options.database} | {
            name: str(value) for name, value in settings.items()
        }
        headers = {
            "User-Agent": client_name(),
            "X-ClickHouse-User": options.user,
            "X-ClickHouse-Key": options.password,
        }
        failures = []
        # Without proxies and .netrc of the environment: the native protocol does not use them either.
        with httpx.Client(verify=_tls(options), timeout=timeout, trust_env=False) as client:
            for url in _urls(options):
                try:
                    return client.post(url, params=parameters, headers=headers, content=step.sql.text.encode())
                except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                    if untrusted := untrusted_certificate(str(error), url):
                        raise untrusted from None
                    failures.append(f"{url}: {str(error) or type(error).__name__}")
                except httpx.TransportError:
                    # No answer yet, or a lost connection: from here on, ask the servers.
                    return None
        raise ClickHouseConnectionError(
            f"{'; '.join(failures)} (a deferrable load starts its insert over HTTP: give the servers' HTTP port in the "
            "connection's extra 'http_port', or deferrable=False)",
            _urls(options)[0].partition("://")[2].rstrip("/"),
            step.query_id,
        )

    def _outcome(self, step: Insert) -> InsertStats:
        for _ in range(_LOG_TIMEOUT_SECONDS):
            rows = self.hook.query(insert_outcome_query(step.query_id, step.cluster).text)
            if rows:
                return self._stats(step, rows[0])
            time.sleep(1)
        raise InsertLostError(
            f"Insert {step.query_id} no longer runs, and no node's system.query_log shows how it ended: a server "
            "may have been restarted. Nothing was published."
        )

    def _stats(self, step: Insert, row: tuple[Any, ...]) -> InsertStats:
        from airflow_provider_chs3.hooks.native.server_errors import server_error

        code, message, host, seconds, read_rows, peak_memory_bytes = row
        if code:
            secrets = (*step.sql.secrets, self.hook.options.password)
            raise server_error(code, message, address=host, query_id=step.query_id, secrets=secrets)
        return InsertStats(seconds, read_rows, peak_memory_bytes)


def _urls(options: ConnectionOptions) -> list[str]:
    scheme = "https" if options.secure else "http"
    hosts = dict.fromkeys(host for host, _ in options.hosts)
    return [f"{scheme}://{f'[{host}]' if ':' in host else host}:{options.http_port}/" for host in hosts]


def _tls(options: ConnectionOptions) -> ssl.SSLContext | bool:
    if not options.secure:
        return True
    context = ssl.create_default_context(cafile=options.ca_certs)
    if not options.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if options.certfile:
        context.load_cert_chain(options.certfile, options.keyfile)
    return context


def _raise_for_error(response: httpx.Response, step: Insert, options: ConnectionOptions) -> None:
    from airflow_provider_chs3.hooks.native.server_errors import server_error

    code = int(response.headers.get("X-ClickHouse-Exception-Code", 0))
    if response.status_code == 200 and not code:
        return
    secrets = (*step.sql.secrets, options.password)
    address = f"{response.url.host}:{response.url.port}"
    if code:
        raise server_error(code, response.text, address=address, query_id=step.query_id, secrets=secrets)
    raise ClickHouseConnectionError(
        scrub(f"HTTP status {response.status_code}: {response.text[:200]}", secrets), address, step.query_id
    )
