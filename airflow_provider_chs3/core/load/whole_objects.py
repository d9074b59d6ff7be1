"""Prove that compressed objects were not cut off, if servers would load a truncated one.

docs/reference/proof.md lists what codecs and formats detect by themselves, and how the rest is proved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from airflow_provider_chs3.core.files.describe_files import is_empty
from airflow_provider_chs3.core.files.parse_errors import unreadable
from airflow_provider_chs3.core.load.frames import FRAMED, Walk, find_damage
from airflow_provider_chs3.core.load.period_load import PeriodLoad
from airflow_provider_chs3.core.model.error_codes import MEMORY_LIMIT_EXCEEDED, is_of_servers
from airflow_provider_chs3.core.model.models import Unit
from airflow_provider_chs3.core.model.quantities import quantity, size_text
from airflow_provider_chs3.core.sql.quoting import literal
from airflow_provider_chs3.core.steps.operations import Gather, Log, ReadBytes, Steps
from airflow_provider_chs3.exceptions import ClickHouseServerError, SourceError

#: Concurrent requests of the worker, which mostly wait for the storage.
_AT_A_TIME = 16
#: A server holds an object in memory up to three times to pass it on (measured),
_MOST_HANDED_BYTES = 128 * 1024**2
#: and uncompressed Native, too, to find its end.
_MOST_NATIVE_BYTES = 32 * 1024**2
#: Error codes of ClickHouse for an incomplete block.
_CUT_OFF = (32, 33)
_WITH_GZIP = "Compress it with gzip"
_NATIVE, _SNAPPY, _XZ = "Native", "snappy", "xz"
#: The footer of a stream of xz, before optional zeros. Servers detect truncated streams except within the header.
_END_OF_XZ, _LOOKED_AT_BYTES = b"YZ", 4096


def prove_whole(load: PeriodLoad) -> Steps[None]:
    """Check that the load's objects end as their codec demands, before anything else is read from them.

    Raises:
        SourceError: If an object is cut off, or nothing can prove that it is not.
    """
    files, unproved = load.files, dict[str, str]()
    if files.format.has_footer or not files.source.has_files:
        return
    walked = list[Unit]()
    blocks = list[Unit]()
    for unit in files.manifest.objects:
        name = files.compression_of(unit.path)
        if name == _SNAPPY:
            unproved[unit.path] = f"Snappy in Hadoop's framing has no mark at its end. {_WITH_GZIP}"
        elif name == _XZ or name in FRAMED:
            walked.append(unit)
        if files.format.name == _NATIVE and name != "none":
            blocks.append(unit)
    unproved |= yield from _walk_objects(load, walked)
    unproved |= yield from find_ends_of_native(load, blocks)
    yield from check_unproved(load, unproved)


def check_unproved(load: PeriodLoad, unproved: Mapping[str, str]) -> Steps[None]:
    """Refuse objects that nothing proves to be whole, unless the user accepts them.

    Raises:
        SourceError: If there are such objects.
    """
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
    lanes = tuple(
        _walk_lane(load, list(islice(walked, first, None, number)), connections=_AT_A_TIME // number)
        for first in range(number)
    )
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
    blob = files.read(
        files.source.glob_of(unit.path), file_format="RawBLOB", structure="raw_blob String", on_cluster=False
    )
    sql = blob.between("SELECT raw_blob FROM ", f" WHERE {files.source.condition_of(unit.path)}")
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


def find_ends_of_native(load: PeriodLoad, objects: Sequence[Unit]) -> Steps[dict[str, str]]:
    """Check that readers of Native do not stop before the end of an object, as they do at an empty block.

    An extra byte makes an object look truncated if it is read to the end; without that error, the reader stopped
    earlier.

    Returns:
        Objects that are too large for this: path → reason.

    Raises:
        SourceError: If a reader stops before the end.
    """
    files, unproved = load.files, dict[str, str]()
    for unit in objects:
        if unit.size_bytes > _MOST_NATIVE_BYTES:
            most = size_text(_MOST_NATIVE_BYTES)
            unproved[unit.path] = (
                f"the servers check at most {most} of Native by itself. Write it in pieces, or without compression"
            )
            continue
        blob = files.read(
            files.source.glob_of(unit.path), file_format="RawBLOB", structure="raw_blob String", on_cluster=False
        )
        more = f"SELECT count() FROM format({literal(_NATIVE)}, (SELECT concat(any(raw_blob), 'x') FROM "
        sql = blob.between(more, f" WHERE {files.source.condition_of(unit.path)}))")
        try:
            yield from files.look(f"Find where {unit.path} ends", sql, on_cluster=False)
        except ClickHouseServerError as error:
            if is_of_servers(error):
                raise
            if error.code not in _CUT_OFF and not (yield from is_empty(files, unit.path)):
                raise SourceError(unreadable(unit.path, files.format, error)) from error
        else:
            raise SourceError(
                f"{unit.path} holds an empty block, or zeros, at which readers of Native stop: the rows after it would "
                "be missing. Write it again. The period was not published."
            )
    return unproved
