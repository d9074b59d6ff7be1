"""What a workflow asks of the world: frozen operations, which a runner carries out one by one.

A workflow is a generator that yields these and is sent what came of them; an error is thrown into it. It is written
once; runners only execute it. Each operation has a name, which is what logs show and what tests that break a load at
every step go by.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.values.models import Node, SettingValues

Row: TypeAlias = tuple[Any, ...]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Step:
    """One operation.

    Args:
        name: What it does, in words.
    """

    name: str


@dataclass(frozen=True, kw_only=True)
class ListObjects(Step):
    """List a bucket from the worker. Gives an iterator of `S3Object`.

    Args:
        bucket: The bucket.
        prefix: Beginning of the keys.
    """

    bucket: str
    prefix: str


@dataclass(frozen=True, kw_only=True)
class Ask(Step):
    """Run a statement on the node that the connection leads to. Gives a list of rows.

    Args:
        sql: The statement.
        settings: Settings to send with it.
    """

    sql: Sql
    settings: SettingValues = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AskNodes(Step):
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
class TryNodes(Step):
    """Run one statement on each of several nodes, all at once. Gives rows, or the error, for each node.

    Args:
        sql: The statement for each node.
    """

    sql: Mapping[Node, Sql]


@dataclass(frozen=True, slots=True)
class Timed:
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
class TimeNodes(Step):
    """Run one statement on each of several nodes, all at once, and time each.

    Gives for each node `Timed` rows, or the error.

    Args:
        sql: The statement for each node.
        settings: Settings to send with each.
    """

    sql: Mapping[Node, Sql]
    settings: SettingValues = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TimeListing(Step):
    """List the first page of a bucket from the worker. Gives `Timed` tuple of `S3Object`, or the error.

    Args:
        bucket: The bucket.
        prefix: Beginning of the keys.
    """

    bucket: str
    prefix: str


@dataclass(frozen=True, kw_only=True)
class TryHosts(Step):
    """Try every host of the connection. Gives for each whether it works, and a sentence."""


@dataclass(frozen=True, kw_only=True)
class Together(Step):
    """Carry out workflows that do not wait for each other, side by side. Gives what each returns, in their order.

    All come to their end, whatever becomes of the others; then the error of the first that failed, in their order, is
    thrown. They only read: what writes stands in the workflow that yields this, so that it has one order.

    Args:
        workflows: The workflows.
    """

    workflows: tuple[Steps[Any], ...]


@dataclass(frozen=True, kw_only=True)
class Insert(Step):
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
class InsertSideBySide(Step):
    """Run inserts at the same time, each to its end, and log nothing of how far they are. Gives `InsertStats` of each.

    An error is raised once all have ended.

    Args:
        inserts: The inserts; at least one.
    """

    inserts: tuple[Insert, ...]


@dataclass(frozen=True, kw_only=True)
class Pause(Step):
    """Wait.

    Args:
        seconds: How long.
    """

    seconds: float


@dataclass(frozen=True, kw_only=True)
class Now(Step):
    """Read the clock. Gives seconds since some moment, which only tell how long something took."""


@dataclass(frozen=True, kw_only=True)
class Say(Step):
    """Tell the user `name`."""


Steps: TypeAlias = Generator[Step, Any, T]
