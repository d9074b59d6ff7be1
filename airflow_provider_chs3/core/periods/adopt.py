"""Adopt a period that was loaded by other means: record it as published if the row counts match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from airflow_provider_chs3.core.files.file_schema import count_rows, read_columns
from airflow_provider_chs3.core.ledger.recording import add_records
from airflow_provider_chs3.core.ledger.table import make_ledger
from airflow_provider_chs3.core.load.decision import KeepHeld, PeriodFacts, Refusal, Refuse, Skip, decide
from airflow_provider_chs3.core.load.discovery import list_ready_period
from airflow_provider_chs3.core.load.load_request import LoadRequest, Policies
from airflow_provider_chs3.core.load.period_check import look_at_period, no_objects_error
from airflow_provider_chs3.core.load.period_load import PeriodLoad
from airflow_provider_chs3.core.model.models import AsJson
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.periods.adopt_arrivals import prove_arrivals, record_arrivals, records_as_loaded
from airflow_provider_chs3.core.periods.prove import REFUSALS, ProofOptions, check_objects, check_table, prove_period
from airflow_provider_chs3.core.periods.proved_period import EQUAL
from airflow_provider_chs3.core.periods.status import look_at_table
from airflow_provider_chs3.core.sql.quoting import Sql, table
from airflow_provider_chs3.core.steps.operations import Log, QueryNodes, Steps
from airflow_provider_chs3.core.target.period_partitions import partitions_of_one
from airflow_provider_chs3.core.target.privileges import check_all_seen
from airflow_provider_chs3.exceptions import ObjectsChangedError, TargetChangedError

#: The policies with which a load is not refused.
_ALLOWS: Mapping[Refusal, Mapping[str, Any]] = {
    Refusal.ROWS_UNKNOWN: {"replace_unknown": True},
    Refusal.TARGET_CHANGED: {"on_target_changed": "reload"},
    Refusal.FEWER_NODES: {"on_target_changed": "reload"},
    Refusal.REPLICA_DOWN: {"on_target_changed": "reload"},
    Refusal.SHRANK: {"max_shrink_fraction": 1},
    Refusal.WHOLE_TABLE: {"reload_whole_table": True},
}


@dataclass(frozen=True, kw_only=True)
class AdoptedPeriod(AsJson):
    """The outcome of adopting a period."""

    period: Period
    status: str
    reason: str
    rows_by_node: Mapping[str, int]

    def __str__(self) -> str:
        return f"{self.period} {self.status}: {self.reason}"

    @property
    def rows(self) -> int | None:
        """Its rows on all shards; None if it was refused before they were counted."""
        return sum(self.rows_by_node.values()) if self.rows_by_node else None

    def as_json(self) -> dict[str, Any]:
        """Return JSON-safe values."""
        return {**super().as_json(), "rows": self.rows}


def adopt_periods(requests: Sequence[LoadRequest], *, proves: bool = False) -> Steps[list[AdoptedPeriod]]:
    """Adopt periods one by one; a refused period does not stop the others."""
    if requests and requests[0].policies.is_by_arrival:
        return (yield from _adopt_arrivals(requests[0]))
    adopted = []
    for request in requests:
        try:
            period = yield from adopt_period(request, proves=proves)
        except REFUSALS as error:
            period = AdoptedPeriod(period=request.period, status="refused", reason=str(error), rows_by_node={})
        adopted.append(period)
        line = f"{period}.".replace("..", ".")
        yield from Log(name=line, done=len(adopted), total=len(requests), unit="periods")
    return adopted


def _adopt_arrivals(request: LoadRequest) -> Steps[list[AdoptedPeriod]]:
    """Adopt all periods of a table that was loaded by arrival, whose values are always compared."""
    context = yield from look_at_table(request, needs_all=True)
    yield from check_all_seen(context.nodes, context.target)
    loads = yield from prove_arrivals(request, context)
    yield from record_arrivals(loads)
    return [
        AdoptedPeriod(
            period=load.period,
            status="adopted",
            reason=load.files.source.kind.contents.having(load.manifest, "the same"),
            rows_by_node={str(node): load.before[node].state.rows for node in context.publishers},
        )
        for load in loads
    ]


def adopt_period(request: LoadRequest, *, proves: bool = False) -> Steps[AdoptedPeriod]:
    """Record a period as published whose rows were written by other means.

    The proof is the count: the partition has as many rows on all nodes as the objects, and neither changed while they
    were counted. Values are compared only if asked for.
    """
    load = yield from _inspect_period(request)
    load = replace(load, before=(yield from load.look_up()))
    decision = decide(load.facts(load.before), request.policies)
    if isinstance(decision, Refuse) and decision.refusal is Refusal.NO_OBJECTS:
        raise no_objects_error(request, request.period)
    rows = {str(node): load.before[node].state.rows for node in load.context.publishers}
    if isinstance(decision, Skip) and not decision.has_no_objects:
        return AdoptedPeriod(period=request.period, status="unchanged", reason=decision.reason, rows_by_node=rows)
    if not load.manifest.objects:
        # The policies allow that; but nothing proves its rows.
        status, reason = "refused" if any(rows.values()) else "unchanged", f"no {load.wanted.contents}"
        return AdoptedPeriod(period=request.period, status=status, reason=reason, rows_by_node=rows)
    reading = yield from read_columns(load.files, request.selection, load.context.table_facts.columns)
    source_rows = yield from count_rows(load.files, reading)
    counted = yield from _count_rows(load)
    _check_sight(load, counted)
    outcome = partial(AdoptedPeriod, period=request.period, rows_by_node=counted)
    if sum(counted.values()) != source_rows:
        reason = _mismatch(load, (yield from look_at_period(load)), counted, source_rows)
        return outcome(status="refused", reason=reason)
    reason = load.files.source.kind.contents.having(load.files.manifest, "as many")
    if proves:
        proved = yield from prove_period(load, ProofOptions(needs_all_columns=True))
        is_or_not = "are" if proved.status == EQUAL else "are not"
        reason = f"its rows {is_or_not} those of its objects: {proved.reason}"
        if proved.status != EQUAL:
            return outcome(status="refused", reason=reason)
    yield from make_ledger(load.context, load.context.nodes)
    load = replace(load, context=load.context.with_ledger())
    as_loaded = yield from records_as_loaded([(load, reading)])
    if (yield from check_objects(load)):
        raise ObjectsChangedError(f"Objects of {load.period} came while its rows were counted: try again")
    yield from check_table(load, load.before)
    # Only its rows were counted: no increment may build on it.
    records = [(node, key, {**values, "base": "", "is_adopted": True}) for node, key, values in as_loaded]
    yield from add_records(load.context, "published", records, name=f"Record {load.period} as published")
    return outcome(status="adopted", reason=reason)


def _inspect_period(request: LoadRequest) -> Steps[PeriodLoad]:
    source, manifest = yield from list_ready_period(request)
    context = yield from look_at_table(request, needs_all=True)
    partitions = yield from partitions_of_one(context, request.period)
    return PeriodLoad.of(request, context, source=source, manifest=manifest, period_partitions=partitions)


def _count_rows(load: PeriodLoad) -> Steps[dict[str, int]]:
    # Not out of system.parts: rows that a lightweight DELETE took away count there.
    sql = Sql(
        f"SELECT count() FROM {table(load.context.target)} WHERE {load.period_partitions.rows_of(load.context.target)}"
    )
    # A row counts once, however many replicas have it.
    statements = dict.fromkeys(load.context.publishers, sql)
    answers = yield from QueryNodes(name=f"Count the rows of {load.period}", sql=statements)
    return {str(node): int(rows[0][0]) for node, rows in answers.items()}


def _check_sight(load: PeriodLoad, rows_by_node: Mapping[str, int]) -> None:
    """Refuse a period if the user does not see all of its rows, except those that a lightweight DELETE hides."""
    for node in load.context.publishers:
        state, seen = load.before[node].state, rows_by_node[str(node)]
        parts = state.each_part
        if parts is not None and seen != state.rows and not any(part.hides_rows for part in parts):
            raise TargetChangedError(
                f"{load.context.target} on {node} has {state.rows:,} rows of {load.period}, but the user sees "
                f"only {seen:,}: adopt it as a user without row policies, while nobody writes"
            )


def _mismatch(load: PeriodLoad, facts: PeriodFacts, rows_by_node: Mapping[str, int], source_rows: int) -> str:
    rows = sum(rows_by_node.values())
    per_node = ", ".join(f"{node}: {count:,}" for node, count in rows_by_node.items())
    holds = f"{load.context.target} holds {rows:,} ({per_node}); {_way_out(facts, load.policies)}"
    has = load.files.source.kind.contents.having(load.files.manifest, f"{source_rows:,}")
    return f"{has}, {holds}"


def _way_out(facts: PeriodFacts, policies: Policies) -> str:
    allowed = dict[str, Any]()
    decision = decide(facts, policies)
    while isinstance(decision, Refuse) and decision.refusal in _ALLOWS:
        allowed |= _ALLOWS[decision.refusal]
        decision = decide(facts, replace(policies, **allowed))
    if isinstance(decision, KeepHeld):
        return decision.reason
    return f"load it with policies={allowed}" if allowed else "load it"
