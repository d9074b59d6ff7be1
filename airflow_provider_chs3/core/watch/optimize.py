"""Merge the parts of closed periods, a limited number of OPTIMIZEs at a time. See docs/merge-health.md.

An OPTIMIZE of one partition continues after its client is gone (seen on 26.9, with SIGKILL), and the number of parts
shows whether it is done. So no state needs to be kept: a later run finds the running OPTIMIZEs, waits for them, and
starts the missing ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from airflow_provider_chs3.core.ledger.queries import periods_of_partitions
from airflow_provider_chs3.core.model.error_codes import ACCESS_DENIED
from airflow_provider_chs3.core.model.models import Node, SettingValues
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Period
from airflow_provider_chs3.core.sql.quoting import Sql, in_table, literal, literals, table
from airflow_provider_chs3.core.steps.operations import Log, QueryNodes, Sleep, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.partition_key import time_of_key
from airflow_provider_chs3.core.target.period_partitions import partitions_of
from airflow_provider_chs3.core.watch.merge_observation import ids_of, inspect_table, observe
from airflow_provider_chs3.core.watch.optimize_job import Job, Status, advanced, failed, results, started
from airflow_provider_chs3.core.watch.optimize_request import (
    ENDED,
    QUERY_ID_PREFIX,
    OptimizeRequest,
    StartOnNodes,
    query_id_of,
)
from airflow_provider_chs3.core.watch.watch import grown_seconds
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError

#: A statement that finds nothing to do fails (388), and no replica waits for the others: their queues show the
#: remaining work. Even without FINAL, OPTIMIZE of a partition merges all of its parts, but never rewrites a single one,
#: and does not wait in the server for running merges.
_SETTINGS: SettingValues = {"optimize_throw_if_noop": 1, "alter_sync": 0}
#: Merges check whether they are stopped after each block of rows; stopping took 0.03 s.
_POLLS, _POLL_SECONDS = 40, 0.5


def find_work(request: OptimizeRequest) -> Steps[dict[str, dict[str, Any]]]:
    """Find the periods that have too many parts on a node, without starting anything.

    Returns their partitions and the parts on each such node, as JSON-safe values: the input of `merge`.
    """
    context = yield from inspect_table(request)
    sql = Sql(
        f"SELECT partition_id, count() AS parts FROM system.parts WHERE active AND {in_table(context.target)} "
        f"GROUP BY partition_id HAVING parts > {request.target_parts}"
    )
    answers = yield from context.on_each(name=f"Count the parts of {context.target}", sql=sql)
    parts_of: dict[str, dict[str, int]] = {}
    for node in _executors(context):
        for partition_id, parts in answers[node]:
            parts_of.setdefault(partition_id, {})[str(node)] = parts
    periods = yield from _periods_of(context, request, parts_of)
    of_time = time_of_key(context)
    work = {
        f"{period} {partition_id}" if of_time and not of_time.is_all else str(period): {
            "partition_id": partition_id,
            "parts": parts_of[partition_id],
        }
        for partition_id, period in sorted(periods.items(), key=lambda item: (item[1], item[0]))
    }
    parts = f"more than {request.target_parts} part{'s' if request.target_parts > 1 else ''}"
    yield from Log(name=f"{context.target}: closed periods with {parts} on a node: {', '.join(work) or 'none'}.")
    return work


def _periods_of(context: Target, request: OptimizeRequest, partition_ids: Iterable[str]) -> Steps[dict[str, Period]]:
    partition_ids = sorted(partition_ids)
    if not partition_ids:
        return {}
    if request.periods is not None:
        ids = yield from ids_of(context, (yield from partitions_of(context, request.periods)))
        return {partition_id: period for partition_id, period in ids.items() if partition_id in partition_ids}
    named = yield from periods_of_partitions(context, partition_ids)
    known = (yield from partitions_of(context, sorted(set(named.values())))) if named else {}
    periods_by_id = yield from ids_of(context, known)
    if unknown := [partition_id for partition_id in partition_ids if partition_id not in periods_by_id]:
        yield from Log(
            name=f"Skipping partitions {', '.join(unknown)}: their ids do not show the period. To merge them, name "
            "their periods in periods."
        )
    if WHOLE_TABLE in known:
        yield from Log(name="Skipping the whole table: new rows may always follow. To merge it, set periods=['all'].")
    closed = {partition_id: period for partition_id, period in periods_by_id.items() if period.end <= request.closed_by}
    return {partition_id: period for partition_id, period in closed.items() if partition_id in partition_ids}


def merge(request: OptimizeRequest, work: Mapping[str, Mapping[str, Any]]) -> Steps[dict[str, Any]]:
    """Merge the parts of periods, a limited number at a time, and wait until all are done.

    It may be interrupted at any step and started again. Returns the parts before and after, bytes and seconds of each
    period on each node, as JSON-safe values.
    """
    context = yield from inspect_table(request)
    partitions = {values["partition_id"]: _period_in(name) for name, values in work.items()}
    jobs = _jobs(context, work)
    interval_seconds = shortest_seconds = request.poll_interval_seconds
    while jobs:
        before = jobs
        # In this order: if an OPTIMIZE no longer runs, the parts observed afterwards are its result.
        answers = yield from context.on_each(name="Find running OPTIMIZEs", sql=_RUNNING)
        running = {(node, query_id): float(seconds) for node, rows in answers.items() for query_id, seconds in rows}
        states = yield from observe(context, partitions)
        jobs = [advanced(job, states, running.get((job.node, job.query_id)), request.target_parts) for job in jobs]
        yield from _log_changes(before, jobs)
        # Other tasks have started them, for other tables or periods.
        others = running.keys() - {(job.node, job.query_id) for job in jobs}
        jobs, has_ended = yield from _start(context, jobs, request.max_running - len(others))
        if not any(job.status in (Status.WAITING, Status.RUNNING) for job in jobs):
            break
        if has_ended and not context.table_facts.is_replicated:
            continue
        is_same = [job.status for job in before] == [job.status for job in jobs]
        interval_seconds = grown_seconds(interval_seconds, shortest_seconds) if is_same else shortest_seconds
        yield from Sleep(name="Wait for merges", seconds=interval_seconds)
    return results(jobs)


_RUNNING = Sql(f"SELECT query_id, elapsed FROM system.processes WHERE startsWith(query_id, {literal(QUERY_ID_PREFIX)})")


def _jobs(context: Target, work: Mapping[str, Mapping[str, Any]]) -> list[Job]:
    executors = {str(node): node for node in _executors(context)}
    return [
        Job(
            node=executors[node],
            period=_period_in(name),
            partition_id=values["partition_id"],
            query_id=query_id_of(context.target, values["partition_id"]),
            parts_before=parts,
            is_of_several=" " in name,
        )
        for name, values in work.items()
        for node, parts in values["parts"].items()
        if node in executors
    ]


def _period_in(name: str) -> Period:
    return Period.parse(name.partition(" ")[0])


def _executors(context: Target) -> tuple[Node, ...]:
    """Return the nodes that run OPTIMIZE: of the replicas of a shard one, as the others follow."""
    return context.publishers if context.table_facts.is_replicated else tuple(context.nodes)


def _start(context: Target, jobs: list[Job], limit: int) -> Steps[tuple[list[Job], bool]]:
    """Start as many jobs as allowed: the oldest periods first, one per node; return also whether one ended at once."""
    chosen = list(_chosen(jobs, limit))
    if not chosen:
        return jobs, False
    for job in chosen:
        yield from Log(name=f"OPTIMIZE {job}, query id {job.query_id}.")
    outcomes = yield from StartOnNodes(
        name="Start OPTIMIZE",
        sql={
            job.node: Sql(f"OPTIMIZE TABLE {table(context.target)} PARTITION ID {literal(job.partition_id)}")
            for job in chosen
        },
        query_id={job.node: job.query_id for job in chosen},
        settings=_SETTINGS,
    )
    after = [_after_start(job, outcomes[job.node]) if job in chosen else job for job in jobs]
    yield from _log_changes(jobs, after)
    return after, any(outcome == ENDED for outcome in outcomes.values())


def _chosen(jobs: Iterable[Job], limit: int) -> Iterator[Job]:
    jobs = tuple(jobs)
    busy = {job.node for job in jobs if job.status is Status.RUNNING}
    free = limit - sum(job.status is Status.RUNNING for job in jobs)
    for job in jobs:
        if free > 0 and job.status is Status.WAITING and job.node not in busy:
            busy.add(job.node)
            free -= 1
            yield job


def _after_start(job: Job, outcome: str | Chs3Error) -> Job:
    return failed(job, outcome) if isinstance(outcome, Chs3Error) else started(job)


def _log_changes(before: Iterable[Job], jobs: Iterable[Job]) -> Steps[None]:
    for was, job in zip(before, jobs, strict=True):
        if job.status is Status.RUNNING and job.progress:
            yield from Log(name=f"{job}: {job.progress}")
        elif job.status is not was.status and job.status not in (Status.WAITING, Status.RUNNING):
            yield from Log(name=f"{job}: {job.outcome}.")


def stop_merging(request: OptimizeRequest, work: Mapping[str, Mapping[str, Any]]) -> Steps[None]:
    """Stop the OPTIMIZEs of periods, and the merges that they run.

    KILL QUERY alone does not stop an OPTIMIZE whose merge has begun (seen on 26.9: `is_cancelled` is set, but the merge
    finishes). SYSTEM STOP MERGES does, but stops all merges of the table on that node. So it is sent only to nodes
    where no other period of the table merges, and reverted at once. The parts stay as they were before the merge.
    """
    context = yield from inspect_table(request)
    partition_ids = [values["partition_id"] for values in work.values()]
    query_ids = literals(query_id_of(context.target, partition_id) for partition_id in partition_ids)
    if not (busy := (yield from _find_merging(context, query_ids))):
        return
    yield from QueryNodes(
        name="Kill OPTIMIZE", sql=dict.fromkeys(busy, Sql(f"KILL QUERY WHERE query_id IN ({query_ids}) ASYNC"))
    )
    for node, merging in (yield from _find_merging(context, query_ids)).items():
        if others := sorted(set(merging) - set(partition_ids)):
            yield from Log(
                name=f"OPTIMIZE on {node} continues: SYSTEM STOP MERGES would also stop the merges of "
                f"{', '.join(others)}."
            )
        else:
            yield from _stop_on(context, node, query_ids)


def _find_merging(context: Target, query_ids: str) -> Steps[dict[Node, list[str]]]:
    """Find the partitions of the table that are merging, on each node where one of the queries runs."""
    sql = Sql(
        f"SELECT (SELECT count() FROM system.processes WHERE query_id IN ({query_ids})), "
        f"(SELECT groupArray(partition_id) FROM system.merges WHERE {in_table(context.target)})"
    )
    answers = yield from context.on_each(name="Find running OPTIMIZEs", sql=sql)
    return {node: rows[0][1] for node, rows in answers.items() if rows[0][0]}


def _stop_on(context: Target, node: Node, query_ids: str) -> Steps[None]:
    name = table(context.target)
    try:
        yield from QueryNodes(name="Stop merges", sql={node: Sql(f"SYSTEM STOP MERGES {name}")})
    except ClickHouseServerError as error:
        if error.code != ACCESS_DENIED:
            raise
        yield from Log(name=f"OPTIMIZE on {node} continues, as the user is not allowed to stop merges: {error}")
        return
    try:
        for _ in range(_POLLS):
            if node not in (yield from _find_merging(context, query_ids)):
                break
            yield from Sleep(name="Wait until the merge ends", seconds=_POLL_SECONDS)
    finally:
        yield from QueryNodes(name="Start merges again", sql={node: Sql(f"SYSTEM START MERGES {name}")})
