"""Check access to the storage from the worker and from each node, reading little."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from airflow_provider_chs3.core.doctor.report import Check, describe_error, in_lines
from airflow_provider_chs3.core.source.formats import format_of_key
from airflow_provider_chs3.core.source.globs import plain_prefix
from airflow_provider_chs3.core.source.object_source import ObjectSource
from airflow_provider_chs3.core.source.store_kinds import S3
from airflow_provider_chs3.core.sql.quoting import PARSED, Sql
from airflow_provider_chs3.core.values.error_codes import is_of_storage, is_refused
from airflow_provider_chs3.core.values.models import Month, Node, S3Object, SettingValues
from airflow_provider_chs3.core.workflow.operations import Steps, TimedAnswer, TimeListing, TimeQueryNodes
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError, ConfigurationError

#: With one thread, a server stops listing at this number of objects.
_OBJECTS_TO_LIST = 100

_SETTINGS: SettingValues = {
    **PARSED,
    "max_threads": 1,
    "use_hive_partitioning": 0,
    # An answer from the cache would say nothing about the storage.
    "use_cache_for_count_from_files": 0,
}


@dataclass(frozen=True)
class StorageProbe:
    """The results of listing and reading.

    Args:
        prefix: Prefix of the keys that were listed.
        from_worker: The worker's listing; None if the servers list.
        lists: The listing of each node.
        path: A small object that matches; empty if none was found.
        reads: The part of it that each node read.
    """

    prefix: str
    from_worker: TimedAnswer | None = None
    lists: Mapping[Node, TimedAnswer] = field(default_factory=dict)
    path: str = ""
    reads: Mapping[Node, TimedAnswer] = field(default_factory=dict)


def look_at_storage(source: ObjectSource, month: Month | None, nodes: Iterable[Node]) -> Steps[StorageProbe]:
    """List the first objects from the worker and every node, and read a small part of one on every node.

    Args:
        source: The source of the objects.
        month: The month whose objects are listed; None lists those of any month.
        nodes: The nodes that answer.
    """
    keys = source.template.keys_of(month) if month else source.template.keys_of_all
    look = StorageProbe(keys.prefix)
    if not source.lists_through_clickhouse:
        where = f"{source.url}/{keys.prefix}"
        timed = yield from TimeListing(name=f"List objects under {where}", bucket=source.bucket, prefix=keys.prefix)
        look = replace(look, from_worker=timed)
    nodes = tuple(nodes)
    if nodes:
        look = replace(look, lists=(yield from _list(source, keys.prefix, nodes)))
    found = sorted(_objects(look), key=lambda each: each.size_bytes)
    source = replace(source, base=source.base_of(found, plain_prefix(keys.prefix)))
    fitting = [each for each in found if keys.select(each.path[len(source.base) :], each.size_bytes)]
    if not fitting:
        return look
    look = replace(look, path=fitting[0].path)
    return replace(look, reads=(yield from _read(source, look.path, nodes))) if nodes else look


def _list(source: ObjectSource, prefix: str, nodes: Iterable[Node]) -> TimeQueryNodes:
    function = source.table_function(f"{plain_prefix(prefix)}**", file_format="One")
    text = (
        f"SELECT {source.kind.path}, _size, _etag, toUnixTimestamp(_time) FROM {function.text} LIMIT {_OBJECTS_TO_LIST}"
    )
    sql = Sql(text, function.secrets)
    return TimeQueryNodes(
        name="List the first objects on every node",
        sql=dict.fromkeys(nodes, sql),
        settings={**_SETTINGS, **source.kind.probe_settings},
    )


def _read(source: ObjectSource, path: str, nodes: Iterable[Node]) -> TimeQueryNodes:
    """Read the footer of Parquet, or the first line of other files."""
    glob = source.glob_of(path)
    if _is_parquet(path):
        function = source.table_function(glob, file_format="ParquetMetadata")
        sql = Sql(f"SELECT num_rows FROM {function.text} LIMIT 1", function.secrets)
    else:
        function = source.table_function(glob, file_format="LineAsString", structure="line String")
        sql = Sql(f"SELECT length(line) FROM {function.text} LIMIT 1", function.secrets)
    settings = {**_SETTINGS, **source.kind.probe_settings}
    return TimeQueryNodes(name=f"Read from {path} on every node", sql=dict.fromkeys(nodes, sql), settings=settings)


def _is_parquet(path: str) -> bool:
    try:
        return format_of_key(path).name == "Parquet"
    except ConfigurationError:
        return False


def _objects(look: StorageProbe) -> list[S3Object]:
    if look.from_worker and not isinstance(look.from_worker.answer, Chs3Error):
        return list(look.from_worker.answer)
    rows = next((each.answer for each in look.lists.values() if not isinstance(each.answer, Chs3Error)), ())
    return [
        S3Object(path, size, etag.strip('"'), datetime.fromtimestamp(written, UTC))
        for path, size, etag, written in rows
    ]


def check_storage(look: StorageProbe, source: ObjectSource, *, month: Month | None) -> Check:
    """Check that worker and nodes have access.

    Args:
        look: The results of listing and reading.
        source: The source of the objects.
        month: The month that was listed; None for any.
    """
    where = f"{source.place}/{look.prefix}"
    worker = look.from_worker
    findings = []
    if worker and isinstance(worker.answer, Chs3Error):
        findings.append(f"from this machine: {describe_error(worker.answer, _remedies(source)[0])}")
    # A node that cannot list would fail to read for the same reason.
    errors = _errors(look.reads) | _errors(look.lists)
    findings += [f"from {line}" for line in in_lines(errors, lambda error: _remedy_for(error, source))]
    if not findings and not look.path:
        of = f" of {month}" if month else ""
        findings.append(f"{where}: no object{of} fits {source.template.text!r}: check bucket, key and month.")
    return Check(
        name="storage", summary=f"{where}: {', '.join(_describe_access(look, errors))}", findings=tuple(findings)
    )


def _remedy_for(error: Chs3Error, source: ObjectSource) -> str:
    """Return what to do if the storage does not answer; other errors have their own hints."""
    if not isinstance(error, ClickHouseServerError) or not is_of_storage(error) or is_refused(error):
        return ""
    where = source.server_url or f"the URL of {source.named_collection}"
    return f"Check that {where} is right and reachable from there{_remedies(source)[1]}."


def _remedies(source: ObjectSource) -> tuple[str, str]:
    """Return what to do where the worker cannot list, and what else to do where a node does not get an answer."""
    if source.kind is S3:
        return (
            "Check --bucket and the AWS connection: keys, endpoint_url, region_name.",
            "; endpoint_url sets the URL for servers only",
        )
    return f"Check the connection to {source.kind.title}, and --key.", ""


def _errors(timed: Mapping[Node, TimedAnswer]) -> dict[Node, Chs3Error]:
    return {node: each.answer for node, each in timed.items() if isinstance(each.answer, Chs3Error)}


def _describe_access(look: StorageProbe, errors: Mapping[Node, Chs3Error]) -> Iterator[str]:
    worker = look.from_worker
    if worker is None:
        yield "the servers list, not this machine"
    elif isinstance(worker.answer, Chs3Error):
        yield "this machine cannot list"
    else:
        yield f"this machine lists in {worker.seconds * 1000:.0f} ms"
    if look.lists:
        well = len(look.lists) - len(errors)
        yield f"{well} of {len(look.lists)} nodes list{' and read' if look.reads else ''}"
