"""The periods in the ledger of one node, for the overview.

There may be thousands of periods, so each becomes a tuple, which takes less time than a dataclass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from airflow_provider_chs3.core.ledger.records import Held, Record
from airflow_provider_chs3.core.steps.operations import Row
from airflow_provider_chs3.plugin.observation import periods_queries

#: Where the columns of `periods_queries.records` begin, without table and period.
_STATES, _CHECKED, _SEVERAL, _HELD, _IS_OF_HELD, _PUBLISHED, _RECORD = range(7)
_OBJECTS = _RECORD + len(periods_queries.RECORD)
_INSERTS = _OBJECTS + 3
_FAILURES = _INSERTS + 6
_LOADED = _FAILURES + 7


class InsertRecord(NamedTuple):
    """The newest record of an insert."""

    attempt: str
    owner: str
    query_id: str
    total_rows: int
    recorded_at: float


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """The newest record of a load that failed."""

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


class LoadRecord(NamedTuple):
    """The newest record of a load that published; empty if there is none."""

    attempt: str = ""
    owner: str = ""
    insert_seconds: float = 0.0
    rows: int = 0
    together: str = ""
    together_seconds: float = 0.0


class PeriodRecords(NamedTuple):
    """The newest records of a period in the ledger of one node, all of the current table."""

    has_claims: bool
    record: Record | None
    several: tuple[Record, ...]
    held: Held | None
    objects: int
    recorded_at: str
    ledger_database: str
    inserting: InsertRecord | None
    is_inserting_newer: bool
    failure: FailureRecord | None
    load: LoadRecord

    @property
    def unpublished(self) -> InsertRecord | None:
        """The newest record of an insert, unless its load has published the period, or found it as it is."""
        return self.inserting if self.is_inserting_newer or self.is_publishing else None

    @property
    def is_publishing(self) -> bool:
        """Return whether the load of that record has recorded its intent to publish, and nothing since."""
        record = self.record
        return bool(record and self.inserting and (record.event, record.attempt) == ("intent", self.inserting.attempt))


def changed(rows: Iterable[Row]) -> Iterator[PeriodRecords]:
    """Parse only periods whose newest load failed, or has not published."""
    for row in rows:
        if max(row[_INSERTS], row[_FAILURES]) > row[_CHECKED] or row[_RECORD] == "intent":
            yield period_records(row)


def is_published(row: Row) -> bool:
    """Check whether a period is published, or was about to be, and not forgotten since."""
    return bool(row[_STATES]) and row[_RECORD] != "forgotten"


def recorded_partition_ids(row: Row) -> set[str]:
    """Return the partitions of a period; none if only inserts are known."""
    return {partition[0] for partition in row[_SEVERAL]} or {*filter(None, [row[_PUBLISHED]])}


def period_records(row: Row) -> PeriodRecords:
    """Parse a row of the answer to `periods_queries.records`."""
    objects, recorded_at, ledger_database = row[_OBJECTS:_INSERTS]
    insert_sequence, failure_sequence = row[_INSERTS], row[_FAILURES]
    checked = row[_CHECKED]
    record = _record(row[_PUBLISHED], *row[_RECORD:_OBJECTS]) if row[_STATES] else None
    several = (
        tuple(filter(record.is_with, filter(None, (_record(*partition) for partition in row[_SEVERAL]))))
        if record
        else ()
    )
    held, held_in = _held(row[_HELD])
    if record and held and row[_IS_OF_HELD]:
        # The objects that it was published from are read only where they are compared.
        record = replace(record, fingerprint=held.record.fingerprint, definition=held.record.definition)
    return PeriodRecords(
        has_claims=bool(row[_STATES]),
        record=record,
        several=several,
        held=held,
        objects=objects,
        recorded_at=recorded_at,
        ledger_database=ledger_database or held_in,
        inserting=InsertRecord(*row[_INSERTS + 1 : _FAILURES]) if insert_sequence else None,
        is_inserting_newer=insert_sequence > checked,
        failure=_failure(*row[_FAILURES + 1 : _LOADED]) if failure_sequence > max(checked, insert_sequence) else None,
        load=LoadRecord(*row[_LOADED:]),
    )


def _record(partition_id: str, event: str, attempt: str, *others: Any) -> Record | None:
    if event == "forgotten":
        return None
    *numbers, restored = others
    return replace(Record(event, attempt, "", "", *numbers), partition_id=partition_id, restored=restored)


def _held(claims: Iterable[Row]) -> tuple[Held | None, str]:
    """Return the version that is held, and the database of its ledger."""
    held, database = None, ""
    for fingerprint, definition, partition_id, *record, age_seconds, reason, since, limit_days, held_in in claims:
        if claim := _record(partition_id, *record):
            told = {"fingerprint": fingerprint, "definition": definition, "age_seconds": age_seconds}
            known = held or Held((), reason, since, limit_days)
            held, database = replace(known, records=(*known.records, replace(claim, **told))), held_in
    return held, database


def _failure(attempt: str, owner: str, error: str, *more: str) -> FailureRecord:
    if len(error) >= periods_queries.ERROR_CHARACTERS:
        error = f"{error.rpartition(' ')[0]} …"
    return FailureRecord(attempt, owner, error.strip(), *more)
