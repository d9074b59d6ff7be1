"""What a workflow asks of the world: frozen operations, which a runner carries out one by one.

A workflow is a generator that yields these and is sent what came of them; an error is thrown into it. It is written
once; runners only execute it. Each operation has a name, which is what logs show and what tests that break a load at
every step go by.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.values.models import Node, S3Object, SettingValues
from airflow_provider_chs3.exceptions import Chs3Error

Row: TypeAlias = tuple[Any, ...]

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class Step(Generic[R]):
    """One operation. `answer = yield from step` asks the runner for it, and has the answer's type.

    Args:
        name: What it does, in words.
    """

    name: str

    def __iter__(self) -> Generator[AnyStep, Any, R]:
        """Ask the runner to carry it out.

        Returns:
            What came of it.
        """
        answer: R = yield self
        return answer


AnyStep: TypeAlias = Step[Any]


@dataclass(frozen=True, kw_only=True)
class ListObjects(Step[Iterator[S3Object]]):
    """List a bucket from the worker. Gives an iterator of `S3Object`.

    Args:
        bucket: The bucket.
        prefix: Beginning of the keys.
        narrower: Longer prefixes that a prefix may be cut into, of which no key has two, and without which no key is
            wanted; none where it cannot be cut. Objects of different pieces may then come in any order, those of one
            in the storage's. None: the prefix is listed as it is.
    """

    bucket: str
    prefix: str
    narrower: Callable[[str], Sequence[str]] | None = None


@dataclass(frozen=True, kw_only=True)
class Query(Step[list[Row]]):
    """Run a statement on the node that the connection leads to. Gives a list of rows.

    Args:
        sql: The statement.
        settings: Settings to send with it.
    """

    sql: Sql
    settings: SettingValues = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class QueryNodes(Step[dict[Node, list[Row]]]):
    """Run one statement on each of several nodes, all at once. Gives a list of rows for each node.

    Args:
        sql: The statement for each node.
        settings: Settings to send with each.
        query_id: Beginning of the statements' query ids; None lets the runner choose.
        is_under_profile: Whether the statements have none of the settings that make an answer complete: those may be
            what the profile forbids.
    """

    sql: Mapping[Node, Sql]
    settings: SettingValues = field(default_factory=dict)
    query_id: str | None = None
    is_under_profile: bool = False


@dataclass(frozen=True, kw_only=True)
class TryQueryNodes(Step[dict[Node, list[Row] | Chs3Error]]):
    """Run one statement on each of several nodes, all at once. Gives rows, or the error, for each node.

    Args:
        sql: The statement for each node.
    """

    sql: Mapping[Node, Sql]


@dataclass(frozen=True, slots=True)
class TimedAnswer:
    """What came of something, and how long it took.

    Args:
        answer: What it gave, or the error.
        began_at: When it began, as Unix time by the worker's clock.
        seconds: How long it took.
    """

    answer: Any
    began_at: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class TimeQueryNodes(Step[dict[Node, TimedAnswer]]):
    """Run one statement on each of several nodes, all at once, and time each.

    Gives for each node `TimedAnswer` rows, or the error.

    Args:
        sql: The statement for each node.
        settings: Settings to send with each.
    """

    sql: Mapping[Node, Sql]
    settings: SettingValues = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TimeListing(Step[TimedAnswer]):
    """List the first page of a bucket from the worker. Gives `TimedAnswer` tuple of `S3Object`, or the error.

    Args:
        bucket: The bucket.
        prefix: Beginning of the keys.
    """

    bucket: str
    prefix: str


@dataclass(frozen=True, kw_only=True)
class CheckHosts(Step[list[tuple[bool, str]]]):
    """Try every host of the connection. Gives for each whether it works, and a sentence."""


@dataclass(frozen=True, kw_only=True)
class Gather(Step[list[Any]]):
    """Carry out workflows that do not wait for each other, side by side. Gives what each returns, in their order.

    All come to their end, whatever becomes of the others; then the error of the first that failed, in their order, is
    thrown. They only read: what writes stands in the workflow that yields this, so that it has one order.

    Args:
        workflows: The workflows.
    """

    workflows: tuple[Steps[Any], ...]


@dataclass(frozen=True, slots=True)
class SourceRead:
    """What was read from S3 on all nodes, by the servers' own counters.

    Args:
        files: Files opened.
        size_bytes: Bytes received.
    """

    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class InsertStats:
    """What was seen of an insert.

    Args:
        seconds: From start to end.
        read_rows: Rows read on all nodes.
        peak_memory_bytes: The highest memory seen on one node; None where nothing was seen.
        source: What it read from S3; None where the connection does not tell.
    """

    seconds: float
    read_rows: int
    peak_memory_bytes: int | None
    source: SourceRead | None = None


@dataclass(frozen=True, kw_only=True)
class Insert(Step[InsertStats]):
    """Run the insert, and report how far it is. Gives `InsertStats`.

    Args:
        sql: The statement.
        settings: Settings to send with it.
        query_id: Its query id.
        attempt: The nonce of the attempt that it belongs to.
        cluster: The cluster that it runs on; None for a single server.
        total_rows: Rows that it will read, where known.
        paths: Of the objects that it reads.
        is_started: Whether an earlier process has sent it: it is only waited for.
    """

    sql: Sql
    settings: SettingValues
    query_id: str
    attempt: str
    cluster: str | None
    total_rows: int | None
    paths: tuple[str, ...]
    is_started: bool = False


@dataclass(frozen=True, kw_only=True)
class InsertSideBySide(Step[tuple[InsertStats, ...]]):
    """Run inserts at the same time, each to its end, and log nothing of how far they are. Gives `InsertStats` of each.

    An error is raised once all have ended.

    Args:
        inserts: The inserts; at least one.
    """

    inserts: tuple[Insert, ...]


@dataclass(frozen=True, kw_only=True)
class Sleep(Step[None]):
    """Wait.

    Args:
        seconds: How long.
    """

    seconds: float


@dataclass(frozen=True, kw_only=True)
class ReadClock(Step[float]):
    """Read the clock. Gives seconds since some moment, which only tell how long something took."""


@dataclass(frozen=True, kw_only=True)
class Log(Step[None]):
    """Tell the user `name`."""


Steps: TypeAlias = Generator[AnyStep, Any, T]
