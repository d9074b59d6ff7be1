"""Remove the rows of overwritten and deleted objects from attached partitions, and verify it by object.

The column `object_column` has the object of every row. The published partition stays as it is: the DELETE runs in
staging, on hard links, and rewrites only parts with such rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from airflow_provider_chs3.core.ledger.object_records import recorded_rows
from airflow_provider_chs3.core.load.period_load import PeriodLoad
from airflow_provider_chs3.core.load.publication import Publication, Staged
from airflow_provider_chs3.core.load.staged_rows import count_staged
from airflow_provider_chs3.core.model.error_codes import QUERY_WAS_CANCELLED
from airflow_provider_chs3.core.model.models import Manifest, Node, TableName, Unit
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, in_table, literal, literals, table
from airflow_provider_chs3.core.sql.server_text import readable
from airflow_provider_chs3.core.steps.operations import QueryNodes, Sleep, Steps, TryQueryNodes
from airflow_provider_chs3.exceptions import BaseChangedError, ClickHouseServerError

#: Servers keep the text of a mutation, replicas in Keeper: its nodes hold a megabyte at most.
_MOST_BYTES_OF_PATHS = 250_000
#: Rewriting the rows of the other objects costs up to two fifths of loading them again (measured).
_LARGEST_SHARE = 0.25
#: A mutation waits for a free thread, and forever if merges are stopped.
_LONGEST_STANDSTILL_SECONDS = 600
_FIRST_WAIT_SECONDS, _LONGEST_POLL_SECONDS = 0.1, 5.0


def why_not_removed(load: PeriodLoad, published: Manifest, removed: Collection[str]) -> str:
    """Return why published rows of objects cannot be removed; empty if they can."""
    if not load.context.table_facts.keeps_every_row:
        return "merges of this table remove rows, so the rows of other objects may depend on those removed"
    if not load.manifest.objects:
        return "no objects are left"
    gone = set(removed)
    gone_bytes = sum(unit.size_bytes for unit in published.objects if unit.path in gone)
    if gone_bytes > _LARGEST_SHARE * published.size_bytes or sum(map(len, removed)) > _MOST_BYTES_OF_PATHS:
        return "these are too many to remove only their rows"
    return ""


def remove_objects(load: PeriodLoad) -> Steps[dict[Node, Staged]]:
    """Remove the rows of objects from staging, which holds only published rows.

    Returns:
        The remaining rows by node.

    Raises:
        BaseChangedError: If the published rows do not match the recorded objects, or cannot be removed.
    """
    assert load.increment is not None
    removed = set(load.increment.removed)
    rows_by_node = yield from _count_objects(load, name="Count the published rows of each object")
    yield from _check_recorded(load, rows_by_node)
    shards = {node.shard_num for node in load.context.publishers if removed & rows_by_node[node].keys()}
    if shards:
        yield from _delete_rows(load, shards)
    left = yield from _count_objects(load, name="Count the rows that are left of each object")
    staged = yield from count_staged(load, name="Count what is left in staging")
    for node, rows in left.items():
        kept = {path: count for path, count in rows_by_node[node].items() if path not in removed}
        if rows != kept or sum(rows.values()) != staged[node].rows:
            raise BaseChangedError(
                f"The DELETE in staging {load.staging} on {node} left {staged[node].rows} rows instead of exactly the "
                f"{sum(kept.values())} of the other objects."
            )
    return staged


def check_objects(load: PeriodLoad, staged: Mapping[Node, Staged]) -> Steps[None]:
    """Check that staging holds exactly the rows of the kept and the new objects.

    Raises:
        BaseChangedError: If the rows differ.
    """
    assert load.increment is not None
    new = {unit.path for unit in load.files.manifest.objects}
    kept = {unit.path for unit in load.increment.period.objects} - new
    rows_by_node = yield from _count_objects(load, name="Count the staged rows of each object")
    for node, rows in rows_by_node.items():
        counts = (sum(rows[path] for path in kept), sum(rows[path] for path in new), sum(rows.values()))
        attached = load.increment.attached_on(node)
        if counts != (attached, staged[node].rows - attached, staged[node].rows):
            raise BaseChangedError(
                f"Staging {load.staging} on {node} holds {counts[0]} rows of the objects that were kept and "
                f"{counts[1]} of those that were read, but {attached} and {staged[node].rows - attached} were counted."
            )


def add_kept_objects(
    load: Publication, rows: Sequence[int] | None
) -> Steps[tuple[Sequence[Unit], Sequence[int] | None]]:
    """Return all objects of the period and their rows, for a record without a base."""
    assert load.increment is not None
    objects = load.increment.period.objects
    if rows is None:
        return objects, None
    node = load.context.coordinator
    known = yield from recorded_rows(load.context.ledger, node, load.key_on(node), base=load.increment.base)
    known |= {unit.path: count for unit, count in zip(load.objects, rows, strict=True)}
    of_each = [known[unit.path] for unit in objects]
    known_counts = [count for count in of_each if count is not None]
    return objects, known_counts if len(known_counts) == len(of_each) else None


def _count_objects(load: PeriodLoad, *, name: str) -> Steps[dict[Node, Counter[str]]]:
    """Count the rows of every object, by `object_column`."""
    column = identifier(load.policies.object_column or "")
    sql = Sql(
        f"SELECT toString({column}) AS path, count() FROM {table(load.staging)} "
        f"WHERE {load.period_partitions.rows_of(load.staging)} GROUP BY path"
    )
    answers = yield from load.context.on_each(name=name, sql=sql)
    return {node: Counter(dict(rows)) for node, rows in answers.items()}


def _check_recorded(load: PeriodLoad, rows_by_node: Mapping[Node, Counter[str]]) -> Steps[None]:
    """Check that the column has only recorded objects, with their recorded numbers of rows."""
    assert load.increment is not None
    node = load.context.coordinator
    recorded = yield from recorded_rows(load.context.ledger, node, load.key_on(node), base=load.increment.base)
    published = sum((rows_by_node[node] for node in load.context.publishers), Counter[str]())
    where = f"{load.policies.object_column} of {load.context.target}"
    if unknown := sorted(published.keys() - recorded.keys()):
        raise BaseChangedError(f"{where}: {published[unknown[0]]} rows name {unknown[0]!r}, which was not loaded.")
    if load.policies.on_other_periods == "leave_out":
        return
    for path, rows in recorded.items():
        if rows is not None and published[path] != rows:
            raise BaseChangedError(f"{where}: {published[path]} rows name {path}, which has {rows}.")


def _delete_rows(load: PeriodLoad, shards: Collection[int]) -> Steps[None]:
    """Delete the rows, and wait as long as servers make progress."""
    assert load.increment is not None
    condition = f"{identifier(load.policies.object_column or '')} IN ({literals(load.increment.removed)})"
    of_period = load.period_partitions.rows_of(load.staging)
    scope = (
        f"DELETE WHERE {of_period} AND"
        if load.period_partitions.of_part
        else f"DELETE IN PARTITION ID {literal(load.period_partitions.value)} WHERE"
    )
    sql = Sql(f"ALTER TABLE {table(load.staging)} {scope} {condition}")
    try:
        yield from QueryNodes(
            name="Remove the rows of overwritten and deleted objects from staging",
            sql={node: sql for node in load.context.publishers if node.shard_num in shards},
            # A wait for the statement would end with the connection's timeout, without a reason.
            settings={"mutations_sync": 0},
            query_id=f"{load.attempt.name}_delete",
        )
    except ClickHouseServerError as error:
        if error.code == QUERY_WAS_CANCELLED:
            raise
        raise BaseChangedError(f"Rows of objects cannot be removed from {load.staging}: {error}") from error
    nodes = [node for node in load.context.nodes if node.shard_num in shards]
    before, waited_seconds, still_seconds = None, 0.0, 0.0
    while (progress := (yield from _read_progress(load.staging, nodes))) is not None:
        still_seconds = 0.0 if progress != before else still_seconds
        if still_seconds >= _LONGEST_STANDSTILL_SECONDS:
            raise BaseChangedError(
                f"The DELETE in staging {load.staging} made no progress for {_LONGEST_STANDSTILL_SECONDS} s: merges "
                "are stopped, or other merges take all threads of the pool."
            )
        pause_seconds = min(max(waited_seconds, _FIRST_WAIT_SECONDS), _LONGEST_POLL_SECONDS)
        yield from Sleep(name="Wait for the DELETE in staging", seconds=pause_seconds)
        before, waited_seconds, still_seconds = progress, waited_seconds + pause_seconds, still_seconds + pause_seconds


class _Progress(NamedTuple):
    parts: int
    shares: tuple[float, ...]


def _read_progress(staging: TableName, nodes: Collection[Node]) -> Steps[_Progress | None]:
    """Return the progress of the DELETE on all nodes; None once it is done.

    A replica that does not know the DELETE yet shows no mutation.
    """
    of_staging = in_table(staging)
    sql = Sql(
        "SELECT count() = countIf(is_done) AND count() > 0, sum(parts_to_do), "
        f"max({readable('latest_fail_reason')}) "
        f"FROM system.mutations WHERE {of_staging}"
    )
    answers = yield from QueryNodes(name="Look at the DELETE in staging", sql=dict.fromkeys(nodes, sql))
    for node, ((is_done, _, reason),) in answers.items():
        if reason and not is_done:
            raise BaseChangedError(f"The DELETE in staging {staging} fails on {node}: {reason}")
    if all(is_done for ((is_done, _, _),) in answers.values()):
        return None
    running = Sql(f"SELECT sum(progress) FROM system.merges WHERE {of_staging}")
    shares = yield from TryQueryNodes(name="Look at its progress", sql=dict.fromkeys(nodes, running))
    known = tuple(answer[0][0] for answer in shares.values() if isinstance(answer, list))
    return _Progress(sum(parts for ((_, parts, _),) in answers.values()), known)
