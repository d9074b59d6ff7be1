"""The recorded loads, with further data from the logs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from pydantic import BaseModel, Field, computed_field

from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.steps.driving import in_order
from airflow_provider_chs3.core.steps.operations import Row
from airflow_provider_chs3.plugin.observation.periods import Task
from airflow_provider_chs3.plugin.observation.speed.slow_loads import MERGES, STORAGE, LoadTiming, judge


class LoadSpeed(BaseModel):
    """A load that published, and how fast it was; the page does not get what is excluded."""

    database: str
    table: str
    period: str
    partition_id: str = Field(exclude=True)
    attempt: str = Field(exclude=True)
    owner: str = Field(exclude=True)
    published_at: float
    rows: int
    source_bytes: int
    objects: int
    parts: int
    insert_seconds: float
    peak_memory_bytes: int | None
    memory_bytes: int | None
    seconds_by_step: dict[str, float]
    storage_seconds: float | None
    merge_seconds: float | None
    why_slow: str
    task: Task | None

    @computed_field
    def rows_per_second(self) -> int | None:
        """Rows per second of the insert."""
        return _each_second(self.rows, self.insert_seconds)

    @computed_field
    def bytes_per_second(self) -> int | None:
        """Bytes of objects per second of the insert."""
        return _each_second(self.source_bytes, self.insert_seconds)

    @computed_field
    def seconds_to_published(self) -> float:
        """Seconds from listing to publishing."""
        return self.timing.whole

    @computed_field
    def seconds_to_healthy(self) -> float | None:
        """Seconds from listing to the end of the merges that followed; None as with `merge_seconds`."""
        return None if self.merge_seconds is None else self.timing.whole + self.merge_seconds

    @property
    def begun_at(self) -> float:
        """Its start, as Unix time."""
        return self.published_at - self.timing.whole

    @property
    def table_name(self) -> TableName:
        """Its table."""
        return TableName(self.database, self.table)

    @property
    def partition(self) -> tuple[str, str, str]:
        """Its partition, as named in system tables."""
        return self.database, self.table, self.partition_id

    @property
    def timing(self) -> LoadTiming:
        """Its timing, for the judgement."""
        logged = {STORAGE: self.storage_seconds, MERGES: self.merge_seconds}
        known = {step: seconds for step, seconds in logged.items() if seconds is not None}
        return LoadTiming(rows=self.rows, seconds={**self.seconds_by_step, **known})


def _each_second(count: int, seconds: float) -> int | None:
    return round(count / seconds) if seconds else None


def loads_of(rows: Iterable[Row]) -> tuple[LoadSpeed, ...]:
    """Return the recorded loads, the oldest first."""
    loads = {}
    for database, table, period, attempt, owner, published_at, partition_id, numbers, seconds, memory, steps in rows:
        source_bytes, objects, loaded_rows, parts = numbers
        peak_memory_bytes, memory_bytes = memory
        loads[attempt] = LoadSpeed(
            database=database,
            table=table,
            period=period,
            partition_id=partition_id,
            attempt=attempt,
            owner=owner,
            published_at=published_at,
            rows=loaded_rows,
            source_bytes=source_bytes,
            objects=objects,
            parts=parts,
            insert_seconds=seconds,
            peak_memory_bytes=peak_memory_bytes or None,
            memory_bytes=memory_bytes or None,
            seconds_by_step=dict(in_order(dict(steps))),
            storage_seconds=None,
            merge_seconds=None,
            why_slow="",
            task=None,
        )
    return tuple(sorted(loads.values(), key=lambda load: load.published_at))


def judged(loads: Sequence[LoadSpeed]) -> tuple[LoadSpeed, ...]:
    """Return the same loads, each judged against the others of its table."""
    of_tables: dict[TableName, list[LoadSpeed]] = defaultdict(list)
    for load in loads:
        of_tables[load.table_name].append(load)
    reasons = {
        load.attempt: reason
        for table in of_tables.values()
        for load, reason in zip(table, judge([load.timing for load in table]), strict=True)
    }
    return tuple(load.model_copy(update={"why_slow": reasons[load.attempt]}) for load in loads)
