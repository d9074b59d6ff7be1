"""Send statements to a connection's servers."""

from __future__ import annotations

import json
import os
import time
import uuid
import weakref
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.client.connection import Address, ConnectionOptions, check_settings
from airflow_provider_chs3.client.deadline import NEVER, Deadline
from airflow_provider_chs3.client.diagnosis import explain_server_error
from airflow_provider_chs3.client.one_door import DoorConnections
from airflow_provider_chs3.client.open_connections import OpenConnections, in_turn
from airflow_provider_chs3.core.sql.complete_answers import COMPLETE, NEWER, READABLE
from airflow_provider_chs3.core.sql.quoting import literal
from airflow_provider_chs3.core.target.topology import with_macros
from airflow_provider_chs3.exceptions import ClickHouseConnectionError, ClickHouseServerError, ConfigurationError

if TYPE_CHECKING:
    from airflow_provider_chs3.client.driver import Client

_ENVIRONMENT = {
    "dag_id": "AIRFLOW_CTX_DAG_ID",
    "task_id": "AIRFLOW_CTX_TASK_ID",
    "run_id": "AIRFLOW_CTX_DAG_RUN_ID",
    "try_number": "AIRFLOW_CTX_TRY_NUMBER",
}


class Session:
    """The statements of one connection.

    Every statement has a unique query id and carries dag, task, run, try and map index in `log_comment`, so that
    `system.query_log` shows its sender.

    Attributes:
        options: The fields of the connection.
        deadline: When to give up on its statements: when the task's time is over, if it has a limit.
        keeps_connections: Whether `query` leaves connections open for the next one. Default: False.
    """

    options: ConnectionOptions
    deadline: Deadline = NEVER
    keeps_connections = False

    @classmethod
    def of(cls, options: ConnectionOptions) -> Session:
        """Return a session of a connection already looked up; Airflow's hooks are made by its id."""
        session = Session()
        session.options = options
        return session

    @property
    def log_comment(self) -> str:
        """The sender of its statements, as JSON."""
        return process_log_comment()

    @cached_property
    def servers_seen(self) -> defaultdict[Address | None, set[str]]:
        """Names of the servers that answered at each address; None is the connection's own."""
        return defaultdict(set)

    def client(self, *, address: Address | None = None, send_receive_timeout_seconds: float | None = None) -> Client:
        """Return a client of clickhouse-driver; `with session.client() as client: …` closes it.

        Args:
            address: One node's address; None takes the connection's hosts, with failover.
            send_receive_timeout_seconds: Overrides the connection's.

        Raises:
            ConfigurationError: If a field of the connection is wrong.
            ClickHouseConnectionError: If the node is behind one door with others, and no connection leads to it.
        """
        from airflow_provider_chs3.client.driver import open_client

        if address and self.options.one_door:
            return self._connections.take(address)
        return open_client(self.options, address=address, send_receive_timeout_seconds=send_receive_timeout_seconds)

    def query(
        self,
        sql: str,
        *,
        query_id: str | None = None,
        settings: Mapping[str, Any] | None = None,
        address: Address | None = None,
        secrets: Sequence[str] = (),
        send_receive_timeout_seconds: float | None = None,
        under_profile: bool = False,
    ) -> list[tuple[Any, ...]]:
        """Run one statement over a new connection, once the server accepts one more of the user.

        Args:
            sql: The statement.
            query_id: Its id; None makes one.
            settings: Settings for this statement; they override the connection's. `log_comment`, and the settings that
                make answers complete under every profile (`core.sql.complete_answers`), are set unless given here.
            address: One node's address; None takes the connection's hosts, with failover.
            secrets: Texts in the statement to hide from all messages; the connection's password is added.
            send_receive_timeout_seconds: Overrides the connection's, and limits the whole time of the statement.
            under_profile: Whether to omit the settings that make answers complete, as the profile may forbid them;
                those that the driver needs stay. Default: False.

        Returns:
            The rows; none for a statement without a result.

        Raises:
            ClickHouseServerError: If the server answers with an error.
            ClickHouseConnectionError: If the server does not answer, or the connection breaks.
            ConfigurationError: If a field of the connection is wrong.
        """
        user_settings = check_settings(settings or {}, where="settings")
        settings = {**(READABLE if under_profile else COMPLETE), **NEWER, **user_settings}

        def run() -> list[tuple[Any, ...]]:
            with self._executed(sql, query_id, settings, address, secrets, send_receive_timeout_seconds) as (_, rows):
                return rows

        return in_turn(run, sql)

    def insert_select(
        self, sql: str, *, query_id: str, settings: Mapping[str, Any] | None = None, secrets: Sequence[str] = ()
    ) -> tuple[int, int, Mapping[str, int]]:
        """Run an `INSERT … SELECT`, as `query` does.

        Args:
            sql: The statement.
            query_id: Its id.
            settings: As in `query`.
            secrets: As in `query`.

        Returns:
            The rows and bytes read for it on all nodes, as reported in the server's progress; and the servers'
            counters: event → number.
        """
        settings = {**COMPLETE, **NEWER, **check_settings(settings or {}, where="settings")}

        def run() -> tuple[int, int, Mapping[str, int]]:
            with self._executed(sql, query_id, settings, None, secrets, None) as (client, _):
                progress = client.last_query.progress
                return int(progress.rows), int(progress.bytes), client.connection.counters

        return in_turn(run, sql)

    @contextmanager
    def _executed(
        self,
        sql: str,
        query_id: str | None,
        settings: Mapping[str, Any],
        address: Address | None,
        secrets: Sequence[str],
        send_receive_timeout_seconds: float | None,
    ) -> Iterator[tuple[Client, list[tuple[Any, ...]]]]:
        from airflow_provider_chs3.client.server_errors import translated_errors

        query_id = query_id or str(uuid.uuid4())
        if "log_comment" not in settings:
            settings = {**settings, "log_comment": self.log_comment}
        with (
            self._connected(address, send_receive_timeout_seconds) as client,
            translated_errors(client, query_id=query_id, secrets=secrets),
        ):
            client.connection.deadline = self.deadline.at
            if send_receive_timeout_seconds is not None:
                ends_in_seconds = self.deadline.within(send_receive_timeout_seconds)
                client.connection.deadline = time.monotonic() + ends_in_seconds
            try:
                rows = client.execute(sql, query_id=query_id, settings=settings)
            finally:
                if client.connection.server_info:
                    self.servers_seen[address].add(client.connection.server_info.display_name)
            yield client, rows if isinstance(rows, list) else []

    @contextmanager
    def _connected(self, address: Address | None, send_receive_timeout_seconds: float | None) -> Iterator[Client]:
        """Return a client for one statement."""
        # A time limit of its own ends with a connection of its own, unless it takes many to meet the node.
        if self.options.one_door or (self.keeps_connections and send_receive_timeout_seconds is None):
            with self._connections.borrowed(address) as client:
                yield client
            return
        with self.client(address=address, send_receive_timeout_seconds=send_receive_timeout_seconds) as client:
            yield client

    @cached_property
    def _connections(self) -> OpenConnections:
        made = (
            DoorConnections(self.options, self.log_comment) if self.options.one_door else OpenConnections(self.options)
        )
        weakref.finalize(self, made.close)
        return made

    def test_hosts(self) -> list[tuple[bool, str]]:
        """Return for each host whether it works, and its version and node, or the problem and how to fix it."""
        return [self._test_address(address) for address in self.options.hosts]

    def _test_address(self, address: Address) -> tuple[bool, str]:
        timeout_seconds = self.options.connect_timeout_seconds
        at_host = Session.of(replace(self.options, hosts=(address,)))
        try:
            ((version, node),) = at_host.query(
                "SELECT version(), hostName()", send_receive_timeout_seconds=timeout_seconds
            )
            unknown_cluster = at_host._unknown_cluster() if self.options.cluster else ""
        except ClickHouseServerError as error:
            return False, explain_server_error(error, self.options)
        except ClickHouseConnectionError as error:
            return False, f"{error.host}: {error.message}."
        except ConfigurationError as error:
            return False, str(error)
        host, port = address
        return not unknown_cluster, f"{host}:{port} is ClickHouse {version} on node {node!r}{unknown_cluster}."

    def _unknown_cluster(self) -> str:
        """Return the problem if the server does not know the connection's cluster; empty if it does."""
        known = [name for (name,) in self.query("SELECT DISTINCT cluster FROM system.clusters")]
        if expand_macros(self, self.options.cluster or "") in known:
            return ""
        way_out = f"change the extra 'cluster' to one of {', '.join(sorted(known))}" if known else "it has no clusters"
        return f", which knows no cluster {self.options.cluster!r}: {way_out}"

    def _addresses_of(self, client: Client) -> list[Address]:
        """Return the nodes that may be at the other end of a connection."""
        if not self.options.one_door:
            # The driver keeps the host that it is connected to in front.
            return [client.connection.hosts[0]]
        return addresses_in(self, self.options.cluster or "")


def expand_macros(session: Session, cluster: str) -> str:
    """Return the name of a cluster as the server reads it: with its macros in place of `{…}`."""
    return with_macros(cluster, dict(session.query("SELECT * FROM system.macros"))) if "{" in cluster else cluster


def addresses_in(session: Session, cluster: str) -> list[Address]:
    """Return the nodes of a cluster, as the server names them."""
    name = literal(expand_macros(session, cluster))
    return list(session.query(f"SELECT host_name, port FROM system.clusters WHERE cluster = {name}"))


def process_log_comment() -> str:
    """Return the task that started this process, as JSON; `{}` if none did."""
    known = {name: os.environ[variable] for name, variable in _ENVIRONMENT.items() if variable in os.environ}
    return json.dumps({name: int(value) if name == "try_number" else value for name, value in known.items()})
