"""Prove that compressed objects were not cut off, where the servers would load what is left of one.

docs/protocol.md says what each codec and format notices by itself, and what proves the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from airflow_provider_chs3.core.attempt.load_context import LoadContext
from airflow_provider_chs3.core.files.parse_errors import unreadable
from airflow_provider_chs3.core.proof.frames import FRAMED, Codec, find_damage
from airflow_provider_chs3.core.sql.quoting import Sql, literal
from airflow_provider_chs3.core.values.error_codes import is_of_servers
from airflow_provider_chs3.core.values.models import S3Object
from airflow_provider_chs3.core.values.quantities import quantity, size_text
from airflow_provider_chs3.core.workflow.operations import Gather, Log, ReadBytes, Steps
from airflow_provider_chs3.exceptions import ClickHouseServerError, SourceError

#: Objects that the worker reads at the same time: each waits for the storage nearly all of its time.
_AT_A_TIME = 16
#: A server holds a whole object of Native in memory, several times and uncompressed, to look for its end.
_MOST_NATIVE_BYTES = 32 * 1024**2
#: What ClickHouse says where a block is begun and not ended.
_CUT_OFF = (32, 33)
_NATIVE, _SNAPPY, _XZ = "Native", "snappy", "xz"
#: What a stream of xz ends with, before zeros that may follow it. Servers notice that a stream was cut off anywhere but
#: in its header.
_END_OF_XZ, _LOOKED_AT_BYTES = b"YZ", 4096


def prove_whole(load: LoadContext) -> Steps[None]:
    """Check that the load's objects end where their codec says so, before anything else is read of them.

    Args:
        load: The load.

    Raises:
        SourceError: If one is cut off, or nothing can prove that it is not.
    """
    files, unproved = load.files, dict[str, str]()
    if files.format.has_footer or not files.source.has_files:
        return
    walked = list[tuple[S3Object, Codec]]()
    blocks = list[S3Object]()
    ends = list[S3Object]()
    for each in files.manifest.objects:
        name = files.compression_of(each.path)
        if name == _SNAPPY:
            unproved[each.path] = "Snappy in Hadoop's framing has no mark at its end"
        elif name == _XZ and files.source.for_worker(each.path):
            ends.append(each)
        elif name in FRAMED and files.source.for_worker(each.path):
            walked.append((each, FRAMED[name]))
        elif name in FRAMED:
            unproved[each.path] = (
                f"the servers do not tell whether {FRAMED[name].title} data ends, and only they get in"
            )
        if files.format.name == _NATIVE and (name != "none" or load.request.policies.write_mode == "append"):
            blocks.append(each)
    yield from _walk(load, walked)
    yield from _check_ends_of_xz(load, ends)
    unproved |= yield from find_ends_of_native(load, blocks)
    yield from check_unproved(load, unproved)


def check_unproved(load: LoadContext, unproved: Mapping[str, str]) -> Steps[None]:
    """Refuse what nothing proves to be whole, unless the user takes it.

    Args:
        load: The load.
        unproved: Object → why.

    Raises:
        SourceError: If there is one.
    """
    if not unproved:
        return
    path, why = next(iter(unproved.items()))
    others = f" ({len(unproved) - 1} more like it)" if len(unproved) > 1 else ""
    if load.request.policies.unproved_codecs != "load":
        raise SourceError(
            f"Nothing proves that {path} was not cut off{others}: {why}. Compress it with gzip, or load it all the "
            "same with unproved_codecs='load'."
        )
    yield from Log(name=f"Nothing proves that {path} was not cut off{others}: {why}. unproved_codecs='load' loads it.")


def _walk(load: LoadContext, walked: Sequence[tuple[S3Object, Codec]]) -> Steps[None]:
    if not walked:
        return
    size = size_text(sum(each.size_bytes for each, _ in walked))
    yield from Log(
        name=f"The worker looks where the {quantity(len(walked), 'compressed object')} of {load.months} end, as the "
        f"servers do not: it reads {size} at most."
    )
    lanes = tuple(
        _walk_each(load, lane) for first in range(_AT_A_TIME) if (lane := list(islice(walked, first, None, _AT_A_TIME)))
    )
    yield from Gather(name="Look where compressed objects end", workflows=lanes)


def _walk_each(load: LoadContext, walked: Sequence[tuple[S3Object, Codec]]) -> Steps[None]:
    for each, codec in walked:
        bucket, key = load.files.source.for_worker(each.path) or ("", "")
        walk = find_damage(codec, each.size_bytes)
        try:
            start, length = next(walk)
            while True:
                body = yield from ReadBytes(
                    name=f"Read {each.path} from byte {start}", bucket=bucket, key=key, start=start, length=length
                )
                start, length = walk.send(body)
        except StopIteration as end:
            if end.value:
                raise SourceError(
                    f"{each.path} was cut off, or is damaged: {end.value}. Write it again. Nothing was published."
                ) from None


def _check_ends_of_xz(load: LoadContext, objects: Sequence[S3Object]) -> Steps[None]:
    """Check that objects end in the footer of a stream: servers load one that ends in a header without this stream."""
    for each in objects:
        bucket, key = load.files.source.for_worker(each.path) or ("", "")
        start = max(0, each.size_bytes - _LOOKED_AT_BYTES)
        tail = yield from ReadBytes(
            name=f"Read the end of {each.path}", bucket=bucket, key=key, start=start, length=each.size_bytes - start
        )
        stream = tail.rstrip(b"\0")
        # Zeros come by fours.
        if not stream.endswith(_END_OF_XZ) or (len(tail) - len(stream)) % 4:
            raise SourceError(
                f"{each.path} was cut off, or is damaged: no footer of xz ends it. Write it again. Nothing was "
                "published."
            )


def find_ends_of_native(load: LoadContext, objects: Sequence[S3Object]) -> Steps[dict[str, str]]:
    """Check that a reader of Native does not stop before the end of an object, as it does at an empty block.

    With a byte more an object is cut off, and an error, if it was read to its end; if it was not, it is none.

    Args:
        load: The load.
        objects: The objects, whose blocks can be read.

    Returns:
        Objects that are too large for this: path → why nothing is proved.

    Raises:
        SourceError: If a reader stops before the end.
    """
    files, unproved = load.files, dict[str, str]()
    for each in objects:
        if each.size_bytes > _MOST_NATIVE_BYTES:
            unproved[each.path] = f"of compressed Native the servers look at {size_text(_MOST_NATIVE_BYTES)} at most"
            continue
        blob = files.read(
            files.source.glob_of(each.path), file_format="RawBLOB", structure="raw_blob String", on_cluster=False
        )
        more = f"SELECT concat(any(raw_blob), 'x') FROM {blob.text} WHERE {files.source.condition_of(each.path)}"
        sql = Sql(f"SELECT count() FROM format({literal(_NATIVE)}, ({more}))", blob.secrets)
        try:
            yield from files.look(f"Look where {each.path} ends", sql, on_cluster=False)
        except ClickHouseServerError as error:
            if is_of_servers(error):
                raise
            if error.code not in _CUT_OFF:
                raise SourceError(unreadable(each.path, files.format, error)) from error
        else:
            raise SourceError(
                f"{each.path} holds an empty block, or zeros, at which readers of Native stop: the rows after it would "
                "be missing. Write it again. Nothing was published."
            )
    return unproved
