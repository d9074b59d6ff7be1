"""The months in the ledger of one node, for the overview."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from airflow_provider_chs3.core.cluster.table_facts import TableFacts
from airflow_provider_chs3.core.ledger.records import Record, record_of
from airflow_provider_chs3.core.values.models import Month, TableName
from airflow_provider_chs3.core.workflow.operations import Row
from airflow_provider_chs3.plugin.observation import months_queries

MonthOfTable: TypeAlias = tuple[TableName, Month]


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


def of_current_tables(
    records: Iterable[Row], tables: Mapping[TableName, TableFacts]
) -> Iterable[tuple[MonthOfTable, MonthRecords]]:
    """Parse the answer to `months_queries.records`, without rows of earlier tables.

    Args:
        records: The rows.
        tables: The current tables.
    """
    for database, name, uuid, month, count, sequence, standing, *loads in records:
        table = TableName(database, name)
        if table not in tables or tables[table].uuid != uuid:
            continue
        insert_sequence, inserting, failure_sequence, failure, load = loads
        partition_id, fields, objects, recorded_at, ledger_database = standing
        yield (
            (table, Month.parse(month)),
            MonthRecords(
                partition_id=partition_id,
                record=record_of(fields) if count else None,
                objects=objects,
                recorded_at=recorded_at,
                ledger_database=ledger_database,
                inserting=InsertRecord(*inserting) if insert_sequence else None,
                is_inserting_newer=insert_sequence > sequence,
                failure=_failure(*failure) if failure_sequence > max(sequence, insert_sequence) else None,
                load=load,
            ),
        )


def _failure(attempt: str, owner: str, error: str, *more: str) -> FailureRecord:
    if len(error) >= months_queries.ERROR_CHARACTERS:
        error = f"{error.rpartition(' ')[0]} …"
    return FailureRecord(attempt, owner, error.strip(), *more)
