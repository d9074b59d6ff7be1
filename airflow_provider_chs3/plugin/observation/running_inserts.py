"""The step of a running load, and the progress of its insert."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.steps.insert_progress import progress_of
from airflow_provider_chs3.core.steps.operations import Row
from airflow_provider_chs3.plugin.observation.periods_records import InsertRecord
from airflow_provider_chs3.plugin.observation.snapshots import ClusterSnapshot


class RunningStep(StrEnum):
    """A step that a load is at, according to its records and queries."""

    INSERT = "insert"
    VERIFY = "verify"
    PUBLISH = "publish"


@dataclass(frozen=True, slots=True)
class TaskAtWork:
    """A task that has not ended."""

    state: str
    started_at: float | None
    silent_since: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class TasksOfLoads:
    """The tasks of loads, as far as this Airflow knows them: those of another are in neither field."""

    at_work: Mapping[str, TaskAtWork]
    failed: Collection[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeInsert:
    """A node's part of an insert."""

    name: str
    read_rows: int
    written_rows: int
    memory_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningInsert:
    """The progress of an insert, on all nodes that answered."""

    query_id: str
    read_rows: int
    total_rows: int | None
    read_bytes: int
    memory_bytes: int
    peak_memory_bytes: int
    seconds: float
    rows_per_second: int
    nodes: tuple[NodeInsert, ...]


def is_running(seen: ClusterSnapshot, insert: InsertRecord) -> bool:
    """Check whether any node runs a query of an insert's load."""
    # Query ids begin with the staging's name, which ends with the attempt.
    return any(f"_{insert.attempt}_" in process[0] for _, process in seen.processes)


def running_step(
    seen: ClusterSnapshot, insert: InsertRecord, *, is_publishing: bool, task: TaskAtWork | None
) -> RunningStep | None:
    """Return the step of a running load; None if it is between two, or if that is unknown.

    Verifying and publishing are mostly over in less than a second, and between their queries a load lists objects or
    waits. So its records count as long as they are those of the current try, and its staging is there.
    """
    if insert.query_id and not is_publishing:
        return RunningStep.INSERT if insert.query_id in {process[0] for _, process in seen.processes} else None
    if not is_running(seen, insert) and not (_is_of_this_try(insert, task) and _has_staging(seen, insert)):
        return None
    return RunningStep.PUBLISH if is_publishing else RunningStep.VERIFY


def _is_of_this_try(insert: InsertRecord, task: TaskAtWork | None) -> bool:
    return bool(task and task.state == "running" and task.started_at and task.started_at <= insert.recorded_at)


def _has_staging(seen: ClusterSnapshot, insert: InsertRecord) -> bool:
    staging = (name for node in seen.nodes.values() for name in node.staging if not name.startswith("chs3_held_"))
    return any(name.endswith(f"_{insert.attempt}") for name in staging)


def running_insert(
    query_id: str, processes: Iterable[tuple[Node, Row]], cluster: str | None, *, total_rows: int = 0
) -> RunningInsert | None:
    """Return the progress of an insert; None if no node runs it."""
    of_insert = [(node, process) for node, process in processes if process[0] == query_id]
    if not of_insert:
        return None
    rows = [(*process[:2], node.shard_num, *process[2:7]) for node, process in of_insert]
    progress = progress_of(query_id, rows, cluster)
    seconds = max(process[7] for _, process in of_insert)
    return RunningInsert(
        query_id=query_id,
        read_rows=progress.read_rows,
        total_rows=total_rows or None,
        read_bytes=progress.read_bytes,
        memory_bytes=sum(node.memory_bytes for node in progress.nodes),
        peak_memory_bytes=max((node.peak_memory_bytes for node in progress.nodes), default=0),
        seconds=seconds,
        rows_per_second=round(progress.read_rows / max(seconds, 0.001)),
        nodes=tuple(
            NodeInsert(name=str(node), read_rows=process[2], written_rows=process[6], memory_bytes=process[4])
            for node, process in of_insert
            if not process[1] or len(of_insert) == 1
        ),
    )
