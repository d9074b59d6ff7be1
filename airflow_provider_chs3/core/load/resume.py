"""Resume an insert that outlived its process: record it, and find it again."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from airflow_provider_chs3.core.ledger.object_records import recorded_objects
from airflow_provider_chs3.core.ledger.partition_state import PartitionState
from airflow_provider_chs3.core.ledger.recording import Value, Values, add_records
from airflow_provider_chs3.core.ledger.records import NEWEST_FIRST, PeriodOnNode
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.load.end_attempts import is_staging_there
from airflow_provider_chs3.core.load.load_request import LoadRequest
from airflow_provider_chs3.core.load.period_load import InsertPlan, PeriodLoad
from airflow_provider_chs3.core.load.publication import Increment, node_key, periods_text, records_of
from airflow_provider_chs3.core.load.retry_policy import RetryState
from airflow_provider_chs3.core.load.staging_tables import Attempt, superseded
from airflow_provider_chs3.core.model.models import Manifest, Node, ObjectChanges
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import Sql, literal, one_of, table
from airflow_provider_chs3.core.steps.operations import InsertStats, Row, SourceRead, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.replication import find_replicas
from airflow_provider_chs3.exceptions import ObjectsChangedError

#: The reason of a period that `published_by_owner` returns.
PUBLISHED_BY_OWNER = "an earlier try of this task published it"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class DoneInsert:
    """A finished insert of a load."""

    query_id: str
    stats: InsertStats


def seconds_of(done: Iterable[DoneInsert]) -> float:
    """Return how long inserts took in all."""
    return sum((done_insert.stats.seconds for done_insert in done), 0.0)


@dataclass(frozen=True, kw_only=True)
class RecordedPeriod:
    """The record of a period in an attempt that began to insert."""

    fingerprint: str
    newest: datetime
    before: Mapping[str, Sequence[PartitionState]]
    reason: str
    held_because: str
    increment: Mapping[str, Any] | None
    records: Mapping[str, str]

    def manifest_in(self, listed: Manifest) -> Manifest:
        """Return the objects of the attempt from a current listing, without later ones."""
        manifest = Manifest.of(unit for unit in listed.objects if unit.last_modified <= self.newest)
        if manifest.fingerprint != self.fingerprint:
            raise ObjectsChangedError(
                "Objects of the period changed while they were loaded. The period was not published."
            )
        return manifest

    def restore_before(self, current: Mapping[Node, PeriodOnNode]) -> dict[Node, PeriodOnNode]:
        """Return the period by node at the time of the decision to insert."""
        return {node: period.as_it_was(self.before.get(node_key(node), ())) for node, period in current.items()}


@dataclass(frozen=True, kw_only=True)
class ResumableLoad:
    """The record of an attempt that began to insert."""

    context: Target
    nonce: str
    periods: Mapping[Period, RecordedPeriod]
    retry_state: RetryState
    plan: InsertPlan
    running: str
    done: tuple[DoneInsert, ...]
    seconds_by_step: Mapping[str, float]


def load_of_resumable(load: PeriodLoad, recorded: RecordedPeriod, listed: Manifest) -> Steps[PeriodLoad]:
    """Return a load with the objects and the decision of a resumable one, unless objects changed since."""
    load = replace(load, reason=recorded.reason, held_because=recorded.held_because)
    period = recorded.manifest_in(listed)
    if recorded.increment is None:
        return load.with_objects(period)
    values = {**recorded.increment, "removed": tuple(recorded.increment["removed"])}
    fingerprint = values.pop("fingerprint")
    (published,) = yield from recorded_objects(load.context, [(load.period, str(values["base"]))])
    new = ObjectChanges.between(published, period).to_read(period, values["removed"])
    if new.fingerprint != fingerprint:
        raise ObjectsChangedError("The record of the period's objects changed while new ones were loaded.")
    return load.with_objects(new, Increment(period=period, **values))


def record_insert(
    load: PeriodLoad, periods: Sequence[PeriodLoad], done: Sequence[DoneInsert], running: str
) -> Steps[None]:
    """Record on the coordinator everything that another process needs to resume the next insert."""
    plan, coordinator = load.planned, load.context.coordinator
    started = [done_insert.query_id for done_insert in done] + [running] * bool(running)
    basis = {
        "is_durable": load.request.is_durable,
        "structure": load.request.structure(load.context),
        "retry_state": asdict(load.retry_state),
        "done": [asdict(done_insert) for done_insert in done],
    }
    shared: Values = {
        "owner": load.request.owner,
        "running": running,
        "query_ids": started,
        "insert_seconds": seconds_of(done),
        "seconds_by_step": dict(load.timer.seconds),
        "planned_rows": plan.reading.rows or 0,
        "memory_bytes": plan.memory_bytes,
        "memory_steps": plan.memory_steps,
        "settings": plan.settings_as_json,
    }
    # The reading names all files; it is only in the record of the first period.
    reading = {"reading": plan.reading.as_json()} if load.request.is_durable else {}
    plans = [json.dumps(basis | reading)] + [json.dumps(basis)] * (len(periods) - 1)
    records = (
        (coordinator, item.key_on(coordinator), {**item.values, **shared, **_values_of(item), "plan": plan_text})
        for item, plan_text in zip(periods, plans, strict=True)
    )
    name = f"Record that {periods_text(periods)} is being inserted"
    yield from add_records(load.context, "inserting", records, name=name, staging=load.staging)


def _values_of(load: PeriodLoad) -> dict[str, Value]:
    newest = max((unit.last_modified for unit in load.manifest.objects), default=_EPOCH)
    basis = {
        "newest_microseconds": (newest - _EPOCH) // _MICROSECOND,
        "before": {
            node_key(node): [_as_json(partition.state) for partition in period.each]
            for node, period in load.before.items()
        },
        "records": records_of(load.before),
        "held_because": load.held_because,
        "increment": _increment_as_json(load.increment, load.files.manifest) if load.increment else None,
    }
    read = load.files.manifest
    sizes = {"loaded_objects": load.object_count(read), "loaded_bytes": read.size_bytes}
    return {"reason": load.reason, **sizes, "basis": json.dumps(basis)}


def find_resumable_loads(
    request: LoadRequest, periods: Sequence[Period], context: Target
) -> Steps[list[ResumableLoad]]:
    """Find the attempts of an earlier process of this task that still have all their staging."""
    key = _key_of(context, periods[0])
    if key is None:
        return []
    rows = yield from _read_newest(context, key, "attempt, owner", condition=one_of("period", map(str, periods)))
    if not rows:
        return []
    if request.resumes not in (None, *(nonce for nonce, _ in rows)):
        raise superseded(Attempt(context.target, tuple(periods), request.resumes or ""))
    resumable = []
    for nonce in dict.fromkeys(nonce for nonce, owner in rows if owner == request.owner):
        inserts = yield from _read_newest(context, key, _COLUMNS, condition=f"attempt = {literal(nonce)}")
        records = dict(sorted((Period.parse(row[0]), _InsertRecord(*row[1:])) for row in inserts))
        plans = [json.loads(record.plan) for record in records.values()]
        is_same = (
            {record.definition for record in records.values()} == {request.definition}
            and records.keys() <= set(periods)
            and all(plan["is_durable"] and plan["structure"] == request.structure(context) for plan in plans)
        )
        if is_same and (yield from is_staging_there(context, Attempt(context.target, tuple(records), nonce).name)):
            context = yield from find_replicas(context)
            resumable.append(_parse_load(context, nonce, records, plans))
    return resumable


def _read_newest(context: Target, key: LedgerKey, columns: str, *, condition: str) -> Steps[Sequence[Row]]:
    sql = Sql(
        f"SELECT {columns} FROM {table(context.loads)} WHERE {key.table_condition} AND {condition} "
        f"AND event = 'inserting' {NEWEST_FIRST} LIMIT 1 BY period"
    )
    return (yield from context.on_coordinator(name="Look for an insert of this task", sql=sql))


class _InsertRecord(NamedTuple):
    definition: str
    fingerprint: str
    reason: str
    running: str
    memory_bytes: int
    memory_steps: int
    settings: str
    plan: str
    basis: str
    seconds_by_step: Sequence[tuple[str, float]]


_COLUMNS = ", ".join(
    {"seconds_by_step": "CAST(seconds_by_step AS Array(Tuple(String, Float64)))"}.get(name, name)
    for name in ("period", *_InsertRecord._fields)
)


def published_by_owner(loads: Sequence[PeriodLoad], attempts: Collection[tuple[Period, str]]) -> set[Period]:
    """Return the periods that an earlier try of the same task published before it died: for the task, they are new."""
    records = {load.period: load.before[load.context.coordinator].record for load in loads}
    return {period for period, record in records.items() if record and (period, record.attempt) in attempts}


def find_attempts(context: Target, periods: Sequence[Period], owner: str) -> Steps[set[tuple[Period, str]]]:
    """Find the attempts of a task that began to insert, as pairs of period and nonce."""
    key = _key_of(context, periods[0])
    if key is None or not owner:
        return set()
    sql = Sql(
        f"SELECT DISTINCT period, attempt FROM {table(context.loads)} WHERE {key.table_condition} "
        f"AND {one_of('period', map(str, periods))} AND event = 'inserting' AND owner = {literal(owner)}"
    )
    rows = yield from context.on_coordinator(name="Look for loads of this task", sql=sql)
    return {(Period.parse(period), nonce) for period, nonce in rows}


def _key_of(context: Target, period: Period) -> LedgerKey | None:
    """Return the key of a period's records on the coordinator; None if the target or the table of loads is missing."""
    facts = context.nodes[context.coordinator]
    return LedgerKey.on(context, context.coordinator, period) if facts.target and facts.has_loads else None


def _parse_load(
    context: Target, nonce: str, records: Mapping[Period, _InsertRecord], plans: Sequence[Mapping[str, Any]]
) -> ResumableLoad:
    first, plan = next(pair for pair in zip(records.values(), plans, strict=True) if "reading" in pair[1])
    return ResumableLoad(
        context=context,
        nonce=nonce,
        periods={period: _parse_period(record) for period, record in records.items()},
        retry_state=RetryState(**plan["retry_state"]),
        plan=InsertPlan.of_record(
            plan["reading"], first.settings, memory_bytes=first.memory_bytes, memory_steps=first.memory_steps
        ),
        running=first.running,
        done=tuple(DoneInsert(insert["query_id"], _stats_of_json(insert["stats"])) for insert in plan["done"]),
        seconds_by_step=dict(first.seconds_by_step),
    )


def _parse_period(record: _InsertRecord) -> RecordedPeriod:
    basis = json.loads(record.basis)
    return RecordedPeriod(
        fingerprint=record.fingerprint,
        newest=_EPOCH + basis["newest_microseconds"] * _MICROSECOND,
        before={
            node: [PartitionState(**state, each_part=None) for state in states]
            for node, states in basis["before"].items()
        },
        reason=record.reason,
        held_because=basis["held_because"],
        increment=basis["increment"],
        records=basis["records"],
    )


def _stats_of_json(values: Mapping[str, Any]) -> InsertStats:
    source = values["source"]
    return InsertStats(**{**values, "source": SourceRead(**source) if source else None})


def _as_json(state: PartitionState) -> dict[str, Any]:
    """Return the state without its parts, which the ledger's record has."""
    return {name: value for name, value in asdict(state).items() if name not in ("each_part", "mutations")}


def _increment_as_json(increment: Increment, new: Manifest) -> dict[str, Any]:
    fields = {name: value for name, value in vars(increment).items() if name != "period"}
    return {**fields, "fingerprint": new.fingerprint}
