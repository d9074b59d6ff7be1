"""The errors of this package, and whether a retry can help.

::

    Chs3Error
    ├── TerminalError               a retry would end the same way
    │   ├── ConfigurationError      an argument or a field of the connection is wrong
    │   │   └── RowError                a row to insert does not fit the table
    │   ├── PreflightError          the cluster or the table cannot take the load (a list of findings)
    │   ├── SourceError             the objects do not match the request
    │   ├── TargetChangedError      the target holds rows that no load wrote
    │   ├── SupersededError         a newer attempt of the same load took over
    │   ├── VerificationError       what was loaded differs from the source
    │   ├── CheckFailedError        a check of the user's failed before anything was published
    │   ├── MergeHealthError        merges are stuck, or left too many parts
    │   └── PeriodsFailedError       some periods of a load of several failed, and a retry would not help
    ├── TransientError              worth a retry
    │   ├── NotReadyError               the objects are not there yet
    │   ├── ObjectsChangedError         objects changed while they were loaded, or another load published them
    │   ├── ColumnsAddedError           columns of the files were added to the target: the load starts over
    │   ├── FilesDifferError            files are not to be read as those of the last loads: the load starts over
    │   ├── BaseChangedError            published rows changed while new ones were added to them
    │   ├── ReplicasBehindError         replicas have not caught up with each other in time
    │   ├── InsertLostError             an insert ended with an unknown outcome
    │   ├── StatementLostError          so did another statement
    │   ├── PeriodsNotLoadedError        some periods of a load of several failed: a retry loads them again
    │   └── ClickHouseConnectionError   no answer, or a connection that broke
    └── ClickHouseServerError       an answer with an error code: the code decides

Nothing here imports Airflow, so that `core` can raise these too. Operators turn a `TerminalError` into Airflow's
`AirflowFailException`.
"""

from __future__ import annotations

from collections.abc import Iterable


class Chs3Error(Exception):
    """Base of every error that this package raises."""


class TerminalError(Chs3Error):
    """A retry would end the same way."""


class ConfigurationError(TerminalError):
    """An argument, or a field of the connection, is wrong."""


class RowError(ConfigurationError):
    """A given row does not fit the table.

    Args:
        row: Number of the row among those given, from 1.
        problem: The problem with the row.
        inserted_rows: Number of earlier rows already inserted, by statements that had finished. Default: 0.
    """

    def __init__(self, row: int, problem: str, inserted_rows: int = 0) -> None:
        super().__init__(row, problem, inserted_rows)
        self.row = row
        self.problem = problem
        self.inserted_rows = inserted_rows

    def __str__(self) -> str:
        done = f" Rows 1 to {self.inserted_rows} were inserted." if self.inserted_rows else ""
        return f"Row {self.row} cannot be inserted: {self.problem}.{done}"


class PreflightError(TerminalError):
    """The cluster or the table cannot take the load.

    Args:
        *findings: One sentence per problem: the node, the fact and what to do.
    """

    def __init__(self, *findings: str) -> None:
        super().__init__(*findings)
        self.findings = findings

    def __str__(self) -> str:
        return "\n".join(self.findings)


class SourceError(TerminalError):
    """The objects do not match the request: too few, unreadable, or unfit for the target."""


class TargetChangedError(TerminalError):
    """The target's partition holds rows that no known load wrote."""


class SupersededError(TerminalError):
    """A newer attempt of the same load took over; this one stopped."""


class VerificationError(TerminalError):
    """Staged or published data differs from the source."""


class CheckFailedError(TerminalError):
    """A check of the user's failed for staged rows, so they were not published."""


class MergeHealthError(TerminalError):
    """Merges are stuck or left too many parts: somebody must act."""


class TransientError(Chs3Error):
    """The cause may be temporary: worth a retry."""


class NotReadyError(TransientError):
    """The period's objects are not there yet, or not all of them."""


class ObjectsChangedError(TransientError):
    """Objects changed while they were loaded, or another load published the period. This one published nothing."""


class ColumnsAddedError(TransientError):
    """Columns of the files were added to the target: the load starts over."""


class FilesDifferError(TransientError):
    """Files are not to be read as those of the last loads, as their insert had begun to. The load starts over."""


class BaseChangedError(TransientError):
    """Published rows changed while new ones were added to them. The load starts over with all objects."""


class ReplicasBehindError(TransientError):
    """Replicas of a shard have not caught up with each other in time. Published periods stay."""


class InsertLostError(TransientError):
    """An insert started by another process has stopped, and no server knows its outcome. Nothing was published."""


class StatementLostError(TransientError):
    """A statement of a deferred task no longer runs, and no server knows its outcome. It may have taken effect."""


class PeriodsFailedError(TerminalError):
    """Some periods of a load of several failed, and a retry would end the same way. The others are published.

    Args:
        message: All errors as one text.
        errors: The error of each period that failed. Default: none.
    """

    def __init__(self, message: str, errors: Iterable[Chs3Error] = ()) -> None:
        super().__init__(message)
        self.errors = tuple(errors)


class PeriodsNotLoadedError(TransientError):
    """Some periods of a load of several failed: a retry loads them again. The others are published.

    Args:
        message: All errors as one text.
        errors: The error of each period that failed. Default: none.
    """

    def __init__(self, message: str, errors: Iterable[Chs3Error] = ()) -> None:
        super().__init__(message)
        self.errors = tuple(errors)


class ClickHouseConnectionError(TransientError):
    """No answer from ClickHouse, or a connection that broke.

    A statement that was running at that moment may have taken effect: look up its query id before running it again.

    Args:
        message: The message of the network or the driver.
        host: The last address tried, as `host:port`.
        query_id: The id of the statement; None if none was sent.
        is_timeout: Whether the answer did not come in time. Default: False.
    """

    def __init__(self, message: str, host: str, query_id: str | None = None, *, is_timeout: bool = False) -> None:
        super().__init__(message, host, query_id)
        self.message = message
        self.host = host
        self.query_id = query_id
        self.is_timeout = is_timeout

    def __str__(self) -> str:
        query = f", query {self.query_id}" if self.query_id else ""
        return f"No answer from ClickHouse at {self.host}{query}: {self.message}"


class ClickHouseServerError(Chs3Error):
    """ClickHouse answered with an error.

    Args:
        code: ClickHouse's error code, such as 60.
        name: The code's name, such as `UNKNOWN_TABLE`; empty if unknown.
        message: The server's message, without stack trace and secrets.
        host: The node that raised it, as `host:port`.
        query_id: The id of the statement.
    """

    def __init__(self, code: int, name: str, message: str, host: str, query_id: str | None = None) -> None:
        super().__init__(code, name, message, host, query_id)
        self.code = code
        self.name = name
        self.message = message
        self.host = host
        self.query_id = query_id

    def __str__(self) -> str:
        name = f" ({self.name})" if self.name else ""
        query = f", query {self.query_id}" if self.query_id else ""
        return f"ClickHouse error {self.code}{name} from {self.host}{query}: {self.message}"
