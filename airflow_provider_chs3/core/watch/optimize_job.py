"""Track one period with too many parts on one node, and decide the next step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from airflow_provider_chs3.core.model.error_codes import is_terminal
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.quantities import size_text
from airflow_provider_chs3.core.watch.health import FREE_SPACE_FACTOR
from airflow_provider_chs3.core.watch.merge_observation import MergeState
from airflow_provider_chs3.core.watch.merge_rate import merge_rate_of
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError, MergeHealthError, TransientError

#: Failed OPTIMIZEs after which a period fails: other merges and loads may interfere once.
_MOST_FAILURES = 2

_MERGES_WERE_STOPPED = 236
_ALREADY_RUNS = 216


class Status(StrEnum):
    """Progress of a period on a node."""

    WAITING = "waiting"
    RUNNING = "running"
    MERGED = "merged"
    TOO_LARGE = "too_large"
    NO_ROOM = "no_room"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Job:
    """A period to merge on a node."""

    node: Node
    period: Period
    partition_id: str
    query_id: str = ""
    parts_before: int
    is_of_several: bool = False
    status: Status = Status.WAITING
    parts: int | None = None
    size_bytes: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    seen_at: float = 0
    is_started: bool = False
    failures: tuple[str, ...] = ()
    reason: str = ""
    progress: str = ""

    @property
    def name(self) -> str:
        """The period, with the partition if it has several."""
        return f"{self.period} {self.partition_id}" if self.is_of_several else str(self.period)

    def __str__(self) -> str:
        parts = self.parts_before if self.parts is None else self.parts
        size = f", {size_text(self.size_bytes)}" if self.size_bytes else ""
        return f"{self.name} on {self.node}, {parts} part{'s' if parts != 1 else ''}{size}"

    @property
    def seconds(self) -> float | None:
        """Duration of the merge; None if its start was not observed."""
        if self.started_at is None or self.ended_at is None:
            return None
        return max(0.0, self.ended_at - self.started_at)

    @property
    def outcome(self) -> str:
        """Description of the result."""
        if self.reason:
            return f"not merged: {self.reason}"
        seconds = "" if self.seconds is None else f" in {self.seconds:.0f} s"
        return f"merged from {self.parts_before} parts{seconds}"


def advanced(job: Job, states: Iterable[MergeState], running_seconds: float | None, target_parts: int) -> Job:
    """Return the job after an observation."""
    shard = [state for state in states if _is_about(state, job)]
    state = next(state for state in shard if state.node == job.node)
    parts = max(state.parts for state in shard)
    seen = replace(job, parts=parts, size_bytes=state.size_bytes, seen_at=state.at_seconds, reason="", progress="")
    if parts <= target_parts:
        return replace(seen, status=Status.MERGED, ended_at=state.at_seconds - state.unchanged_seconds)
    # The other replicas will follow a merge that one replica has done, even if their queues do not show it yet.
    is_busy = any(state.merges or (state.replica and state.replica.queue) for state in shard)
    if state.parts <= target_parts or is_busy or running_seconds is not None:
        began = state.at_seconds - (running_seconds or 0)
        return replace(
            seen,
            status=Status.RUNNING,
            is_started=job.is_started or running_seconds is not None,
            started_at=began if job.started_at is None else job.started_at,
            progress=str(merge_rate_of(state, most_parts=target_parts)),
        )
    changed_at = state.at_seconds - state.unchanged_seconds
    # A load that publishes the period cancels its merges (236): that is not a failure, whatever its parts.
    is_published_anew = job.started_at is not None and changed_at > job.started_at
    if job.is_started and parts >= (job.parts or 0) and not is_published_anew:
        return _after_failure(seen, "OPTIMIZE ended, but the number of parts is unchanged; see system.query_log")
    return _weighed(replace(seen, is_started=False, started_at=None), state)


def _is_about(state: MergeState, job: Job) -> bool:
    if (state.period, state.partition_id) != (job.period, job.partition_id):
        return False
    return state.node.shard_num == job.node.shard_num if state.replica else state.node == job.node


def _weighed(job: Job, state: MergeState) -> Job:
    """Return the job as waiting, or with the reason why size or disk space forbid its merge."""
    if job.status is Status.FAILED:
        return replace(job, reason=job.failures[-1])
    largest_bytes = state.limits.max_bytes_to_merge_at_max_space_in_pool
    if state.size_bytes > largest_bytes:
        return replace(
            job,
            status=Status.TOO_LARGE,
            reason=f"one part of it would be larger than max_bytes_to_merge_at_max_space_in_pool "
            f"({size_text(largest_bytes)}), and would never be merged again",
        )
    needed_bytes = FREE_SPACE_FACTOR * state.size_bytes
    if state.free_bytes <= needed_bytes:
        return replace(
            job,
            status=Status.NO_ROOM,
            reason=f"{size_text(state.free_bytes)} are free on its disk, and the merge needs more than "
            f"{size_text(needed_bytes)} (merged parts are removed after old_parts_lifetime, 8 minutes by default)",
        )
    return replace(job, status=Status.WAITING)


def started(job: Job) -> Job:
    """Return the job after its OPTIMIZE was sent."""
    began = job.seen_at if job.started_at is None else job.started_at
    return replace(job, status=Status.RUNNING, is_started=True, started_at=began)


def failed(job: Job, error: Chs3Error) -> Job:
    """Return the job after its OPTIMIZE failed; an error that other periods would meet, too, is raised."""
    if isinstance(error, ClickHouseServerError) and error.code == _ALREADY_RUNS:
        return started(job)
    if is_terminal(error):
        raise error
    hint = ""
    if isinstance(error, ClickHouseServerError) and error.code == _MERGES_WERE_STOPPED:
        hint = " Merges are stopped there (SYSTEM START MERGES), or a load published the period just then."
    return _after_failure(job, f"{error}{hint}")


def _after_failure(job: Job, reason: str) -> Job:
    failures = (*job.failures, reason)
    is_over = len(failures) >= _MOST_FAILURES
    return replace(
        job,
        status=Status.FAILED if is_over else Status.WAITING,
        reason=reason if is_over else "",
        failures=failures,
        is_started=False,
        started_at=None,
    )


def results(jobs: Sequence[Job]) -> dict[str, Any]:
    """Return the results of all jobs as JSON-safe values; raise an error if one could not be merged."""
    stopped = [f"{job}: {job.outcome}" for job in jobs if job.status in (Status.FAILED, Status.NO_ROOM)]
    if stopped:
        kind = MergeHealthError if any(job.status is Status.FAILED for job in jobs) else TransientError
        raise kind("\n".join(stopped))
    periods: dict[str, dict[str, Any]] = {}
    for job in jobs:
        periods.setdefault(job.name, {})[str(job.node)] = {
            "status": str(job.status),
            "parts_before": job.parts_before,
            "parts_after": job.parts,
            "size_bytes": job.size_bytes,
            "seconds": None if job.seconds is None else round(job.seconds),
            **({"reason": job.reason} if job.reason else {}),
        }
    return {"merged": sum(job.status is Status.MERGED for job in jobs), "periods": periods}
