"""Check access to the storage from the worker and from each node, reading little."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_chs3.core.doctor.report import Check, describe_error, in_lines
from airflow_provider_chs3.core.files.object_source import units_of
from airflow_provider_chs3.core.files.source import Source
from airflow_provider_chs3.core.model.error_codes import is_of_storage, is_refused
from airflow_provider_chs3.core.model.models import Node, SettingValues, Unit
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import PARSED, Sql
from airflow_provider_chs3.core.steps.operations import ReadClock, Steps, TimedAnswer, TimeQueryNodes
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError

_SETTINGS: SettingValues = {
    **PARSED,
    "max_threads": 1,
    "use_hive_partitioning": 0,
    # An answer from the cache would say nothing about the storage.
    "use_cache_for_count_from_files": 0,
}


@dataclass(frozen=True)
class StorageProbe:
    """The results of listing and reading."""

    where: str
    options: str = ""
    from_worker: TimedAnswer | None = None
    lists: Mapping[Node, TimedAnswer] = field(default_factory=dict)
    has_object: bool = False
    reads: Mapping[Node, TimedAnswer] = field(default_factory=dict)


def look_at_storage(source: Source, period: Period | None, nodes: Iterable[Node]) -> Steps[StorageProbe]:
    """List a few objects from the worker and every node, and read a small part of one on every node."""
    trial, nodes = source.access_trial(period), tuple(nodes)
    lists, reads = dict[Node, TimedAnswer](), dict[Node, TimedAnswer]()
    listing = trial.list_from_worker()
    worker = None if listing is None else (yield from _timed(listing))
    if nodes and (sql := trial.list_on_server()):
        lists = yield from _ask("List the first objects on every node", sql, nodes, source)
    sql = trial.read_on_server(_objects(worker, lists))
    if nodes and sql:
        reads = yield from _ask("Read a little on every node", sql, nodes, source)
    return StorageProbe(trial.where, trial.options, worker, lists, sql is not None, reads)


def _timed(listing: Steps[Sequence[Unit]]) -> Steps[TimedAnswer]:
    began = yield from ReadClock(name="Read the clock")
    answer: Sequence[Unit] | Chs3Error
    try:
        answer = yield from listing
    except Chs3Error as error:
        answer = error
    ended = yield from ReadClock(name="Read the clock")
    return TimedAnswer(answer, began, ended - began)


def _ask(name: str, sql: Sql, nodes: Iterable[Node], source: Source) -> TimeQueryNodes:
    settings = {**_SETTINGS, **source.kind.probe_settings}
    return TimeQueryNodes(name=name, sql=dict.fromkeys(nodes, sql), settings=settings)


def _objects(worker: TimedAnswer | None, lists: Mapping[Node, TimedAnswer]) -> Sequence[Unit]:
    if worker and not isinstance(worker.answer, Chs3Error):
        return list(worker.answer)
    rows = next((listing.answer for listing in lists.values() if not isinstance(listing.answer, Chs3Error)), ())
    return units_of(rows)


def check_storage(look: StorageProbe, source: Source, *, period: Period | None) -> Check:
    """Check that worker and nodes have access."""
    worker = look.from_worker
    findings = []
    if worker and isinstance(worker.answer, Chs3Error):
        connection = source.kind.connection or f"the connection to {source.kind.title}"
        remedy = f"Check {look.options}, and {connection}."
        findings.append(f"from this machine: {describe_error(worker.answer, remedy)}")
    # A node that cannot list would fail to read for the same reason.
    errors = {
        node: source.explained(error) if isinstance(error, ClickHouseServerError) else error
        for node, error in (_errors(look.reads) | _errors(look.lists)).items()
    }
    findings += [f"from {line}" for line in in_lines(errors, lambda error: _remedy_for(error, source))]
    if not findings and not look.has_object:
        lacks = source.kind.contents.none_found(period, source.pattern)
        findings.append(f"{look.where}: {lacks}: check {look.options}, and --period.")
    summary = f"{look.where}: {', '.join(_describe_access(look, errors))}"
    return Check(name="storage", summary=summary, findings=tuple(findings))


def _remedy_for(error: Chs3Error, source: Source) -> str:
    """Return what to do if the storage does not answer; other errors have their own hints."""
    if not isinstance(error, ClickHouseServerError) or not is_of_storage(error) or is_refused(error):
        return ""
    where = source.server_url or f"the URL of {source.named_collection}"
    return f"Check that {where} is right and reachable from there{source.kind.server_remedy}."


def _errors(timed: Mapping[Node, TimedAnswer]) -> dict[Node, Chs3Error]:
    return {
        node: timed_answer.answer for node, timed_answer in timed.items() if isinstance(timed_answer.answer, Chs3Error)
    }


def _describe_access(look: StorageProbe, errors: Mapping[Node, Chs3Error]) -> Iterator[str]:
    worker = look.from_worker
    if worker is None:
        yield "the servers list, not this machine" if look.lists else "this machine sees its columns"
    elif isinstance(worker.answer, Chs3Error):
        yield "this machine cannot list"
    else:
        yield f"this machine lists in {worker.seconds * 1000:.0f} ms"
    if asked := look.lists or look.reads:
        does = "list and read" if look.lists and look.reads else "list" if look.lists else "read"
        yield f"{len(asked) - len(errors)} of {len(asked)} nodes {does}"
