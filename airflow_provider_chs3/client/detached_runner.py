"""Queries, and inserts of loads, that outlive the process that sent them.

ClickHouse cancels a query of the native protocol when its client disconnects, but completes one that came over HTTP and
has no answer to send. So the query is sent over HTTP, and any process can watch it in `system.processes`. The client is
httpx, which Airflow itself uses for its API.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.client.connection import Address, ConnectionOptions, client_name
from airflow_provider_chs3.client.diagnosis import Endpoint, check_answer, explain_no_answer, hangs_up
from airflow_provider_chs3.client.parameters import half_character
from airflow_provider_chs3.client.runner import ProgressLog, Runner, announce
from airflow_provider_chs3.client.secrets import scrub
from airflow_provider_chs3.client.session import Session, addresses_in
from airflow_provider_chs3.core.model.error_codes import TOO_MANY_QUERIES, UNKNOWN_TABLE
from airflow_provider_chs3.core.sql.complete_answers import COMPLETE
from airflow_provider_chs3.core.sql.quoting import literal
from airflow_provider_chs3.core.steps.insert_progress import (
    InsertProgress,
    ProgressLines,
    outcome_query,
    progress_of,
    progress_query,
)
from airflow_provider_chs3.core.steps.operations import Insert, InsertStats
from airflow_provider_chs3.exceptions import (
    Chs3Error,
    ClickHouseConnectionError,
    ClickHouseServerError,
    ConfigurationError,
    InsertLostError,
)

if TYPE_CHECKING:
    import httpx

#: Seconds that the process that sends a query waits for its end: short ones need no deferral.
_ATTACHED_SECONDS = 5.0
#: Seconds between two looks of a process that waits for the end.
_POLL_SECONDS = 1.0

#: Seconds in which the end of a query must show in `system.query_log`, which servers write every 7.5 s by default.
_LOG_TIMEOUT_SECONDS = 30

#: Answers of what stands before ClickHouse to requests that it may have passed on; a retry may help.
_OF_GATEWAYS = (408, 429, *range(500, 600))
#: Its answers to requests that it never passes on.
_TOO_LARGE = (413, 414, 431)

_DETACHED = {
    # A client that disconnects must not cancel the query: a server that sends progress in headers would notice it.
    "send_progress_in_http_headers": "0",
    # Only its log shows how it ended, whatever the profile leaves out of the log.
    "log_queries": "1",
    "log_queries_probability": "1",
    "log_queries_min_query_duration_ms": "0",
    "log_queries_min_type": "QUERY_START",
}


def without_database(session: Session) -> Session:
    """Return a session of the same connection that also reaches nodes that lack its database."""
    return Session.of(replace(session.options, database="system"))


@dataclass(frozen=True)
class Sent:
    """A query whose first seconds have passed.

    Args:
        address: The server that took it, by its native port.
        stats: Its statistics if it has ended; None if it continues, or was never taken.
    """

    address: Address
    stats: InsertStats | None = None


@dataclass(frozen=True, kw_only=True)
class DetachedQuery:
    """A query that continues without the process that sends it."""

    session: Session
    query_id: str
    cluster: str | None
    address: Address | None = None
    secrets: Sequence[str] = field(default=(), repr=False)

    @cached_property
    def _observer(self) -> Session:
        return without_database(self.session)

    def send(self, sql: str, *, settings: Mapping[str, Any], parameters: Mapping[str, str] | None = None) -> Sent:
        """Send it, and wait a few seconds for its end.

        Raises:
            ClickHouseServerError: If it failed.
            ClickHouseConnectionError: If no server takes it.
            ConfigurationError: If something other than ClickHouse's HTTP interface answers there.
        """
        started = time.monotonic()
        address, response = self._post(sql, settings, parameters)
        if response is not None and any(name.startswith("x-clickhouse-") for name in response.headers):
            self._raise_for_error(response)
            seen = json.loads(response.headers.get("X-ClickHouse-Summary", "{}"))
            memory_bytes = int(seen.get("memory_usage", 0)) or None
            rows, size_bytes = (int(seen.get(name, 0)) for name in ("read_rows", "read_bytes"))
            return Sent(address, InsertStats(time.monotonic() - started, rows, memory_bytes, read_bytes=size_bytes))
        error = self._error_of_hang_up(address) if response is None else self._error_of_stranger(address, response)
        if error is None:
            return Sent(address)
        # A load balancer that gives up may have passed the query on, and logs are written seconds later.
        may_run = response is not None and response.status_code in _OF_GATEWAYS
        return Sent(address, self._stats_despite(error, address, may_run=may_run))

    def is_running(self) -> bool:
        """Check whether any node runs it, or a part of it."""
        return self._progress().is_running

    def watch(self, log: ProgressLog, interval_seconds: float, total_rows: int | None = None) -> None:
        """Wait in this process until it has ended."""
        lines, since, lines_written = ProgressLines(total_rows), time.monotonic(), 0
        while (progress := self._progress()).is_running:
            seconds = time.monotonic() - since
            if seconds >= lines_written * interval_seconds:
                log.info("%s", lines.line(progress, seconds=_ATTACHED_SECONDS + seconds))
                lines_written += 1
            self.session.deadline.sleep(_POLL_SECONDS)

    def _progress(self) -> InsertProgress:
        try:
            rows = self._observer.query(progress_query([self.query_id], self.cluster).text, address=self.address)
        except ClickHouseServerError as error:
            if error.code != TOO_MANY_QUERIES:
                raise
            # The user runs as many queries there as allowed: the next check shows whether this is one of them.
            return InsertProgress(is_running=True)
        return progress_of(self.query_id, rows, self.cluster)

    def outcome(self, *, is_patient: bool = True) -> InsertStats | None:
        """Return the statistics of a query that has ended; None if no node's log shows how.

        Raises:
            ClickHouseServerError: If it failed.
            ClickHouseConnectionError: If ClickHouse cannot be reached.
        """
        for left in reversed(range(_LOG_TIMEOUT_SECONDS if is_patient else 1)):
            try:
                if rows := self._logged():
                    return self._stats(rows[0])
            except ClickHouseConnectionError:
                # To give up now would have a retry run again what may have ended well.
                if not left:
                    raise
            time.sleep(1)
        return None

    def has_log(self) -> bool:
        """Check whether servers have the log that shows the outcome: a new one has it seconds after its first query."""
        for _ in range(_LOG_TIMEOUT_SECONDS):
            if self._logged() is not None:
                return True
            time.sleep(1)
        return False

    def _logged(self) -> list[tuple[Any, ...]] | None:
        """Return the row of the outcome, or no row; None if a server has no log."""
        try:
            return self._observer.query(outcome_query(self.query_id, self.cluster).text, address=self.address)
        except ClickHouseServerError as error:
            if error.code != UNKNOWN_TABLE:
                raise
            return None

    def end(self) -> None:
        """Kill it on every node.

        Raises:
            ClickHouseConnectionError: If no node can be asked to.
        """
        kill = f"KILL QUERY WHERE initial_query_id = {literal(self.query_id)} ASYNC"
        failures = []
        addresses = self._addresses()
        for address in addresses:
            try:
                self._observer.query(kill, address=address)
            except ClickHouseConnectionError as error:
                # A node that is down runs nothing.
                failures.append(error)
        if len(failures) == len(addresses):
            raise failures[0]

    def _addresses(self) -> list[Address | None]:
        if self.cluster is None:
            return [self.address] if self.address else list(self.session.options.hosts)
        nodes = addresses_in(self._observer, self.cluster)
        return list(dict.fromkeys(self.session.options.worker_address(*node) for node in nodes))

    def _post(
        self, sql: str, settings: Mapping[str, Any], parameters: Mapping[str, str] | None
    ) -> tuple[Address, httpx.Response | None]:
        import httpx

        from airflow_provider_chs3.client.server_errors import untrusted_certificate

        options = self.session.options
        timeout = httpx.Timeout(
            options.send_receive_timeout_seconds, connect=options.connect_timeout_seconds, read=_ATTACHED_SECONDS
        )
        request: dict[str, Any] = {
            "params": self._in_url(settings),
            "headers": _headers(options),
            **_body(sql, parameters),
        }
        if options.server_hostname:
            request["extensions"] = {"sni_hostname": options.server_hostname}
        failures = []
        # Without proxies and .netrc of the environment: the native protocol does not use them either.
        with httpx.Client(verify=_tls(options), timeout=timeout, trust_env=False) as client:
            for address, url in _urls(options).items():
                try:
                    return address, client.post(url, **request)
                except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                    if untrusted := untrusted_certificate(str(error), url):
                        raise untrusted from None
                    reason = str(error) or type(error).__name__
                    failures.append(f"{url}: {explain_no_answer(_endpoint(options, address), reason)}")
                except (httpx.ReadError, httpx.RemoteProtocolError) as error:
                    # A lost connection, unless no HTTP is spoken there.
                    explain_no_answer(_endpoint(options, address), str(error))
                    return address, None
                except httpx.TransportError:
                    # No answer yet: from here on, ask the servers.
                    return address, None
        raise ClickHouseConnectionError(
            f"{'; '.join(failures)} (a deferrable or durable task sends its statements over HTTP: set the servers' "
            "HTTP port in the connection's extra 'http_port', or leave deferrable and durable out)",
            next(iter(_urls(options).values())).partition("://")[2].rstrip("/"),
            self.query_id,
        )

    def _in_url(self, settings: Mapping[str, Any]) -> dict[str, str]:
        # Proxies may log the URL.
        options = self.session.options
        sent = {"wait_end_of_query": "0", **options.settings, **settings, **_DETACHED}
        return {"query_id": self.query_id, "database": options.database} | {
            name: str(value) for name, value in sent.items()
        }

    def _raise_for_error(self, response: httpx.Response) -> None:
        from airflow_provider_chs3.client.server_errors import server_error

        code = int(response.headers.get("X-ClickHouse-Exception-Code", 0))
        address = f"{response.url.host}:{response.url.port}"
        if code:
            raise server_error(code, response.text, address=address, query_id=self.query_id, secrets=self._all_secrets)
        if response.status_code != 200:
            raise self._error_of_status(address, response)

    def _error_of_status(self, address: str, response: httpx.Response) -> ClickHouseConnectionError:
        text = scrub(f"HTTP status {response.status_code}: {response.text[:200]}", self._all_secrets)
        return ClickHouseConnectionError(text, address, self.query_id)

    def _error_of_hang_up(self, address: Address) -> Chs3Error | None:
        endpoint = _endpoint(self.session.options, address)
        if not hangs_up(endpoint):
            return None
        return ClickHouseConnectionError(
            f"the HTTP port accepts connections and ends each without an answer, and no node runs the query: set the "
            f"servers' HTTP port in the connection's extra 'http_port', which is {endpoint.address[1]}",
            str(endpoint),
            self.query_id,
        )

    def _error_of_stranger(self, address: Address, response: httpx.Response) -> Chs3Error:
        """Return the error for an answer that is not ClickHouse's."""
        endpoint, status = _endpoint(self.session.options, address), response.status_code
        if status in _TOO_LARGE:
            size, url = int(response.request.headers["Content-Length"]), len(response.request.url.raw_path)
            return ConfigurationError(
                f"{endpoint} takes no request of {size:,} bytes with a URL of {url:,} (HTTP status {status}): raise "
                "the limits of the load balancer (nginx: client_max_body_size and large_client_header_buffers), or "
                "leave deferrable and durable out."
            )
        if status not in _OF_GATEWAYS:
            try:
                check_answer(endpoint, b"HTTP/ " + response.content)
            except ConfigurationError as error:
                return ConfigurationError(f"{error} It answers with HTTP status {status}.")
        return self._error_of_status(str(endpoint), response)

    def _stats_despite(self, error: Chs3Error, address: Address, *, may_run: bool) -> InsertStats | None:
        """Return the statistics if the query has ended, None if it runs, whatever was answered; else raise that."""
        known = self if self.cluster else replace(self, address=address)
        if known.is_running():
            return None
        if stats := known.outcome(is_patient=may_run):
            return stats
        raise error

    @property
    def _all_secrets(self) -> Sequence[str]:
        return (*self.secrets, self.session.options.password)

    def _stats(self, row: tuple[Any, ...]) -> InsertStats:
        from airflow_provider_chs3.client.server_errors import server_error

        code, message, host, seconds, read_rows, read_bytes, peak_memory_bytes, times = row
        if times > 1:
            raise ConfigurationError(
                f"Query {self.query_id} ran more than once: the load balancer of the HTTP port repeats requests that "
                "are not answered in time. Switch that off, or leave deferrable and durable out."
            )
        if code:
            raise server_error(code, message, address=host, query_id=self.query_id, secrets=self._all_secrets)
        return InsertStats(seconds, read_rows, peak_memory_bytes, read_bytes=read_bytes)


def _headers(options: ConnectionOptions) -> dict[str, str]:
    return {
        "User-Agent": client_name(),
        "X-ClickHouse-User": options.user,
        "X-ClickHouse-Key": options.password,
    }


def _body(sql: str, parameters: Mapping[str, str] | None) -> dict[str, Any]:
    try:
        if not parameters:
            return {"content": sql.encode()}
        # A form, as parameters may be secrets, and URLs are logged. Its fields have no name of a file: they are none.
        fields = {"query": sql, **{f"param_{name}": value for name, value in parameters.items()}}
        return {"files": {name: (None, value.encode()) for name, value in fields.items()}}
    except UnicodeEncodeError as error:
        raise half_character(error) from None


def _urls(options: ConnectionOptions) -> dict[Address, str]:
    scheme = "https" if options.secure else "http"
    first = {host: (host, port) for host, port in reversed(options.hosts)}
    hosts = dict.fromkeys(host for host, _ in options.hosts)
    return {first[host]: f"{scheme}://{f'[{host}]' if ':' in host else host}:{options.http_port}/" for host in hosts}


def _endpoint(options: ConnectionOptions, address: Address) -> Endpoint:
    return Endpoint(
        address=(address[0], options.http_port),
        is_secure=options.secure,
        is_http=True,
        timeout_seconds=options.connect_timeout_seconds,
    )


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


class DetachingRunner(Runner):
    """A `Runner` that starts inserts so that they outlive the process."""

    def __init__(self, *, wait: Callable[[Insert], None] | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.wait = wait

    def insert(self, step: Insert) -> InsertStats:
        """Start an insert, or watch one that was started, and return its result."""
        query = DetachedQuery(
            session=self.session, query_id=step.query_id, cluster=step.cluster, secrets=tuple(step.sql.secrets)
        )
        if not step.is_started:
            announce(step, self.log)
            sent = query.send(step.sql.text, settings={**COMPLETE, **step.settings, **self.log_comment})
            if sent.stats:
                return sent.stats
            self.log.info("The insert continues without this process.")
        if self.wait is None:
            query.watch(self.log, self.progress_interval_seconds, step.total_rows)
        while self.wait and query.is_running():
            self.wait(step)
        if stats := query.outcome():
            return stats
        raise InsertLostError(
            f"Insert {step.query_id} no longer runs, and no node's system.query_log shows how it ended: a server "
            "was restarted, or the connection's 'http_port' is not ClickHouse's HTTP port. The period was not "
            "published."
        )
