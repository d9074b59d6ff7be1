"""Count the rows of the period's objects, without a second read if the insert's own reading is proof.

An insert that opened all its files, and received exactly their bytes, has read all of them to the end; rows that cannot
be parsed make it fail. So the rows that it read are the rows of the objects. docs/reference/proof.md has the tests, and
describes what happens if the numbers differ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from airflow_provider_chs3.core.files.describe_files import is_empty
from airflow_provider_chs3.core.files.file_schema import count_rows
from airflow_provider_chs3.core.files.parse_errors import unreadable
from airflow_provider_chs3.core.files.source import Batch
from airflow_provider_chs3.core.load.compressed_frames import FRAMED, Walk, find_damage
from airflow_provider_chs3.core.load.period_load import PeriodLoad
from airflow_provider_chs3.core.load.resume import DoneInsert
from airflow_provider_chs3.core.model.error_codes import MEMORY_LIMIT_EXCEEDED
from airflow_provider_chs3.core.model.models import Node, Unit
from airflow_provider_chs3.core.model.quantities import quantity, size_text
from airflow_provider_chs3.core.sql.quoting import Sql, literal
from airflow_provider_chs3.core.steps.operations import (
    Gather,
    Log,
    ReadBytes,
    Row,
    Sleep,
    SourceRead,
    Steps,
    TryQueryNodes,
)
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError, SourceError, TransientError

#: Servers write their logs every 7.5 s by default.
_LOG_SECONDS = 10
#: A second read takes up to this fraction of the insert's time (measured): waiting for logs takes no longer.
_SECOND_READ_FRACTION = 1 / 3

#: An object as one value, `raw_blob`.
_AS_BLOB = {"file_format": "RawBLOB", "structure": "raw_blob String"}
#: The servers' counter of opened files; the storage's kind has the counter of bytes.
_FILES = "EngineFileLikeReadFiles"


def source_read_of(counters: Mapping[str, int], bytes_event: str | None) -> SourceRead | None:
    """Return the files and bytes that servers read for a statement."""
    if not counters:
        return None
    return SourceRead(counters.get(_FILES, 0), counters.get(bytes_event or "", 0))


def rows_of_source(load: PeriodLoad, done: Sequence[DoneInsert]) -> Steps[tuple[int, str]]:
    """Count the rows of the period's objects, and say how they were counted."""
    reading = load.planned.reading
    if not load.files.manifest.objects:
        return 0, ""
    if reading.rows is not None:
        return reading.rows, "footers"
    yield from _check_ends_of_native(load, done)
    reason = "files={'count_again': True}"
    if not load.policies.count_again:
        reason = yield from _why_not_proven(load, done)
        if not reason:
            return sum(done_insert.stats.read_rows for done_insert in done), "insert"
    yield from Log(name=f"Counting the rows of {load.periods} by reading them a second time: {reason}.")
    return (yield from count_rows(load.files, reading)), "second read"


def _why_not_proven(load: PeriodLoad, done: Sequence[DoneInsert]) -> Steps[str]:
    """Return why the inserts' rows may not be those of the objects; empty if they are."""
    store = load.request.source.kind
    if store.bytes_event is None:
        return f"servers do not count the bytes that they read from {store.title}"
    sizes = {unit.path: unit.size_bytes for unit in load.files.manifest.objects}
    for (_, batch), done_insert in zip(load.planned.reading.batches(load.files), done, strict=True):
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


def _check_ends_of_native(load: PeriodLoad, done: Sequence[DoneInsert]) -> Steps[None]:
    """Check that readers of Native stopped at the ends of objects: an empty block ends both reading and counting."""
    if load.files.format.name != "Native":
        return
    plain = {unit.path: unit for unit in load.files.manifest.objects if load.files.compression_of(unit.path) == "none"}
    for (_, batch), done_insert in zip(load.planned.reading.batches(load.files), done, strict=True):
        objects = [plain[path] for path in batch.paths if path in plain]
        is_all = len(objects) == len(batch.paths)
        if objects and not (is_all and done_insert.stats.read_bytes == sum(unit.size_bytes for unit in objects)):
            yield from _check_unproved(load, (yield from _find_ends_of_native(load, objects)))


def _check_all_was_sent(load: PeriodLoad, read: SourceRead, wanted: SourceRead) -> None:
    """Check that servers received all text: a second read of truncated objects would count the same rows."""
    if read.files == wanted.files and read.size_bytes < wanted.size_bytes and not load.files.format.is_typed:
        raise TransientError(
            f"The servers read {read.size_bytes} bytes of the {read.files} objects of {load.periods}, which have "
            f"{wanted.size_bytes}: the storage cut them off, or they are in a cache of the servers. Nothing was "
            "published. If it is a cache, files={'count_again': True} counts rows by a second read."
        )


def _read_by_logs(load: PeriodLoad, bytes_event: str, batch: Batch, done: DoneInsert) -> Steps[SourceRead | None]:
    """Return how much was read by the nodes' logs, for connections without counters; None if nobody may read them."""
    nodes = load.context.nodes
    # The log is partitioned by month, and no insert takes a month.
    sql = Sql(
        f"SELECT sum(ProfileEvents['{_FILES}']), sum(ProfileEvents['{bytes_event}']) FROM system.query_log "
        f"WHERE initial_query_id = {literal(done.query_id)} AND event_date >= today() - 31 AND type = 'QueryFinish'"
    )
    flushed = yield from _answers("Flush the nodes' query logs", nodes, Sql("SYSTEM FLUSH LOGS query_log"))
    # Without the privilege to flush them, wait for them.
    waits = 0 if len(flushed) == len(nodes) else min(_LOG_SECONDS, int(done.stats.seconds * _SECOND_READ_FRACTION))
    for wait in range(waits + 1):
        rows = yield from _answers(f"Look up what {done.query_id} read", nodes, sql)
        read = SourceRead(sum(row[0] for row in rows), sum(row[1] for row in rows))
        if len(rows) < len(nodes) or read.files >= len(batch.paths):
            break
        if wait < waits:
            yield from Sleep(name="Wait for the nodes' logs", seconds=1)
    return read if len(rows) == len(nodes) and read.files else None


def _answers(name: str, nodes: Collection[Node], sql: Sql) -> Steps[list[Row]]:
    """Return a row for every node that answers; empty if the node has none."""
    answers = yield from TryQueryNodes(name=name, sql=dict.fromkeys(nodes, sql))
    return [answer[0] if answer else () for answer in answers.values() if not isinstance(answer, Chs3Error)]


#: Concurrent requests of the worker, which mostly wait for the storage.
_AT_A_TIME = 16
#: The most that a server passes on: it holds an object in memory up to three times (measured).
_MOST_HANDED_BYTES = 128 * 1024**2
#: The most of Native that a server holds so, uncompressed, to find its end.
_MOST_NATIVE_BYTES = 32 * 1024**2
_CUT_OFF = (32, 33)
_WITH_GZIP = "Compress it with gzip"
_NATIVE, _SNAPPY, _XZ = "Native", "snappy", "xz"
#: The footer of a stream of xz, before optional zeros. Servers detect truncated streams except within the header.
_END_OF_XZ, _LOOKED_AT_BYTES = b"YZ", 4096


def prove_whole(load: PeriodLoad) -> Steps[None]:
    """Check that the load's objects end as their codec demands, before anything else is read from them.

    Servers would load compressed ones that were cut off. docs/reference/proof.md lists what codecs and formats detect
    by themselves, and how the rest is proved.
    """
    files = load.files
    if files.format.has_footer or not files.source.has_files:
        return
    codecs = [(unit, files.compression_of(unit.path)) for unit in files.manifest.objects]
    walked = [unit for unit, name in codecs if name == _XZ or name in FRAMED]
    blocks = [unit for unit, name in codecs if files.format.name == _NATIVE and name != "none"]
    of_snappy = f"Snappy in Hadoop's framing has no mark at its end. {_WITH_GZIP}"
    unproved = {unit.path: of_snappy for unit, name in codecs if name == _SNAPPY}
    unproved |= yield from _walk_objects(load, walked)
    unproved |= yield from _find_ends_of_native(load, blocks)
    yield from _check_unproved(load, unproved)


def _check_unproved(load: PeriodLoad, unproved: Mapping[str, str]) -> Steps[None]:
    """Refuse objects that nothing proves to be whole, unless the user accepts them."""
    if not unproved:
        return
    path, reason = next(iter(unproved.items()))
    others = f" ({len(unproved) - 1} more like it)" if len(unproved) > 1 else ""
    if load.policies.unproved_codecs != "load":
        raise SourceError(
            f"Nothing proves that {path} was not cut off{others}: {reason}, or load it anyway with "
            "files={'unproved_codecs': 'load'}."
        )
    yield from Log(
        name=f"Nothing proves that {path} was not cut off{others}: {reason}. "
        "files={'unproved_codecs': 'load'} loads it."
    )


def _walk_objects(load: PeriodLoad, walked: Sequence[Unit]) -> Steps[dict[str, str]]:
    if not walked:
        return {}
    by_worker = load.files.source.for_worker(walked[0].path) is not None
    size = size_text(sum(unit.size_bytes for unit in walked))
    objects = quantity(len(walked), "compressed object")
    what = f"{objects} of {load.periods} {'is' if len(walked) == 1 else 'are'} whole, as the servers do not"
    how = f"the worker reads at most {size}" if by_worker else f"a server hands over {size}, one object at a time"
    yield from Log(name=f"Checking that {what}: {how}.")
    # A server holds the object in memory.
    number = min(_AT_A_TIME, len(walked)) if by_worker else 1
    lanes = tuple(_walk_lane(load, walked[first::number], connections=_AT_A_TIME // number) for first in range(number))
    results = yield from Gather(name="Find where compressed objects end", workflows=lanes)
    return {path: reason for result in results for path, reason in result.items()}


def _walk_lane(load: PeriodLoad, walked: Sequence[Unit], connections: int) -> Steps[dict[str, str]]:
    unproved = dict[str, str]()
    for unit in walked:
        codec = FRAMED.get(load.files.compression_of(unit.path))
        walk = find_damage(codec, unit.size_bytes) if codec else _find_end_of_xz(unit.size_bytes)
        body = b""
        if load.files.source.for_worker(unit.path) is None:
            handed = yield from _read_through_server(load, unit)
            if isinstance(handed, str):
                # Servers detect nearly all truncated xz.
                if codec:
                    unproved[unit.path] = handed
                continue
            body = handed
        if damage := (yield from _run_walk(load, unit, walk, body, connections)):
            raise SourceError(
                f"{unit.path} was cut off, or is damaged: {damage}. Write it again. The period was not published."
            )
    return unproved


def _run_walk(load: PeriodLoad, unit: Unit, walk: Walk, body: bytes, connections: int) -> Steps[str]:
    """Run a walk over bytes from a server, or bytes that the worker reads; return the damage."""
    place = load.files.source.for_worker(unit.path)
    try:
        start, length = next(walk)
        while True:
            if place is not None:
                # HDFS has no bucket.
                bucket, key = place
                name = f"Read {unit.path} from byte {start}"
                pieces = yield from ReadBytes(
                    name=name, bucket=bucket, key=key, start=start, length=length, connections=connections
                )
            else:
                pieces = iter((body[start : start + length],))
            start, length = walk.send(pieces)
    except StopIteration as end:
        return str(end.value)


def _read_through_server(load: PeriodLoad, unit: Unit) -> Steps[bytes | str]:
    """Read an object through a server; return a text if that is impossible."""
    files = replace(load.files, compression="none")
    if unit.size_bytes > _MOST_HANDED_BYTES:
        return f"only the servers have access, and one passes on at most {size_text(_MOST_HANDED_BYTES)}. {_WITH_GZIP}"
    sql = files.select_one(unit.path, "raw_blob", **_AS_BLOB)
    try:
        rows = yield from files.look(f"Read {unit.path} through a server", sql, on_cluster=False)
    except ClickHouseServerError as error:
        if error.code != MEMORY_LIMIT_EXCEEDED:
            raise
        return (
            f"only the servers have access, and lack the memory to pass on {size_text(unit.size_bytes)}. {_WITH_GZIP}"
        )
    body = rows[0][0] if rows else b""
    # The driver decodes valid UTF-8.
    return body if isinstance(body, bytes) else str(body).encode()


def _find_end_of_xz(size_bytes: int) -> Walk:
    """Check that an object ends with the footer of a stream: servers ignore a stream truncated in its header."""
    start = max(0, size_bytes - _LOOKED_AT_BYTES)
    tail = b"".join((yield start, size_bytes - start))
    stream = tail.rstrip(b"\0")
    # Padding is a multiple of four zeros.
    is_whole = stream.endswith(_END_OF_XZ) and (len(tail) - len(stream)) % 4 == 0
    return "" if is_whole else "it does not end with an xz footer"


def _find_ends_of_native(load: PeriodLoad, objects: Sequence[Unit]) -> Steps[dict[str, str]]:
    """Check that readers of Native do not stop before the end of an object, as they do at an empty block.

    An extra byte makes an object look truncated if it is read to the end; without that error, the reader stopped
    earlier. Returns the objects that are too large for this: path → reason.
    """
    files, unproved = load.files, dict[str, str]()
    for unit in objects:
        if unit.size_bytes > _MOST_NATIVE_BYTES:
            most = size_text(_MOST_NATIVE_BYTES)
            unproved[unit.path] = (
                f"the servers check at most {most} of Native by itself. Write it in pieces, or without compression"
            )
            continue
        more = files.select_one(unit.path, "concat(any(raw_blob), 'x')", **_AS_BLOB)
        sql = more.between(f"SELECT count() FROM format({literal(_NATIVE)}, (", "))")
        answer = yield from files.try_look(f"Find where {unit.path} ends", sql, on_cluster=False)
        if not isinstance(answer, ClickHouseServerError):
            raise SourceError(
                f"{unit.path} holds an empty block, or zeros, at which readers of Native stop: the rows after it would "
                "be missing. Write it again. The period was not published."
            )
        if answer.code not in _CUT_OFF and not (yield from is_empty(files, unit.path)):
            raise SourceError(unreadable(unit.path, files.format, answer)) from answer
    return unproved
