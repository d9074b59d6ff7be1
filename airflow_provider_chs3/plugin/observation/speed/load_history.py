"""The recorded loads, with further data from the logs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.values.models import TableName
from airflow_provider_chs3.core.workflow.operations import Row
from airflow_provider_chs3.core.workflow.step_timer import in_order
from airflow_provider_chs3.plugin.observation.speed.slow_loads import MERGES, STORAGE, Judgement, LoadTiming, judge

_NOT_JUDGED = Judgement()


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenLoad:
    """A load that published.

    Args:
        table: The table.
        month: The month.
        partition_id: Its partition.
        attempt: The attempt's nonce.
        owner: The task that loaded, as JSON: DAG, run, task, map index; empty if not known.
        published_at: Time of its publication, as Unix time by the coordinator's clock.
        rows: Rows that it loaded.
        source_bytes: Size of the objects that it read.
        objects: Their number.
        parts: Parts at publishing, on all nodes.
        insert_seconds: Duration of the insert in seconds.
        peak_memory_bytes: Peak memory on one node; None if not known.
        memory_bytes: Memory that it was allowed there; 0 if not known.
        seconds_by_step: `core.workflow.step_timer.STEP_NAMES` → seconds.
        storage_seconds: Seconds that the threads waited for the storage, added up; None without a log, and for
            a storage that servers do not count.
        merge_seconds: Seconds from publishing to the end of the last merge that followed; None without a log, or while
            merges run.
        judgement: Whether it was slow.
    """

    table: TableName
    month: str
    partition_id: str
    attempt: str
    owner: str
    published_at: float
    rows: int
    source_bytes: int
    objects: int
    parts: int
    insert_seconds: float
    peak_memory_bytes: int | None
    memory_bytes: int
    seconds_by_step: Mapping[str, float]
    storage_seconds: float | None = None
    merge_seconds: float | None = None
    judgement: Judgement = _NOT_JUDGED

    @property
    def begun_at(self) -> float:
        """Its start, as Unix time."""
        return self.published_at - sum(self.seconds_by_step.values())

    @property
    def partition(self) -> tuple[str, str, str]:
        """Its partition, as named in system tables."""
        return self.table.database, self.table.table, self.partition_id

    @property
    def timed(self) -> LoadTiming:
        """Its timing, for the judgement."""
        logged = {STORAGE: self.storage_seconds, MERGES: self.merge_seconds}
        known = {step: seconds for step, seconds in logged.items() if seconds is not None}
        return LoadTiming(rows=self.rows, seconds={**self.seconds_by_step, **known})


def loads_of(rows: Iterable[Row]) -> tuple[SeenLoad, ...]:
    """Return the recorded loads, the oldest first.

    Args:
        rows: The answers of all nodes to `throughput_queries.loads`.
    """
    found = {}
    for database, table, month, attempt, owner, published_at, partition_id, numbers, seconds, memory, steps in rows:
        source_bytes, objects, loaded_rows, parts = numbers
        peak_memory_bytes, memory_bytes = memory
        found[attempt] = SeenLoad(
            table=TableName(database, table),
            month=month,
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
            memory_bytes=memory_bytes,
            seconds_by_step=in_order(dict(steps)),
        )
    return tuple(sorted(found.values(), key=lambda load: load.published_at))


def judged(loads: Sequence[SeenLoad]) -> tuple[SeenLoad, ...]:
    """Return the same loads, each judged against the others of its table."""
    of_tables: dict[TableName, list[SeenLoad]] = defaultdict(list)
    for load in loads:
        of_tables[load.table].append(load)
    judgements = {
        load.attempt: judgement
        for each in of_tables.values()
        for load, judgement in zip(each, judge([load.timed for load in each]), strict=True)
    }
    return tuple(replace(load, judgement=judgements[load.attempt]) for load in loads)
