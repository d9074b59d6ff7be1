"""The operations of a workflow: frozen values, which a runner performs one by one.

A workflow is a generator that yields these and is sent their answers; an error is thrown into it. It is written once;
runners only execute it. Each operation has a name, which logs show and which the tests that break a load at every step
use.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from airflow_provider_chs3.core.model.models import Node, ObjectPage, SettingValues
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.table_snapshot import TableSnapshot
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.exceptions import Chs3Error

Row: TypeAlias = tuple[Any, ...]

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class Step(Generic[R]):
    """One operation. `answer = yield from step` has the runner perform it, and has the answer's type."""

    name: str

    def __iter__(self) -> Generator[AnyStep, Any, R]:
        answer: R = yield self
        return answer


AnyStep: TypeAlias = Step[Any]


@dataclass(frozen=True, kw_only=True)
class ListObjects(Step[Iterator[ObjectPage]]):
    """List a bucket from the worker. Returns an iterator of pages."""

    bucket: str
    prefix: str
    narrower: Callable[[str], Sequence[str]] | None = None


@dataclass(frozen=True, kw_only=True)
class ReadBytes(Step[Iterator[bytes]]):
    """Read a part of an object on the worker. Yields the bytes as they arrive; the caller may stop early."""

    bucket: str
    key: str
    start: int
    length: int
    connections: int


@dataclass(frozen=True, kw_only=True)
class ListSnapshot(Step[TableSnapshot]):
    """List the data files of a snapshot, by default the current one; those of the periods are inspected closely."""

    snapshot: str | None
    periods: frozenset[Period]


@dataclass(frozen=True, kw_only=True)
class Query(Step[list[Row]]):
    """Run a statement on the node that the connection leads to. Returns a list of rows."""

    sql: Sql
    settings: SettingValues = field(default_factory=dict)
    answer_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class QueryNodes(Step[dict[Node, list[Row]]]):
    """Run one statement on each of several nodes, all at once. Returns a list of rows for each node."""

    sql: Mapping[Node, Sql]
    settings: SettingValues = field(default_factory=dict)
    query_id: str | None = None
    is_under_profile: bool = False


@dataclass(frozen=True, kw_only=True)
class TryQueryNodes(Step[dict[Node, list[Row] | Chs3Error]]):
    """Run one statement on each of several nodes, all at once. Returns rows, or the error, for each node."""

    sql: Mapping[Node, Sql]


@dataclass(frozen=True, slots=True)
class TimedAnswer:
    """An answer and its duration."""

    answer: Any
    began_at: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class TimeQueryNodes(Step[dict[Node, TimedAnswer]]):
    """Run one statement on each of several nodes, all at once. Returns rows or the error of each as a `TimedAnswer`."""

    sql: Mapping[Node, Sql]
    settings: SettingValues = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CheckHosts(Step[list[tuple[bool, str]]]):
    """Try every host of the connection. Returns whether it works, and a sentence, for each."""


@dataclass(frozen=True, kw_only=True)
class Gather(Step[list[Any]]):
    """Run independent workflows in parallel. Returns the result of each, in their order.

    All of them finish, even if others fail; then the error of the first that failed, in their order, is thrown. Writes
    are in different ones only if no crash between them matters, in whichever order: all others belong to the workflow
    that yields this.
    """

    workflows: tuple[Steps[Any], ...]


@dataclass(frozen=True, slots=True)
class SourceRead:
    """The amount read from the storage on all nodes, by the servers' own counters."""

    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class InsertStats:
    """Statistics of an insert."""

    seconds: float
    read_rows: int
    peak_memory_bytes: int | None
    source: SourceRead | None = None
    read_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Insert(Step[InsertStats]):
    """Run the insert and report its progress. Returns `InsertStats`."""

    sql: Sql
    settings: SettingValues
    query_id: str
    attempt: str
    cluster: str | None
    total_rows: int | None
    paths: tuple[str, ...]
    bytes_event: str | None
    is_started: bool = False


@dataclass(frozen=True, kw_only=True)
class Sleep(Step[None]):
    """Wait."""

    seconds: float


@dataclass(frozen=True, kw_only=True)
class ReadClock(Step[float]):
    """Read the clock. Returns seconds since some moment, for measuring durations only."""


@dataclass(frozen=True, kw_only=True)
class Log(Step[None]):
    """Write `name` to the log; with a unit, also how much of long work is done, and how much it is in all if known."""

    done: int = 0
    total: int | None = None
    unit: str = ""

    def __str__(self) -> str:
        return self.name


Steps: TypeAlias = Generator[AnyStep, Any, T]
