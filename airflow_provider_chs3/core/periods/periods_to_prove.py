"""Choose the periods to prove, and what each is compared with."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from airflow_provider_chs3.core.ledger.object_records import RecordedObject
from airflow_provider_chs3.core.ledger.partition_state import PARTITION
from airflow_provider_chs3.core.ledger.queries import periods_of_partitions
from airflow_provider_chs3.core.load.arrivals import changes_of_arrival, recorded_of_arrivals
from airflow_provider_chs3.core.load.load_request import LoadRequest
from airflow_provider_chs3.core.model.models import HeldObjects, Manifest
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.periods.proved_period import DIFFERS, REFUSED, ProvedPeriod
from airflow_provider_chs3.core.sql.quoting import Sql, in_table
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.node_facts import Target


def periods_to_prove(
    context: Target, requests: Sequence[LoadRequest], *, all_periods: bool
) -> Steps[tuple[Sequence[LoadRequest], Sequence[ProvedPeriod]]]:
    """Return the loads of the periods to prove, and what is known to differ without reading it."""
    request, not_loaded = requests[0], list[ProvedPeriod]()
    if request.policies.is_by_arrival:
        request, periods, not_loaded = yield from _list_arrivals(context, requests, all_periods=all_periods)
        requests = [replace(request, period=period) for period in periods]
    if all_periods:
        known = {of_period.period for of_period in requests}
        others = yield from _without_objects(context, request, known)
        if request.policies.is_by_arrival and not requests:
            return (), [*map(_of_nobody, others), *not_loaded]
        requests = [*requests, *others]
    return requests, not_loaded


def _of_nobody(request: LoadRequest) -> ProvedPeriod:
    reason = "no record says which objects its rows are from: adopt the table first (chs3 adopt --all-periods)"
    return ProvedPeriod(period=request.period, status=REFUSED, reason=reason, definition=request.defined)


def _without_objects(context: Target, request: LoadRequest, known: Collection[Period]) -> Steps[list[LoadRequest]]:
    """Return the loads of the periods that the table has rows of, and that have no objects."""
    sql = Sql(f"SELECT DISTINCT {PARTITION} FROM system.parts WHERE active AND rows > 0 AND {in_table(context.target)}")
    answers = yield from context.on_each(name=f"Look for the partitions of {context.target}", sql=sql)
    others_periods = yield from periods_of_partitions(context, {key for rows in answers.values() for (key,) in rows})
    return [replace(request, period=period) for period in sorted({*others_periods.values()}.difference(known))]


def _list_arrivals(
    context: Target, requests: Sequence[LoadRequest], *, all_periods: bool
) -> Steps[tuple[LoadRequest, Sequence[Period], list[ProvedPeriod]]]:
    """List all arrivals, and have each period read the objects that are recorded to have rows of it."""
    source = requests[0].source
    periods = tuple((yield from source.summarize_periods(source.arrival_grain)))
    source, listed = yield from source.list_periods(periods)
    recorded = yield from recorded_of_arrivals(context, source, periods)
    changes = {period: changes_of_arrival(recorded[period], listed[period]) for period in periods}
    # An object's rows in all of its periods must add up to those that it has: so no period may lack an object.
    held = _held_by_period(recorded, listed)
    # A marker is one of an arrival.
    policies = replace(requests[0].policies, ready_key=None, min_object_age_seconds=0)
    request = replace(requests[0], source=source.holding(held), policies=policies)
    asked = sorted(held.periods) if all_periods else [of_period.period for of_period in requests]
    not_loaded = [
        ProvedPeriod(
            period=period,
            status=DIFFERS,
            reason=f"objects of this arrival are not as loaded: {changed}",
            definition=requests[0].defined,
        )
        for period, changed in changes.items()
        if changed.counts and all_periods
    ]
    return request, asked, not_loaded


def _held_by_period(
    recorded: Mapping[Period, Sequence[RecordedObject]], listed: Mapping[Period, Manifest]
) -> HeldObjects:
    units = {unit.path: unit for manifest in listed.values() for unit in manifest.objects}
    periods, rows, uncounted = defaultdict[Period, dict[str, None]](dict), Counter[str](), set[str]()
    for item in (item for of_arrival in recorded.values() for item in of_arrival):
        periods[item.period][item.unit.path] = None
        rows[item.unit.path] += item.rows or 0
        current = units.get(item.unit.path)
        if item.rows is None or current is None or item.unit.content != current.content:
            uncounted.add(item.unit.path)
    return HeldObjects(
        {period: Manifest.of(units[path] for path in paths if path in units) for period, paths in periods.items()},
        {path: count for path, count in rows.items() if path not in uncounted},
    )
