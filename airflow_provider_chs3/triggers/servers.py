"""Access of triggers to ClickHouse: from a few threads, never on the event loop, over few connections.

All triggers of a triggerer share one event loop. Each Airflow connection that they use is looked up once, without
blocking that loop, and again after an error, so that a changed connection needs no restart of the triggerer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, TypeVar

from airflow.triggers.base import BaseTrigger

from airflow_provider_chs3.client.connection import ConnectionOptions
from airflow_provider_chs3.exceptions import TransientError
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook, PooledClickHouseHook

_T = TypeVar("_T")

#: Threads per process in which triggers query ClickHouse; a step on several nodes uses one more for each.
_THREADS = 8

#: Threads that one Airflow connection may use at a time: servers that hang must not block queries to others.
_THREADS_PER_CONNECTION = 2

#: System tables answer at once; a node that takes longer for a packet hangs.
_SEND_RECEIVE_TIMEOUT_SECONDS = 30.0


@dataclass(kw_only=True, eq=False, repr=False)
class ServerTrigger(BaseTrigger):
    """The base of this package's triggers, whose fields are the arguments that Airflow keeps.

    Args:
        clickhouse_conn_id: Connection of type `chs3`.
    """

    clickhouse_conn_id: str

    def __post_init__(self) -> None:
        super().__init__()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the path of the class, and its arguments: names and numbers."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return f"{type(self).__module__}.{type(self).__qualname__}", values


class Server:
    """An Airflow connection, shared by the triggers of one event loop. Made by `server()`.

    Args:
        conn_id: Its id.
    """

    def __init__(self, conn_id: str) -> None:
        self.conn_id = conn_id
        self.users = 0
        self._limit = asyncio.Semaphore(_THREADS_PER_CONNECTION)
        self._looking_up = asyncio.Lock()
        self._hook: PooledClickHouseHook | None = None

    async def run(self, function: Callable[[ClickHouseHook], _T]) -> _T:
        """Run a blocking function in a thread.

        Args:
            function: Takes a hook that several threads may use. Its errors are raised here.

        Returns:
            The function's result.

        Raises:
            AirflowNotFoundException: If there is no such connection.
            ConfigurationError: If a field of the connection is wrong.
            TransientError: If Airflow could not provide the connection.
        """
        async with self._limit:
            hook = await self._look_up()
            try:
                return await asyncio.get_running_loop().run_in_executor(_threads(), function, hook)
            except Exception:
                if self._hook is hook:
                    self.close()
                raise

    def close(self) -> None:
        """Close the connections to ClickHouse, so that the Airflow connection is looked up again."""
        hook, self._hook = self._hook, None
        if hook is not None:
            hook.close()

    async def _look_up(self) -> PooledClickHouseHook:
        from asgiref.sync import sync_to_async

        async with self._looking_up:
            if self._hook is None:
                # In a thread: the look-up and the masking of secrets are calls to Airflow that block. Before 3.3.2, its
                # look-up for event loops masks with such a call too.
                options = await sync_to_async(_options)(self.conn_id)
                self._hook = PooledClickHouseHook.with_options(options, clickhouse_conn_id=self.conn_id)
            return self._hook


def _options(conn_id: str) -> ConnectionOptions:
    from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

    try:
        connection = BaseHook.get_connection(conn_id)
    except (AirflowNotFoundException, ImportError):
        # Looking it up again would fail the same way.
        raise
    except Exception as error:
        raise TransientError(f"Airflow did not return the connection {conn_id!r}: {error}") from error
    options = ConnectionOptions.from_airflow(connection)
    timeout_seconds = min(options.send_receive_timeout_seconds, _SEND_RECEIVE_TIMEOUT_SECONDS)
    return replace(options, send_receive_timeout_seconds=timeout_seconds)


_servers: dict[tuple[asyncio.AbstractEventLoop, str], Server] = {}


@contextmanager
def server(conn_id: str) -> Iterator[Server]:
    """Share the connection with its other users on this event loop; the last one to leave closes it.

    Args:
        conn_id: Id of an Airflow connection of type `chs3`.

    Yields:
        The connection.
    """
    key = (asyncio.get_running_loop(), conn_id)
    shared = _servers.setdefault(key, Server(conn_id))
    shared.users += 1
    try:
        yield shared
    finally:
        shared.users -= 1
        if not shared.users:
            del _servers[key]
            shared.close()


async def run_blocking(conn_id: str, function: Callable[[ClickHouseHook], _T]) -> _T:
    """Run a blocking function once, such as ending a query in a trigger's `on_kill`.

    Args:
        conn_id: Id of an Airflow connection of type `chs3`.
        function: Takes a hook for the connection; its errors are raised here.

    Returns:
        The function's result.
    """
    with server(conn_id) as shared:
        return await shared.run(function)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="chs3_poll")
