"""Count the rows of the period's objects, without a second read if the insert's own reading is proof.

An insert that opened all its files, and received exactly their bytes, has read all of them to the end; rows that cannot
be parsed make it fail. So the rows that it read are the rows of the objects. docs/reference/proof.md has the tests, and
describes what happens if the numbers differ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_chs3.core.files.file_groups import Reading
from airflow_provider_chs3.core.files.file_schema import count_rows
from airflow_provider_chs3.core.files.reading import Batch
from airflow_provider_chs3.core.load.period_load import PeriodLoad
from airflow_provider_chs3.core.load.resume import DoneInsert
from airflow_provider_chs3.core.load.whole_objects import check_unproved, find_ends_of_native
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.sql.quoting import Sql, literal
from airflow_provider_chs3.core.steps.operations import Log, Row, Sleep, SourceRead, Steps, TryQueryNodes
from airflow_provider_chs3.exceptions import Chs3Error, TransientError

#: The footers of Parquet have the rows;
FOOTERS = "footers"
#: or the insert counted them;
INSERT = "insert"
#: or another read did.
SECOND_READ = "second read"

#: Servers write their logs every 7.5 s by default.
_LOG_SECONDS = 10
#: A second read takes up to this fraction of the insert's time (measured): waiting for logs takes no longer.
_SECOND_READ_FRACTION = 1 / 3

#: The servers' counter of opened files; the storage's kind has the counter of bytes.
_FILES = "EngineFileLikeReadFiles"


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The rows of the period's objects."""

    rows: int
    counted_by: str


def source_read_of(counters: Mapping[str, int], bytes_event: str | None) -> SourceRead | None:
    """Return the files and bytes that servers read for a statement."""
    if not counters:
        return None
    return SourceRead(counters.get(_FILES, 0), counters.get(bytes_event or "", 0))


def rows_of_source(load: PeriodLoad, reading: Reading, done: Sequence[DoneInsert]) -> Steps[SourceRows]:
    """Count the rows of the period's objects.

    Raises:
        TransientError: If the servers did not receive all bytes of the objects.
    """
    if not load.files.manifest.objects:
        return SourceRows(0, "")
    if reading.rows is not None:
        return SourceRows(reading.rows, FOOTERS)
    yield from _check_ends_of_native(load, reading, done)
    reason = "files={'count_again': True}"
    if not load.policies.count_again:
        reason = yield from _why_not_proven(load, reading, done)
        if not reason:
            return SourceRows(sum(done_insert.stats.read_rows for done_insert in done), INSERT)
    yield from Log(name=f"Counting the rows of {load.periods} by reading them a second time: {reason}.")
    return SourceRows((yield from count_rows(load.files, reading)), SECOND_READ)


def _why_not_proven(load: PeriodLoad, reading: Reading, done: Sequence[DoneInsert]) -> Steps[str]:
    """Return why the inserts' rows may not be those of the objects; empty if they are."""
    store = load.request.source.kind
    if store.bytes_event is None:
        return f"servers do not count the bytes that they read from {store.title}"
    sizes = {unit.path: unit.size_bytes for unit in load.files.manifest.objects}
    for (_, batch), done_insert in zip(reading.batches(load.files), done, strict=True):
        read = done_insert.stats.source or (yield from _read_by_logs(load, store.bytes_event, batch, done_insert))
        wanted = SourceRead(len(batch.paths), sum(sizes[path] for path in batch.paths))
        if read is None:
            return f"no server reports what {done_insert.query_id} read"
        if read != wanted:
            _check_all_was_sent(load, read, wanted)
            return (
                f"{done_insert.query_id} read {read.size_bytes} bytes of {read.files} objects, which are not the "
                f"{wanted.size_bytes} bytes of {wanted.files}"
            )
    return ""


def _check_ends_of_native(load: PeriodLoad, reading: Reading, done: Sequence[DoneInsert]) -> Steps[None]:
    """Check that readers of Native stopped at the ends of objects: an empty block ends both reading and counting.

    Raises:
        SourceError: If a reader stopped earlier.
    """
    if load.files.format.name != "Native":
        return
    plain = {unit.path: unit for unit in load.files.manifest.objects if load.files.compression_of(unit.path) == "none"}
    for (_, batch), done_insert in zip(reading.batches(load.files), done, strict=True):
        objects = [plain[path] for path in batch.paths if path in plain]
        is_all = len(objects) == len(batch.paths)
        if objects and not (is_all and done_insert.stats.read_bytes == sum(unit.size_bytes for unit in objects)):
            yield from check_unproved(load, (yield from find_ends_of_native(load, objects)))


def _check_all_was_sent(load: PeriodLoad, read: SourceRead, wanted: SourceRead) -> None:
    """Check that servers received all text: a second read of truncated objects would count the same rows."""
    if read.files == wanted.files and read.size_bytes < wanted.size_bytes and not load.files.format.is_typed:
        raise TransientError(
            f"The servers read {read.size_bytes} bytes of the {read.files} objects of {load.periods}, which have "
            f"{wanted.size_bytes}: the storage cut them off, or they are in a cache of the servers. Nothing was "
            "published. If it is a cache, files={'count_again': True} counts rows by a second read."
        )


def _read_by_logs(load: PeriodLoad, bytes_event: str, batch: Batch, done: DoneInsert) -> Steps[SourceRead | None]:
    """Return how much was read by the nodes' logs, for connections without counters, such as HTTP.

    Without the privilege to flush logs, this waits for them; without the privilege to read them, the result is None.
    """
    nodes = load.context.nodes
    flushed = yield from _answers("Flush the nodes' query logs", nodes, Sql("SYSTEM FLUSH LOGS query_log"))
    waits = 0 if len(flushed) == len(nodes) else min(_LOG_SECONDS, int(done.stats.seconds * _SECOND_READ_FRACTION))
    for wait in range(waits + 1):
        rows = yield from _answers(f"Look up what {done.query_id} read", nodes, _look_up(done.query_id, bytes_event))
        read = SourceRead(sum(row[0] for row in rows), sum(row[1] for row in rows))
        if len(rows) < len(nodes) or read.files >= len(batch.paths):
            break
        if wait < waits:
            yield from Sleep(name="Wait for the nodes' logs", seconds=1)
    return read if len(rows) == len(nodes) and read.files else None


def _look_up(query_id: str, bytes_event: str) -> Sql:
    # The log is partitioned by month, and no insert takes a month.
    return Sql(
        f"SELECT sum(ProfileEvents['{_FILES}']), sum(ProfileEvents['{bytes_event}']) FROM system.query_log "
        f"WHERE initial_query_id = {literal(query_id)} AND event_date >= today() - 31 AND type = 'QueryFinish'"
    )


def _answers(name: str, nodes: Collection[Node], sql: Sql) -> Steps[list[Row]]:
    """Return a row for every node that answers; empty if the node has none."""
    answers = yield from TryQueryNodes(name=name, sql=dict.fromkeys(nodes, sql))
    return [answer[0] if answer else () for answer in answers.values() if not isinstance(answer, Chs3Error)]
