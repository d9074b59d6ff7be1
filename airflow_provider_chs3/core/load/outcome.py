"""The outcome of a load, as a result and in the ledger: what it did, or why it failed."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping

from airflow_provider_chs3.core.attempt.insert_plan import InsertPlan
from airflow_provider_chs3.core.attempt.load_context import LoadContext, values_of
from airflow_provider_chs3.core.insertion.insert import Inserted, Verified
from airflow_provider_chs3.core.ledger.partition_state import PartitionState
from airflow_provider_chs3.core.ledger.recording import NewRecord
from airflow_provider_chs3.core.ledger.records import NEWEST_FIRST
from airflow_provider_chs3.core.ledger.table import make_ledger
from airflow_provider_chs3.core.pace.past_loads import SLOW_SECONDS
from airflow_provider_chs3.core.pace.records import read_pace
from airflow_provider_chs3.core.sql.quoting import Sql, literal, table
from airflow_provider_chs3.core.staging.tables import holds_any
from airflow_provider_chs3.core.values.error_codes import hint_of, is_terminal
from airflow_provider_chs3.core.values.load_result import LoadResult
from airflow_provider_chs3.core.values.models import Node, SettingValues
from airflow_provider_chs3.core.values.quantities import objects_text, quantity, size_text
from airflow_provider_chs3.core.workflow.operations import Log, QueryNodes, Steps
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError, SupersededError

#: Servers may quote statements of any length.
_ERROR_CHARACTERS = 4_000


def result_of(
    load: LoadContext,
    states: Mapping[Node, PartitionState],
    *,
    status: str,
    reason: str,
    plan: InsertPlan | None = None,
    inserted: Inserted | None = None,
    verified: Verified | None = None,
) -> LoadResult:
    """Create the result of a load.

    Args:
        load: The load.
        states: The month's partition on each node; empty if it appended.
        status: As in `LoadResult`.
        reason: The reason why it was loaded or not.
        plan: The plan of the insert; None if nothing was inserted.
        inserted: What the inserts did.
        verified: What was staged, and how its rows were counted.
    """
    manifest, read = load.manifest, load.files.manifest
    # A row counts once, however many replicas have it.
    once = load.context.publishers
    rows = sum(state.rows for node, state in states.items() if node in once)
    return LoadResult(
        status=status,
        month=load.request.month,
        target=load.context.target,
        reason=reason,
        fingerprint=manifest.fingerprint,
        objects=load.object_count(manifest),
        source_bytes=manifest.size_bytes,
        rows=inserted.stats.read_rows if inserted and not states else rows,
        loaded_objects=load.object_count(read) if inserted else 0,
        loaded_bytes=read.size_bytes if inserted else 0,
        loaded_rows=(verified.rows if verified else inserted.stats.read_rows) if inserted else 0,
        object_changes=load.changes.counts if load.changes else {},
        rows_by_node={str(node): state.rows for node, state in states.items()},
        other_month_rows=sum(sum(verified.staged[node].other_rows.values()) for node in once) if verified else 0,
        parts=sum(state.parts for state in states.values()),
        table_bytes=sum(state.size_bytes for node, state in states.items() if node in once),
        insert_seconds=inserted.stats.seconds if inserted else 0.0,
        peak_memory_bytes=inserted.stats.peak_memory_bytes if inserted else None,
        attempt=load.request.nonce,
        query_ids=inserted.query_ids if inserted else (),
        settings=plan.setting_values if plan else {},
        seconds_by_step=load.timer.seconds,
        counted_by=verified.counted_by if verified else "",
    )


def record_load(
    load: LoadContext, plan: InsertPlan, result: LoadResult, *, together: Mapping[str, object] | None = None
) -> Steps[None]:
    """Record what the load did, once, on the coordinator. If this fails, the month is published nevertheless.

    Args:
        load: The load.
        plan: The plan of the insert.
        result: The result.
        together: The `months` that its insert loaded, and the `seconds` of all of it, of which the result has a share.
            None by default, for a month that was loaded alone.
    """
    details = {
        **result.as_json(),
        **({"together": together} if together else {}),
        "owner": load.request.owner,
        "setting_reasons": {each.name: each.reason for each in plan.settings},
        "memory_bytes": plan.memory_bytes,
        "memory_steps": plan.memory_steps,
    }
    try:
        yield from _record(load, "load", details)
    except Chs3Error as error:
        yield from Log(name=f"The month is published, but the load's record could not be written: {error}")
        return
    if sum(result.seconds_by_step.values()) > SLOW_SECONDS:
        yield from _tell_if_slow(load, result)


def _tell_if_slow(load: LoadContext, result: LoadResult) -> Steps[None]:
    coordinator = load.context.coordinator
    ask = read_pace(load.context.ledger, load.key_on(coordinator), coordinator, but=load.request.nonce)
    try:
        pace = yield from ask
    except Chs3Error as error:
        yield from Log(name=f"Could not read how long earlier loads took: {error}")
        return
    if why := pace.why_slow(result.seconds_by_step, result.loaded_bytes):
        yield from Log(name=f"{result.target} {result.month} was slow. {why}")


def record_failure(load: LoadContext, error: Exception) -> Steps[None]:
    """Record why a load failed, once, on the coordinator.

    A missing ledger is created: the preflight has passed.

    Args:
        load: The load.
        error: Its error. A load that was superseded records nothing, as its successor does.
    """
    if isinstance(error, SupersededError):
        return
    coordinator = load.context.coordinator
    details = {"owner": load.request.owner, "error": _error_as_json(error)}
    try:
        yield from make_ledger(load.context, [coordinator])
        yield from _record(load, "failed", details)
    except Exception as another:  # Whatever it is, it must not stand for the error of the load.
        yield from Log(name=f"Could not record why the load failed: {another}")


def record_unchanged(load: LoadContext) -> Steps[None]:
    """Record that a month is unchanged, if the newest record is of a load that failed or did not finish.

    Args:
        load: The load that found it unchanged.
    """
    coordinator = load.context.coordinator
    if not load.context.nodes[coordinator].has_ledger:
        return
    is_staged = (
        f"(SELECT count() FROM system.tables WHERE database = {literal(load.staging.database)} "
        f"AND (startsWith(name, {literal(load.attempt.prefix)}) OR {holds_any(literal(load.attempt.prefix))}))"
    )
    newest = Sql(
        f"SELECT event, {is_staged} FROM {table(load.context.ledger)} WHERE {load.key_on(coordinator).condition} "
        f"{NEWEST_FIRST} LIMIT 1"
    )
    try:
        rows = (yield from QueryNodes(name="See how the newest load ended", sql={coordinator: newest}))[coordinator]
        # One that is still at it knows of newer objects.
        if rows in ([("failed", 0)], [("inserting", 0)]):
            yield from _record(load, "unchanged", {"owner": load.request.owner})
    except Chs3Error as error:
        yield from Log(name=f"Could not record that the month is as published: {error}")


def _error_as_json(error: Exception) -> dict[str, object]:
    """Return an error of this package, whose text has no secrets; of other errors only the type."""
    kind = type(error).__name__
    if not isinstance(error, Chs3Error):
        return {"type": kind, "message": f"{kind}, see the task's log."}
    told: dict[str, object] = {
        "type": kind,
        "message": textwrap.shorten(str(error), _ERROR_CHARACTERS, placeholder=" …"),
        "hint": hint_of(error),
        "is_terminal": is_terminal(error),
    }
    said = error if isinstance(error, ClickHouseServerError) else error.__cause__
    if isinstance(said, ClickHouseServerError):
        told |= {"code": said.code, "name": said.name, "host": said.host, "query_id": said.query_id or ""}
    return told


def _record(load: LoadContext, event: str, details: Mapping[str, object]) -> Steps[None]:
    # Whoever came after it, what a load did stays true; so this does not ask for its staging.
    coordinator = load.context.coordinator
    values = values_of(load, rows=0, state=PartitionState(), details=details)
    new = NewRecord(ledger=load.context.ledger, event=event, values={coordinator: (load.key_on(coordinator), values)})
    yield from new.step(f"Record the {event}")


#: A node that has so many times the rows of the average one did most of the work by itself.
_UNEVEN = 2.0
#: Parts that a node may have at publishing without a word: about what a month of one load has.
_MANY_PARTS = 10


#: The settings that decide how fast a load is, and how much memory it takes, with how to write them.
_TOLD_SETTINGS: Mapping[str, Callable[[float], str]] = {
    "max_threads": "{:,.0f}".format,
    "max_insert_threads": "{:,.0f}".format,
    "min_insert_block_size_bytes": size_text,
    "max_memory_usage": size_text,
}


def report(result: LoadResult) -> str:
    """Describe a load in one block: its summary, then what it read, where the rows are, and where the time went.

    Args:
        result: The result of the load. If it inserted nothing, its summary is all.
    """
    if result.status not in ("published", "appended") or not result.insert_seconds:
        return result.summary()
    lines = [
        *((("source", _source(result)),) if result.objects else ()),
        ("rows", _rows(result)),
        ("insert", _insert(result)),
        *((("steps", _steps(result.seconds_by_step)),) if result.seconds_by_step else ()),
        *(
            (("parts", f"{result.parts:,} on {quantity(len(result.rows_by_node), 'node')}"),)
            if result.rows_by_node
            else ()
        ),
        *((("settings", told),) if (told := _settings(result.settings)) else ()),
        *(("look at", each) for each in _worth_a_look(result)),
    ]
    return result.summary() + "".join(f"\n  {name + ':':<10}{text}" for name, text in lines)


def _source(result: LoadResult) -> str:
    everything = objects_text(result.objects, result.source_bytes)
    if result.loaded_objects == result.objects:
        return everything
    new = f"{quantity(result.loaded_objects, 'new object')}, {size_text(result.loaded_bytes)}"
    return f"{new}; {everything}, with those published before"


def _rows(result: LoadResult) -> str:
    nodes = ", ".join(f"{rows:,} on {node}" for node, rows in result.rows_by_node.items())
    left_out = f"; {result.other_month_rows:,} of other months left out" if result.other_month_rows else ""
    new = f", {result.loaded_rows:,} of them new" if result.loaded_objects < result.objects else ""
    return f"{result.rows:,}{new}{f' ({nodes})' if len(result.rows_by_node) > 1 else ''}{left_out}"


def _insert(result: LoadResult) -> str:
    seconds = result.insert_seconds
    peak = f", peak memory {size_text(result.peak_memory_bytes)} on a node" if result.peak_memory_bytes else ""
    # The size of a database's rows is estimated.
    size = f", {size_text(result.loaded_bytes / seconds)}/s of objects" if result.objects else ""
    return f"{seconds:,.1f} s, {result.loaded_rows / seconds:,.0f} rows/s{size}{peak}"


def _settings(settings: SettingValues) -> str:
    return ", ".join(
        f"{name} {show(float(settings[name]))}" for name, show in _TOLD_SETTINGS.items() if name in settings
    )


def _steps(seconds_by_step: Mapping[str, float]) -> str:
    steps = ", ".join(f"{name.replace('_', ' ')} {seconds:,.1f} s" for name, seconds in seconds_by_step.items())
    return f"{sum(seconds_by_step.values()):,.1f} s in all: {steps}"


def _worth_a_look(result: LoadResult) -> Iterator[str]:
    nodes = len(result.rows_by_node)
    if 0 < result.objects < nodes:
        yield (
            f"there are fewer objects ({result.objects}) than nodes ({nodes}), so some nodes read nothing: write more "
            "objects"
        )
    elif nodes > 1 and max(result.rows_by_node.values()) > _UNEVEN * sum(result.rows_by_node.values()) / nodes:
        way_out = "write objects of one size" if result.objects else "give a key_column whose values spread evenly"
        yield f"nodes have uneven shares of the rows, and the busiest one sets the pace: {way_out}"
    if result.parts > _MANY_PARTS * nodes > 0:
        yield f"{result.parts:,} parts are a lot: wait for merges before the next load (docs/merge-health.md)"
    if result.query_ids:
        yield f"system.query_log, query id {', '.join(result.query_ids[:3])}"
