"""The progress and the outcome of an insert, or of another query that outlives its client."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from airflow_provider_chs3.core.model.quantities import duration_text, size_text
from airflow_provider_chs3.core.sql.complete_answers import OF_THOSE_UP, passed_on
from airflow_provider_chs3.core.sql.quoting import Sql, literal, one_of
from airflow_provider_chs3.core.steps.operations import Row


@dataclass(frozen=True, slots=True)
class NodeProgress:
    """The progress of an insert on one node."""

    shard_num: int
    read_rows: int
    memory_bytes: int
    peak_memory_bytes: int
    written_rows: int


@dataclass(frozen=True, slots=True)
class InsertProgress:
    """The progress of an insert: what was read on all nodes, and the nodes that still read for it."""

    is_running: bool = False
    read_rows: int = 0
    read_bytes: int = 0
    nodes: tuple[NodeProgress, ...] = ()


def progress_query(query_ids: Collection[str], cluster: str | None) -> Sql:
    """Return the query for the progress of inserts on every node; `progress_of` parses the answer."""
    sql = Sql(
        f"SELECT initial_query_id, is_initial_query, {'_shard_num' if cluster else '1'} AS shard, sum(read_rows), "
        f"sum(read_bytes), sum(memory_usage), max(peak_memory_usage), sum(written_rows) "
        f"FROM {_on_all_nodes('processes', cluster)} "
        f"WHERE {one_of('initial_query_id', query_ids)} GROUP BY ALL ORDER BY shard"
    )
    return passed_on(sql, OF_THOSE_UP) if cluster else sql


def progress_of(query_id: str, rows: Iterable[Row], cluster: str | None) -> InsertProgress:
    """Return the progress of one of the inserts."""
    of_insert = [row[1:] for row in rows if row[0] == query_id]
    whole = [row for row in of_insert if row[0]]
    # Where others read, the initiator's row counts what they report to it, and keeps it when they are done.
    parts = [row for row in of_insert if bool(row[0]) != bool(cluster)]
    return InsertProgress(
        is_running=bool(of_insert),
        read_rows=sum(row[2] for row in whole or parts),
        read_bytes=sum(row[3] for row in whole or parts),
        nodes=tuple(NodeProgress(row[1], row[2], *row[4:]) for row in parts),
    )


def running_query(prefix: str, cluster: str | None) -> Sql:
    """Return the query for the ids of running queries that begin with a prefix."""
    sql = Sql(
        f"SELECT query_id FROM {_on_all_nodes('processes', cluster)} "
        f"WHERE is_initial_query AND startsWith(query_id, {literal(prefix)})"
    )
    return passed_on(sql, OF_THOSE_UP) if cluster else sql


def outcome_query(query_id: str, cluster: str | None) -> Sql:
    """Return the query for the outcome of an insert, or of another query.

    It returns code and text of the error, or 0; host; seconds; rows and bytes read; peak memory on a node; how often it
    ran. It gives no row until the node that started the query has written its log.
    """
    log, of_query = _on_all_nodes("query_log", cluster), f"initial_query_id = {literal(query_id)}"
    # The log is partitioned by month, and nobody asks for a query older than a month.
    recent = "event_date >= today() - 31 AND type != 'QueryStart'"
    sql = Sql(
        # Text that is not UTF-8 would come as bytes.
        "SELECT anyIf(exception_code, is_initial_query), toValidUTF8(anyIf(exception, is_initial_query)), "
        "anyIf(hostName(), is_initial_query), maxIf(query_duration_ms, is_initial_query) / 1000, "
        "sumIf(read_rows, is_initial_query), sumIf(read_bytes, is_initial_query), max(memory_usage), "
        "countIf(is_initial_query AND type != 'ExceptionBeforeStart') "
        f"FROM {log} WHERE {of_query} AND {recent} "
        "HAVING countIf(is_initial_query) > 0"
    )
    return passed_on(sql, OF_THOSE_UP) if cluster else sql


def _on_all_nodes(system_table: str, cluster: str | None) -> str:
    return f"clusterAllReplicas({literal(cluster)}, system.{system_table})" if cluster else f"system.{system_table}"


class ProgressLines:
    """Write the progress of one insert, line by line: rows once reported as read count until the end."""

    def __init__(self, total_rows: int | None) -> None:
        self._total_rows = total_rows
        self._read_rows = self._read_bytes = 0
        # The initiator counts none of what others write, or all of it once more.
        self._written_rows: dict[int, int] = {}
        self._left_seconds: float | None = None
        self._shards: set[int] = set()

    def line(self, progress: InsertProgress, *, seconds: float) -> str:
        """Return the next line."""
        rows = self._read_rows = max(self._read_rows, progress.read_rows)
        self._read_bytes = max(self._read_bytes, progress.read_bytes)
        for node in progress.nodes:
            self._written_rows[node.shard_num] = max(self._written_rows.get(node.shard_num, 0), node.written_rows)
        total = self._total_rows
        share = f"{100 * rows / total:.0f}% of {total:,} rows" if total else f"{rows:,} rows"
        reading = ", ".join(
            f"shard {node.shard_num}: {node.read_rows:,} rows, {size_text(node.memory_bytes)} of memory"
            for node in progress.nodes
        )
        still = f" (reading: {reading})" if reading else ""
        speed, left = rows / max(seconds, 0.001), self._left(progress, seconds)
        return f"Inserting: {share}, {size_text(self._read_bytes)} read, {speed:,.0f} rows/s{left}{still}"

    def _left(self, progress: InsertProgress, seconds: float) -> str:
        # Only the time left to read: how long the last rows are then computed and sorted does not show.
        rows, total = self._read_rows, self._total_rows
        at_work = {node.shard_num for node in progress.nodes}
        self._shards |= at_work
        if not total or not rows:
            return ""
        if rows >= total:
            return f", {sum(self._written_rows.values()):,} of them written"
        before, self._left_seconds = self._left_seconds, seconds * (total - rows) / rows
        left, said_before = duration_text(self._left_seconds), duration_text(before) if before is not None else ""
        if before is None or before >= self._left_seconds or left == said_before:
            return f", about {left} left to read"
        done = ", ".join(map(str, sorted(self._shards - at_work)))
        reason = f"fewer nodes read, as shard {done} is done" if done and at_work else "reading has become slower"
        return f", about {left} left to read, more than before: {reason}"
