"""Step 9 of a load: its outcome, as a result and in its records."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence

from airflow_provider_chs3.core.ledger.partition_state import PartitionState
from airflow_provider_chs3.core.ledger.past_loads import SLOW_SECONDS, read_pace
from airflow_provider_chs3.core.ledger.recording import RecordOnNode, Value, Values, add_records
from airflow_provider_chs3.core.ledger.table import ARRIVED, LOADS_COLUMNS, lacks_look, make_loads_table
from airflow_provider_chs3.core.load.decision import LoadResult
from airflow_provider_chs3.core.load.end_attempts import begins_with_any, log_failure
from airflow_provider_chs3.core.load.insert import Verified
from airflow_provider_chs3.core.load.period_load import PeriodLoad, Periods
from airflow_provider_chs3.core.load.resume import seconds_of
from airflow_provider_chs3.core.load.staging_tables import PERIODS_IN_COMMENT, Attempt, holds_any, in_staging, nonce_of
from airflow_provider_chs3.core.model.error_codes import hint_of, is_terminal
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import Sql, literal, literals, one_of, table
from airflow_provider_chs3.core.steps.operations import Log, Steps
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError, NotReadyError, SupersededError

#: Columns of the record of a load that are fields of its result.
_OF_RESULT = [name for name in LOADS_COLUMNS if name != "period" and name in LoadResult.__dataclass_fields__]
_NOT_RECORDED = "The load's record could not be written, which changes nothing in the table."
#: Servers may quote statements of any length.
_ERROR_CHARACTERS = 4_000
#: The recorded reading of files that differ from each other.
NOT_ALIKE = "[]"


def result_of(
    load: PeriodLoad,
    states: Mapping[Node, PartitionState],
    *,
    status: str,
    reason: str,
    verified: Verified | None = None,
    share: float = 1.0,
) -> LoadResult:
    """Create the result of a load, with its share of the insert; `verified` is None if it loaded nothing."""
    manifest, read, done = load.manifest, load.files.manifest, verified.done if verified else ()
    peaks = [insert.stats.peak_memory_bytes for insert in done if insert.stats.peak_memory_bytes is not None]
    # Rows count once, not per replica.
    once = load.context.publishers
    rows = sum(state.rows for node, state in states.items() if node in once)
    return LoadResult(
        status=status,
        period=load.period,
        target=load.context.target,
        reason=reason,
        fingerprint=manifest.fingerprint,
        objects=load.object_count(manifest),
        source_bytes=manifest.size_bytes,
        rows=rows,
        loaded_objects=load.object_count(read) if verified else 0,
        loaded_bytes=read.size_bytes if verified else 0,
        loaded_rows=verified.rows.get(load.period, 0) if verified else 0,
        object_changes=load.changes.counts if load.changes else {},
        rows_by_node={str(node): state.rows for node, state in states.items()},
        other_period_rows=sum(sum(load.staged[node].other_rows.values()) for node in once) if load.staged else 0,
        parts=sum(state.parts for state in states.values()),
        table_bytes=sum(state.size_bytes for node, state in states.items() if node in once),
        checks=load.checks,
        insert_seconds=seconds_of(done) * share,
        peak_memory_bytes=max(peaks, default=None),
        attempt=load.attempt.nonce,
        query_ids=tuple(insert.query_id for insert in done),
        settings=load.plan.setting_values if load.plan else {},
        seconds_by_step=load.timer.seconds,
        counted_by=verified.counted_by if verified else "",
    )


def record_loads(
    results: Mapping[Period, LoadResult], periods: Periods, *, together: tuple[str, float] | None = None
) -> Steps[None]:
    """Record loads on the coordinator. If this fails, the periods are published nevertheless."""
    try:
        for event, is_held in (("load", False), ("withheld", True)):
            several = [
                (periods.items[period], _values_of(periods.items[period], result, together))
                for period, result in results.items()
                if (result.status == "held") is is_held
            ]
            yield from _record(event, several)
    except Chs3Error as error:
        yield from Log(name=f"{_NOT_RECORDED} ({error})")
        return
    for period, result in results.items():
        if sum(result.seconds_by_step.values()) > SLOW_SECONDS:
            yield from _log_if_slow(periods.items[period], result)


def _values_of(load: PeriodLoad, result: LoadResult, together: tuple[str, float] | None) -> dict[str, Value]:
    plan, reading = load.planned, load.planned.reading
    periods, seconds = together or ("", 0.0)
    # By these, the next load expects its files.
    is_typed = load.files.format.name == "Parquet" and bool(reading.groups)
    text = reading.of_others.as_text if reading.of_others else NOT_ALIKE
    return {
        **{name: getattr(result, name) for name in _OF_RESULT},
        "insert_seconds": round(result.insert_seconds, 3),
        "seconds_by_step": {name: round(spent, 3) for name, spent in result.seconds_by_step.items()},
        "memory_bytes": plan.memory_bytes,
        "memory_steps": plan.memory_steps,
        "checks": json.dumps([check.as_json() for check in result.checks]) if result.checks else "",
        "settings": plan.settings_as_json,
        "reading": text if is_typed else "",
        "uncompressed_bytes": reading.uncompressed_bytes or 0,
        "together_periods": periods,
        "together_seconds": seconds,
    }


def _log_if_slow(load: PeriodLoad, result: LoadResult) -> Steps[None]:
    try:
        pace = yield from read_pace(load.context, but=load.attempt.nonce)
    except Chs3Error as error:
        yield from Log(name=f"Could not read how long earlier loads took: {error}")
        return
    if explanation := pace.why_slow(result.seconds_by_step, result.loaded_bytes):
        yield from Log(name=f"{result.target} {result.period} was slow. {explanation}")


def record_failure(load: PeriodLoad, error: Exception) -> Steps[None]:
    """Record the failure of a load on the coordinator; the preflight has passed, so a missing table is created."""
    if load.request.is_approval or isinstance(error, SupersededError | NotReadyError):
        return
    try:
        yield from make_loads_table(load.context)
        yield from _record("failed", [(load, _values_of_error(error))])
    except Exception as another:  # It must not hide the error of the load.
        yield from Log(name=f"Could not record why the load failed: {another}")


def record_unchanged(loads: Sequence[PeriodLoad]) -> Steps[None]:
    """Record that periods are unchanged, if their newest load failed or did not finish.

    Also, once, that the newest one that has ended was looked at since, if the load says when periods are due.
    """
    context, request, due = loads[0].context, loads[0].request, ""
    if ended := request.fresh_by and request.fresh_by.newest_ended([load.period for load in loads], request.now):
        newest, since = ended
        lacks = lacks_look(str(request.fresh_by), since, is_arrival=loads[0].spread is not None)
        due = f"(period = {literal(str(newest))} AND {lacks})"
        yield from make_loads_table(context)
    elif not context.nodes[context.coordinator].has_loads:
        return
    query = _newest_query(loads, due)
    try:
        rows = yield from context.on_coordinator(name="See how the newest load ended", sql=query)
        staged_by_period = {period: staged for period, _, staged in rows}
        # A load that is still running may know newer objects.
        over = list[tuple[PeriodLoad, Values]]()
        for load in loads:
            staged = staged_by_period.get(str(load.period))
            published = {period.record.attempt for period in load.before.values() if period.record}
            if staged is not None and not _is_staged(load.attempt, staged, but=published):
                over.append((load, {}))
        yield from _record(ARRIVED if loads[0].spread else "unchanged", over)
    except Chs3Error as error:
        yield from Log(name=f"Could not record that the period is as published: {error}")


def record_arrival(load: PeriodLoad, *, is_held: bool) -> Steps[None]:
    """Record that an arrival was loaded into the periods of its rows, or is held with them."""
    yield from log_failure(_record("withheld" if is_held else ARRIVED, [(load, {})]), _NOT_RECORDED)


def _newest_query(loads: Sequence[PeriodLoad], due: str) -> Sql:
    """Return the query for the periods to record as unchanged, and the staging tables of each; `due` is one, too."""
    context = loads[0].context
    coordinator = context.coordinator
    attempts = [load.attempt for load in loads]
    prefixes = literals(attempt.prefix for attempt in attempts)
    of_periods = (
        f"{loads[0].key_on(coordinator).table_condition} AND {one_of('period', [str(load.period) for load in loads])}"
    )
    tables = [context.loads] + [context.ledger] * context.nodes[coordinator].has_ledger
    fresh_by = {context.loads: ", fresh_by", context.ledger: ", '' AS fresh_by"} if due else {}
    selects = [
        f"SELECT period, event, sequence, recorded_at{fresh_by.get(name, '')} FROM {table(name)} WHERE {of_periods}"
        for name in tables
    ]
    return Sql(
        "SELECT period, argMax(event, (sequence, recorded_at)) AS newest, "
        f"(SELECT groupArray((name, {PERIODS_IN_COMMENT})) FROM system.tables WHERE {in_staging(context)} "
        f"AND ({begins_with_any(prefixes)} OR {holds_any(attempts)})) "
        f"FROM ({' UNION ALL '.join(selects)}) GROUP BY period "
        f"HAVING newest IN ('failed', 'inserting'){due and f' OR {due}'}"
    )


def _is_staged(attempt: Attempt, tables: Iterable[tuple[str, Sequence[str]]], *, but: Collection[str]) -> bool:
    """Check whether other attempts than the published ones have staged a period."""
    return any(
        (name.startswith(attempt.prefix) or str(attempt.periods[0]) in periods)
        and not any(nonce_of(name).startswith(nonce) for nonce in but)
        for name, periods in tables
    )


def _values_of_error(error: Exception) -> dict[str, Value]:
    """Return the values of an error; only the type if the text might have secrets."""
    kind = type(error).__name__
    if not isinstance(error, Chs3Error):
        return {"error_type": kind, "error": f"{kind}, see the task's log."}
    fields: dict[str, Value] = {
        "error_type": kind,
        "error": textwrap.shorten(str(error), _ERROR_CHARACTERS, placeholder=" …"),
        "error_hint": hint_of(error),
        "is_terminal": is_terminal(error),
    }
    said = error if isinstance(error, ClickHouseServerError) else error.__cause__
    if isinstance(said, ClickHouseServerError):
        fields |= {"error_code": said.code, "error_name": said.name, "error_host": said.host}
        fields["error_query_id"] = said.query_id or ""
    return fields


def _record(event: str, several: Sequence[tuple[PeriodLoad, Values]]) -> Steps[None]:
    if not several:
        return
    # The record is true even if another load took over, so it does not depend on staging.
    context = several[0][0].context
    node = context.coordinator
    records = list[RecordOnNode]()
    for load, values in several:
        # Of arrivals, those are due, and not the periods that their rows are of.
        is_due = load.request.fresh_by and not (load.spread and not load.spread.is_arrival)
        due: Values = {"fresh_by": str(load.request.fresh_by)} if is_due else {}
        records.append((node, load.key_on(node), {**load.values, "owner": load.request.owner, **due, **values}))
    yield from add_records(context, event, records, name=f"Record the {event}")
