"""Perform the steps of a workflow one by one, with blocking I/O; an insert has a thread, and its progress is logged."""

from __future__ import annotations

import re
import textwrap
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import cached_property, singledispatchmethod
from itertools import islice
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from airflow_provider_chs3.client.connection import Address
from airflow_provider_chs3.client.diagnosis import check_one_server
from airflow_provider_chs3.client.listing import Listing, SnapshotListing, WritableListing
from airflow_provider_chs3.client.session import Session
from airflow_provider_chs3.core.load.row_counts import source_read_of
from airflow_provider_chs3.core.model.models import Node, ObjectPage
from airflow_provider_chs3.core.model.table_snapshot import TableSnapshot
from airflow_provider_chs3.core.sql.complete_answers import OF_FEW_ROWS
from airflow_provider_chs3.core.steps import operations
from airflow_provider_chs3.core.steps.driving import drive
from airflow_provider_chs3.core.steps.insert_progress import InsertProgress, ProgressLines, progress_of, progress_query
from airflow_provider_chs3.core.target.topology import ONLY_NODE
from airflow_provider_chs3.core.watch.optimize_request import ENDED, GOES_ON, StartOnNodes
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseConnectionError, ClickHouseServerError

#: The list of objects can take megabytes; `system.query_log` has all of it.
_SHOWN_SQL_CHARACTERS = 2_000

#: The first check comes early, so that short inserts also show their memory.
_FIRST_CHECK_SECONDS = 0.5


class ProgressLog(Protocol):
    """The log for the user: a standard logger, or Airflow's."""

    def info(self, message: str, /, *args: Any) -> None:
        """Log progress."""

    def debug(self, message: str, /, *args: Any) -> None:
        """Log details."""

    def warning(self, message: str, /, *args: Any) -> None:
        """Log a problem that may be temporary."""


def announce(step: operations.Insert, log: ProgressLog) -> None:
    """Log which insert is about to be sent, with its query id."""
    log.info("%s: query id %s", step.name, step.query_id)
    log.info("%s", shown_sql(step))


def shown_sql(step: operations.Insert) -> str:
    """Return the statement for the log: without secrets, and shortened."""
    return textwrap.shorten(step.sql.masked, _SHOWN_SQL_CHARACTERS, placeholder=" …")


def _check_progress(step: operations.Insert, session: Session) -> InsertProgress:
    try:
        rows = session.query(progress_query([step.query_id], step.cluster).text)
    except Chs3Error:
        # A failed check says nothing about the insert, which reports its own end.
        return InsertProgress()
    return progress_of(step.query_id, rows, step.cluster)


T = TypeVar("T")

#: Statements to nodes that are under way at the same time: of a few steps at once, on tens of nodes.
_PARALLEL_STATEMENTS = 128
#: Bytes of an object that one request asks for, where several read it at once; a worker holds as many of each.
_RANGE_BYTES = 4 * 1024**2
#: Seconds between two looks at the clock, if nodes take long to answer.
_LONGEST_WAIT_SECONDS = 60.0
#: Servers reject a wrong statement at once; one that takes longer than this to start continues in the background.
_START_SECONDS = 2.0


def _read_side_by_side(listing: WritableListing, step: operations.ReadBytes) -> Iterator[bytes]:
    """Yield bytes in their order, while the next ones are read: one connection has a part of the storage's speed."""
    end = step.start + step.length
    starts = iter(range(step.start, end, _RANGE_BYTES))

    def read(start: int) -> bytes:
        return b"".join(listing.read(step.bucket, step.key, start, min(_RANGE_BYTES, end - start)))

    with ThreadPoolExecutor(max_workers=step.connections) as pool:
        ranges = deque(pool.submit(read, start) for start in islice(starts, step.connections))
        while ranges:
            yield ranges.popleft().result()
            ranges.extend(pool.submit(read, start) for start in islice(starts, 1))


def _timed(ask: Callable[[], Any]) -> operations.TimedAnswer:
    """Return the answer or the error, with its duration."""
    began_at, began = time.time(), time.monotonic()
    answer: Any
    try:
        answer = ask()
    except Chs3Error as error:
        answer = error
    return operations.TimedAnswer(answer, began_at, time.monotonic() - began)


#: As Linux and macOS say that a name is unknown, or that no packet comes back. A node that refuses is there, and down.
_MAY_BE_ADDRESS = re.compile("not known|name resolution|No address|No route|unreachable|timed out")


class Runner:
    """A runner that performs steps with clickhouse-driver and boto3.

    Attributes:
        on_insert: Called before each, in the thread that sends it.
    """

    def __init__(
        self,
        *,
        session: Session,
        listing: Listing | None = None,
        log: ProgressLog,
        progress_interval_seconds: float = 10,
        in_turns: bool = False,
        on_insert: Callable[[operations.Insert], None] | None = None,
    ) -> None:
        self.session = session
        self.listing = listing
        self.log = log
        self.progress_interval_seconds = progress_interval_seconds
        self.in_turns = in_turns
        self.on_insert = on_insert
        # Read here, because Airflow's context is not available in the threads that query nodes.
        self.log_comment = {"log_comment": session.log_comment}

    def run(self, steps: operations.Steps[T]) -> T:
        """Run a workflow to its end."""
        return drive(steps, self.perform)

    def perform(self, step: operations.AnyStep) -> Any:
        """Perform one step, and return its result."""
        self.session.deadline.check()
        try:
            return self._perform(step)
        except Chs3Error:
            self.session.deadline.check()
            raise

    @singledispatchmethod
    def _perform(self, step: operations.AnyStep) -> Any:
        raise NotImplementedError(type(step).__name__)

    @_perform.register
    def _(self, step: operations.Log) -> None:
        self.log.info("%s", step)

    @_perform.register
    def _(self, step: operations.Sleep) -> None:
        self.session.deadline.sleep(step.seconds)

    @_perform.register
    def _(self, step: operations.ReadClock) -> float:
        return time.monotonic()

    @_perform.register
    def _(self, step: operations.ListObjects) -> Any:
        assert self.listing is not None  # the source lists through ClickHouse otherwise
        self.log.info("%s", step.name)
        pages = self.listing.pages(step.bucket, step.prefix, None if self.in_turns else step.narrower)
        return self._counted(pages, step.name)

    def _counted(self, pages: Iterator[ObjectPage], name: str) -> Iterator[ObjectPage]:
        count = 0
        for page in pages:
            count += len(page.paths)
            self.log.debug("%s", operations.Log(name=name, done=count, unit="listed"))
            yield page

    @_perform.register
    def _(self, step: operations.ReadBytes) -> Iterator[bytes]:
        assert isinstance(self.listing, WritableListing)  # no other source has objects for the worker
        for piece in _read_side_by_side(self.listing, step):
            self.session.deadline.check()
            yield piece

    @_perform.register
    def _(self, step: operations.ListSnapshot) -> TableSnapshot:
        assert isinstance(self.listing, SnapshotListing)  # only its source asks for snapshots
        self.log.info("%s", step.name)
        return self.listing.snapshot(step.snapshot, step.periods)

    @_perform.register
    def _(self, step: operations.Query) -> list[operations.Row]:
        self.log.debug("%s: %s", step.name, step.sql.masked)
        settings = {**OF_FEW_ROWS, **step.settings, **self.log_comment}
        return self.session.query(
            step.sql.text,
            settings=settings,
            secrets=step.sql.secrets,
            send_receive_timeout_seconds=step.answer_seconds,
        )

    @_perform.register
    def _(self, step: operations.QueryNodes) -> dict[Node, list[operations.Row]]:
        self.log.debug("%s on %s", step.name, ", ".join(map(str, step.sql)))
        return self._of_each(step.sql, lambda node: self._ask_node(node, step))

    @_perform.register
    def _(self, step: operations.TryQueryNodes) -> dict[Node, list[operations.Row] | Chs3Error]:
        timed = self.perform(operations.TimeQueryNodes(name=step.name, sql=step.sql))
        return {node: timed_answer.answer for node, timed_answer in timed.items()}

    @_perform.register
    def _(self, step: operations.TimeQueryNodes) -> dict[Node, operations.TimedAnswer]:
        ask = operations.QueryNodes(name=step.name, sql=step.sql, settings=step.settings)
        self.log.debug("%s on %s", step.name, ", ".join(map(str, step.sql)))
        return self._of_each(step.sql, lambda node: _timed(lambda: self._ask_node(node, ask)))

    @_perform.register
    def _(self, step: operations.Gather) -> list[Any]:
        self.log.debug("%s", step.name)
        if self.in_turns or not step.workflows:
            return [self.run(workflow) for workflow in step.workflows]
        with ThreadPoolExecutor(max_workers=len(step.workflows)) as pool:
            # In the context of this thread, which loggers use.
            ended = [pool.submit(copy_context().run, self.run, workflow) for workflow in step.workflows]
        return [future.result() for future in ended]

    @_perform.register
    def _(self, step: StartOnNodes) -> dict[Node, str | Chs3Error]:
        return self._of_each(step.sql, lambda node: self._start_on(node, step))

    def _start_on(self, node: Node, step: StartOnNodes) -> str | Chs3Error:
        try:
            self.session.query(
                step.sql[node].text,
                query_id=step.query_id[node],
                settings={**step.settings, **self.log_comment},
                address=self._address_of(node),
                send_receive_timeout_seconds=_START_SECONDS,
            )
        except ClickHouseConnectionError:
            # No answer yet, a lost connection, or never sent: the next query of the node shows which.
            return GOES_ON
        except ClickHouseServerError as error:
            return error
        return ENDED

    @_perform.register
    def _(self, step: operations.CheckHosts) -> list[tuple[bool, str]]:
        return self.session.test_hosts()

    def _of_each(self, nodes: Iterable[Node], ask: Callable[[Node], T]) -> dict[Node, T]:
        if self.in_turns:
            return {node: ask(node) for node in nodes}
        asked = {node: self._threads.submit(ask, node) for node in nodes}
        # All have ended, so no node is still working when the workflow gets an error.
        while wait(asked.values(), timeout=self.session.deadline.within(_LONGEST_WAIT_SECONDS)).not_done:
            self.session.deadline.check()
        return {node: answer.result() for node, answer in asked.items()}

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        """Kept for all steps: to start a thread for each node takes a worker longer than to ask it something."""
        return ThreadPoolExecutor(max_workers=_PARALLEL_STATEMENTS)

    def _address_of(self, node: Node) -> Address | None:
        return None if node == ONLY_NODE else self.session.options.worker_address(node.host, node.port)

    def _ask_node(self, node: Node, step: operations.QueryNodes) -> list[operations.Row]:
        # Several statements of an attempt do the same, and a server still lists one for some milliseconds after it has
        # answered: it would refuse the next of the same id (216).
        query_id = f"{step.query_id}_{node.shard_num}_{node.replica_num}_{uuid4().hex[:8]}" if step.query_id else None
        try:
            with self._at_one_server(node):
                return self.session.query(
                    step.sql[node].text,
                    query_id=query_id,
                    settings={**({} if step.is_under_profile else OF_FEW_ROWS), **step.settings, **self.log_comment},
                    address=self._address_of(node),
                    secrets=step.sql[node].secrets,
                    under_profile=step.is_under_profile,
                )
        except ClickHouseConnectionError as error:
            where = (error.host, error.query_id)
            if _MAY_BE_ADDRESS.search(error.message) and not self.session.options.one_door:
                raise ClickHouseConnectionError(
                    f"{error.message} (step: {step.name}; {node} is how the cluster names this node: if workers reach "
                    "it under another address, set that in the connection's node_addresses; if its host is a load "
                    "balancer in front of all nodes, set its extra one_door.)",
                    *where,
                ) from error
            raise ClickHouseConnectionError(
                f"{error.message} (step: {step.name}; check that {node} is up.)", *where
            ) from error

    @contextmanager
    def _at_one_server(self, node: Node) -> Iterator[None]:
        """Check, however a statement to a node ended, that its address leads to one server: else that is the cause."""
        try:
            yield
        finally:
            names = self.session.servers_seen[self._address_of(node)]
            check_one_server(names, node="" if node == ONLY_NODE else str(node))

    @_perform.register
    def _(self, step: operations.Insert) -> operations.InsertStats:
        if self.on_insert:
            self.on_insert(step)
        if step.cluster:
            return self.insert(step)
        with self._at_one_server(ONLY_NODE):
            return self.insert(step)

    def insert(self, step: operations.Insert) -> operations.InsertStats:
        """Run an insert to its end; it is cancelled if this process dies."""
        announce(step, self.log)
        session, settings = self.session, {**step.settings, **self.log_comment}
        ended: Future[tuple[int, int, Mapping[str, int]]] = Future()

        def insert() -> None:
            try:
                ended.set_result(
                    session.insert_select(
                        step.sql.text, query_id=step.query_id, settings=settings, secrets=step.sql.secrets
                    )
                )
            except Exception as error:
                ended.set_exception(error)

        started = time.monotonic()
        # A daemon: a killed task must not hang on a query that its on_kill is about to end.
        threading.Thread(target=insert, daemon=True).start()
        peak_memory_bytes: int | None = None
        lines = ProgressLines(step.total_rows)
        wait_seconds = min(_FIRST_CHECK_SECONDS, self.progress_interval_seconds)
        while wait([ended], session.deadline.within(wait_seconds)).not_done:
            session.deadline.check()
            wait_seconds = self.progress_interval_seconds
            progress = _check_progress(step, session)
            if nodes := progress.nodes:
                peak_memory_bytes = max(peak_memory_bytes or 0, *(node.peak_memory_bytes for node in nodes))
                self.log.info("%s", lines.line(progress, seconds=time.monotonic() - started))
        read_rows, read_bytes, counters = ended.result()
        seconds, source = time.monotonic() - started, source_read_of(counters, step.bytes_event)
        return operations.InsertStats(seconds, read_rows, peak_memory_bytes, source, read_bytes)
