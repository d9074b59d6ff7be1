"""The months in the ledger of one node, for the overview."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.core.ledger.records import Record, record_of
from airflow_provider_chs3.core.values.models import Month
from airflow_provider_chs3.core.workflow.operations import Row
from airflow_provider_chs3.plugin.observation import months_queries


@dataclass(frozen=True, slots=True)
class InsertRecord:
    """The newest record of an insert.

    Args:
        attempt: The load's attempt.
        owner: The task that loads, as JSON: DAG, run, task, map index; empty if not known.
        query_id: The insert that was started last; empty once its end is known.
        total_rows: Rows that it reads; 0 if not known.
        recorded_at: Time of the record, as Unix time, by the node's clock.
    """

    attempt: str
    owner: str
    query_id: str
    total_rows: int
    recorded_at: float


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """The newest record of a load that failed.

    Args:
        attempt: The load's attempt.
        owner: The task that loads, as in `InsertRecord`.
        error: The error's message and hint, shortened if long; they may quote values of rows.
        kind: The error's class.
        hint: The hint alone, which quotes no values.
        recorded_at: Time of the record, in UTC.
    """

    attempt: str
    owner: str
    error: str
    kind: str
    hint: str
    recorded_at: str

    @property
    def without_values(self) -> str:
        """The error for those who may not see values: its class and hint."""
        return f"{self.kind or 'an error'}. {self.hint}".strip()


@dataclass(frozen=True, kw_only=True, slots=True)
class MonthRecords:
    """The newest records of a month in the ledger of one node, all of the current table.

    Args:
        partition_id: Its partition; empty if only inserts are known.
        record: The record of its state; None if there is none, or it was forgotten.
        objects: Number of its objects.
        recorded_at: Time of that record, in UTC.
        ledger_database: Database of the ledger with that record; empty if only inserts are known.
        inserting: The newest record of an insert.
        is_inserting_newer: Whether it is newer than the record of the month's state.
        failure: The failure of its newest load; None if it did not fail.
        load: Attempt, seconds of the insert, and loaded rows of the newest load that was recorded.
    """

    partition_id: str
    record: Record | None
    objects: int
    recorded_at: str
    ledger_database: str
    inserting: InsertRecord | None
    is_inserting_newer: bool
    failure: FailureRecord | None
    load: tuple[str, float, int]

    @property
    def unpublished(self) -> InsertRecord | None:
        """The newest record of an insert, unless its load has published the month, or found it as it is."""
        return self.inserting if self.is_inserting_newer or self.is_publishing else None

    @property
    def is_publishing(self) -> bool:
        """Whether the load of that record has recorded its intent to publish, and nothing since."""
        found = self.record
        return bool(found and self.inserting and (found.event, found.attempt) == ("intent", self.inserting.attempt))


def by_month(rows: Iterable[Row]) -> dict[Month, MonthRecords]:
    """Parse the answer to `months_queries.records`.

    Args:
        rows: The rows of one table: month, and the columns after it.
    """
    return {Month.parse(month): _of_month(*fields) for month, *fields in rows}


def unsettled(rows: Iterable[Row]) -> Iterator[MonthRecords]:
    """Parse only months whose newest load failed, or has not published.

    Args:
        rows: As in `by_month`.
    """
    for _, *fields in rows:
        _, sequence, (_, record, *_), insert_sequence, _, failure_sequence, *_ = fields
        if max(insert_sequence, failure_sequence) > sequence or record[0] == "intent":
            yield _of_month(*fields)


def _of_month(
    count: int,
    sequence: int,
    published: Row,
    insert_sequence: int,
    inserting: Row,
    failure_sequence: int,
    failure: Row,
    load: tuple[str, float, int],
) -> MonthRecords:
    partition_id, record, objects, recorded_at, ledger_database = published
    return MonthRecords(
        partition_id=partition_id,
        record=_record(*record) if count else None,
        objects=objects,
        recorded_at=recorded_at,
        ledger_database=ledger_database,
        inserting=InsertRecord(*inserting) if insert_sequence else None,
        is_inserting_newer=insert_sequence > sequence,
        failure=_failure(*failure) if failure_sequence > max(sequence, insert_sequence) else None,
        load=load,
    )


def _record(event: str, attempt: str, *others: Any) -> Record | None:
    return record_of((event, attempt, "", "", *others))


def _failure(attempt: str, owner: str, error: str, *more: str) -> FailureRecord:
    if len(error) >= months_queries.ERROR_CHARACTERS:
        error = f"{error.rpartition(' ')[0]} …"
    return FailureRecord(attempt, owner, error.strip(), *more)
