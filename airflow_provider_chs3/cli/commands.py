"""The commands: each asks the tables of its loads, and prints one result."""

from __future__ import annotations

import argparse
import getpass
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from airflow_provider_chs3.cli.arguments import object_storage, periods_of
from airflow_provider_chs3.cli.doctor_output import described, diagnosis
from airflow_provider_chs3.cli.loads import ChosenLoad, hook_of
from airflow_provider_chs3.cli.overview import list_tables, show_costs
from airflow_provider_chs3.cli.rehearse import Rehearsal
from airflow_provider_chs3.cli.reports import Command, Report, for_loads, or_of_all
from airflow_provider_chs3.cli.tables import age, size
from airflow_provider_chs3.core.load.retry_policy import RELOAD
from airflow_provider_chs3.core.model.models import PeriodObjects, TableName
from airflow_provider_chs3.core.model.period import parse_periods, range_text
from airflow_provider_chs3.core.model.quantities import duration_text, quantity
from airflow_provider_chs3.core.periods.plan import PlannedPeriod, due_text, forecast_text
from airflow_provider_chs3.core.periods.proved_period import DIFFERS, EQUAL, ProvedPeriod
from airflow_provider_chs3.core.periods.restore import RestoredPeriod
from airflow_provider_chs3.core.periods.status import PeriodInLedger, TableStatus
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.load.schema import schema
from airflow_provider_chs3.table import clean

_NO_PERIODS = "Name the periods: --period, --from and --to, or --all-periods."


def _ledger(given: argparse.Namespace, chosen: ChosenLoad) -> Report:
    periods = chosen.periods(periods_of(given), spans=True)
    if given.objects:
        return _objects(chosen, periods)
    listed = chosen.table.list_periods(periods)
    changed = sum(not period.is_as_published for period in listed)
    # Named periods say nothing about the rest of the table.
    freshness = None if periods else chosen.table.status(chosen.load).freshness
    return Report(
        header=["period", "partition", "state", "rows", "size", "objects", "published (UTC)", "rows/s", "attempt"],
        rows=[[of.period, of.partition_id, of.state, of.rows, size(of.size_bytes), *_published(of)] for of in listed],
        values=[period.as_json() for period in listed],
        summary=f"{changed} of {quantity(len(listed), 'period')} not as published",
        is_fine=not changed and bool(listed or not periods) and (freshness is None or freshness.is_fresh),
        notes=[f"{'The table is ' * freshness.is_fresh}{freshness}."] if freshness else [],
        nothing="The ledger has no such period." if periods else "The ledger has no periods of this table.",
    )


def _status(given: argparse.Namespace, chosen: ChosenLoad) -> Report:
    status = chosen.table.status(chosen.load)
    freshness = status.freshness
    told = str(freshness or "no fresh_by says when it is due")
    return Report(
        header=["table", "freshness", "complete", "missing", "changed", "next", "takes", "begin by"],
        rows=[
            [
                status.target,
                told,
                freshness and freshness.complete,
                freshness and freshness.missing,
                status.changed,
                freshness and freshness.next_period,
                status.seconds and duration_text(status.seconds),
                _begin_by(status),
            ]
        ],
        values=[status.as_json()],
        summary=told,
        is_fine=freshness is None or freshness.is_fresh,
    )


def _begin_by(status: TableStatus) -> str:
    """Return when a load must begin to make the next period in time."""
    freshness, seconds = status.freshness, status.seconds
    if freshness is None or freshness.due_at is None or seconds is None:
        return ""
    latest = freshness.due_at - timedelta(seconds=seconds)
    return freshness.fresh_by.local(latest) if freshness.at < latest else "too late"


def _objects(chosen: ChosenLoad, periods: Sequence[str]) -> Report:
    listed = chosen.table.list_objects(periods)
    by_arrival = any(unit.arrival for unit in listed)
    arrived = ["arrived"] * by_arrival
    return Report(
        header=["period", *arrived, "object", "size", "rows", "loaded (UTC)", "attempt", "published"],
        rows=[
            [
                *(unit.period, *([unit.arrival] * by_arrival), unit.path, size(unit.size_bytes), unit.rows),
                *(unit.loaded_at, unit.attempt, "yes" if unit.is_current else "no"),
            ]
            for unit in listed
        ],
        values=[unit.as_json() for unit in listed],
        summary=quantity(len(listed), "object"),
        nothing="No load of these periods has recorded its objects.",
    )


def _published(period: PeriodInLedger) -> list[object]:
    if not period.attempt:
        return [None] * 4
    speed = "adopted" if period.was_adopted else f"{period.rows_per_second or 0:,}"
    return [period.objects, period.published_at, speed, period.attempt]


def _plan(given: argparse.Namespace, chosen: ChosenLoad) -> Report:
    periods = _named_periods(given, chosen)
    planned = chosen.table.plan(
        chosen.known_load, parse_periods(periods) if periods else None, compares_definition=chosen.is_declared
    )
    to_load, blocked = sum(period.is_to_load for period in planned), sum(period.is_blocked for period in planned)
    is_of_rows = any(period.objects.rows is not None for period in planned)
    fresh_by = chosen.table.due(chosen.known_load)
    return Report(
        header=["period", "to do", "reason", *(["rows"] if is_of_rows else ["objects", "size"])],
        rows=[_plan_row(alike) for alike in _without_repeats(planned)],
        values=[_planned_as_json(period) for period in planned],
        summary=f"{to_load - blocked} of {quantity(len(planned), 'period')} to load"
        + f", {blocked:,} blocked" * bool(blocked),
        is_fine=not to_load,
        notes=[forecast_text(planned), due_text(planned, fresh_by, datetime.now(UTC)) if fresh_by else ""],
    )


def _plan_row(alike: Sequence[PlannedPeriod]) -> list[object]:
    first, periods = alike[0], [period.period for period in alike]
    return [range_text(periods), first.to_do, first.reason, *_amount(first.objects)]


def _without_repeats(planned: Sequence[PlannedPeriod]) -> list[list[PlannedPeriod]]:
    """Return the periods in groups: successive ones without objects are one, as a table may have years of them."""
    alike = list[list[PlannedPeriod]]()
    for period in planned:
        if alike and _repeats(alike[-1][-1], period):
            alike[-1].append(period)
        else:
            alike.append([period])
    return alike


def _repeats(before: PlannedPeriod, period: PlannedPeriod) -> bool:
    if period.objects.count or period.objects.rows or before.period.end != period.period.begin:
        return False
    return (period.to_do, period.reason, period.objects) == (before.to_do, before.reason, before.objects)


def _planned_as_json(period: PlannedPeriod) -> dict[str, Any]:
    return {
        "period": str(period.period),
        "is_to_load": period.is_to_load,
        "is_blocked": period.is_blocked,
        "reason": period.reason,
        "objects": period.objects.count,
        "source_bytes": period.objects.size_bytes,
        "rows": period.objects.rows,
        "fingerprint": period.objects.fingerprint,
        "forecast": asdict(period.forecast) if period.forecast else None,
    }


def _amount(objects: PeriodObjects) -> list[object]:
    return [objects.count, size(objects.size_bytes)] if objects.rows is None else [objects.rows]


def _adopt(given: argparse.Namespace, chosen: ChosenLoad) -> Report:
    adopted = chosen.table.adopt(chosen.known_load, _named_periods(given, chosen), proves=given.prove)
    refused = sum(period.status == "refused" for period in adopted)
    return Report(
        header=["period", "status", "rows", "reason"],
        rows=[[period.period, period.status, period.rows, period.reason] for period in adopted],
        values=[period.as_json() for period in adopted],
        summary=f"{refused} of {quantity(len(adopted), 'period')} refused",
        is_fine=not refused,
    )


def _prove(given: argparse.Namespace, chosen: ChosenLoad) -> Report:
    proved = chosen.table.prove(
        chosen.known_load,
        _named_periods(given, chosen),
        object_column=given.object_column,
        sample=given.sample,
        is_as_recorded=not chosen.is_declared,
    )
    unlike = sum(period.status != EQUAL for period in proved)
    left_out = {name: reason for period in proved for name, reason in period.left_out.items()}
    return Report(
        header=["period", "status", "rows", "of the objects", "reason"],
        rows=[[period.period, period.status, period.rows, period.source_rows, period.reason] for period in proved],
        values=[period.as_json() for period in proved],
        summary=f"{unlike} of {quantity(len(proved), 'period')} not equal",
        is_fine=not unlike,
        notes=[
            "\n".join(f"Not compared: {name}, as {reason}." for name, reason in left_out.items()),
            _to_repair(proved, chosen.table.name, by_arrival=chosen.load is not None and chosen.load.is_by_arrival),
        ],
    )


def _to_repair(proved: Sequence[ProvedPeriod], table: TableName, *, by_arrival: bool) -> str:
    """Return the command that loads the periods that differ, and nothing else; of rows of others, how to prove first.

    As long as it is not known how their load reads the objects, the rows that it would replace may be right.
    """
    differing = [period for period in proved if period.status == DIFFERS]
    of_others = [str(period.period) for period in differing if period.definition is None]
    known = [str(period.period) for period in differing if period.definition is not None]
    texts = []
    if of_others:
        texts.append(
            f"No load is known to have written the rows of {', '.join(of_others)}, so the objects were read as by a "
            "load without arguments. Prove them again as their load reads them, with --dag or --loads."
        )
    if known and by_arrival:
        texts.append(
            f"Reload the arrivals of the objects of {', '.join(known)}, which chs3 ledger --objects names, by the conf "
            f"{RELOAD} of the DAG that loads the table."
        )
    elif known:
        asked = {"database": table.database, "table": table.table, "periods": known, "replace_rows_of_others": True}
        texts.append(
            "To load just what differs, trigger the DAG that loads the table:\n"
            f"airflow dags trigger <dag_id> --conf {shlex.quote(json.dumps({RELOAD: asked}))}"
        )
    return "\n\n".join(texts)


def _forget(given: argparse.Namespace, chosen: ChosenLoad) -> Report:
    periods = chosen.periods(periods_of(given))
    if given.all_periods and not periods:
        periods = tuple(str(period.period) for period in chosen.table.list_periods() if period.period)
        if not periods:
            return Report(values=[], summary="nothing", nothing="The ledger has no periods.")
    if not periods:
        raise ConfigurationError(_NO_PERIODS)
    forgotten = chosen.table.forget(periods)
    return Report(
        header=["period", "status", "rows that stay"],
        rows=[
            [period.period, "forgotten" if period.was_known else "was not known", period.rows] for period in forgotten
        ],
        values=[period.as_json() for period in forgotten],
        summary=f"{quantity(len(forgotten), 'period')} forgotten",
    )


def _versions(given: argparse.Namespace, chosen: ChosenLoad) -> Report:
    listed = chosen.table.list_versions(chosen.periods(periods_of(given), spans=True))
    free = f"{size(sum(version.size_bytes for version in listed))} on disk would be free without them."
    return Report(
        header=["period", "version", "replaced (UTC)", "rows", "held alone", "problem"],
        rows=[[of.period, of.attempt, of.kept_at, of.rows, size(of.size_bytes), of.why_broken] for of in listed],
        values=[version.as_json() for version in listed],
        summary=quantity(len(listed), "version"),
        is_fine=not any(version.why_broken for version in listed),
        notes=[free] if listed else [],
        nothing="No versions are kept of this table: loads keep some with policies={'keep_versions': 1}.",
    )


def _restore(given: argparse.Namespace, chosen: ChosenLoad) -> Report:
    by, how = getpass.getuser(), {"version": given.version, "replaces_changed": given.replace_changed}
    return _restored(chosen.table.restore(chosen.periods(periods_of(given)), by=by, **how))


def _unpin(given: argparse.Namespace, chosen: ChosenLoad) -> Report:
    return _restored(chosen.table.unpin(chosen.periods(periods_of(given))))


def _restored(periods: Sequence[RestoredPeriod]) -> Report:
    return Report(
        header=["period", "status", "version", "rows", "reason"],
        rows=[[period.period, period.status, period.version, period.rows, period.reason] for period in periods],
        values=[period.as_json() for period in periods],
        summary=quantity(len(periods), "period"),
    )


def _approve(given: argparse.Namespace, chosen: ChosenLoad) -> Report:
    results = chosen.table.approve(chosen.known_load, chosen.periods(periods_of(given)))
    return Report(
        header=["period", "status", "rows", "reason"],
        rows=[[result.period, result.status, result.rows, result.reason] for result in results],
        values=[result.as_json() for result in results],
        summary=quantity(sum(result.status == "published" for result in results), "period") + " approved",
    )


def _discard(given: argparse.Namespace, chosen: ChosenLoad) -> Report:
    discarded = chosen.table.discard(chosen.periods(periods_of(given)))
    return Report(
        header=["period", "status", "why"],
        rows=[[period.period, "discarded" if period.was_held else "was not held", period.why] for period in discarded],
        values=[period.as_json() for period in discarded],
        summary=quantity(sum(period.was_held for period in discarded), "period") + " discarded",
    )


def _ddl(given: argparse.Namespace, chosen: ChosenLoad) -> Report:
    suggestion = chosen.table.suggest(chosen.known_load, given.period)
    return Report(
        header=["statement"],
        values=suggestion.as_json(),
        summary="1 table",
        notes=[suggestion.as_text],
        text=suggestion.as_text,
    )


def _clean(given: argparse.Namespace) -> Report:
    orphans = clean(
        hook_of(given),
        database=given.database,
        cluster=given.cluster,
        older_than_seconds=given.older_than_hours * 3600,
        is_dry_run=given.dry_run,
    )
    return Report(
        header=["staging", "status", "age", "rows", "size", "nodes", "queries"],
        rows=[
            [
                *(orphan.name, "dropped" if orphan.was_dropped else "would be dropped", age(orphan.age_seconds)),
                *(sum(orphan.rows_by_node.values()), size(orphan.size_bytes), len(orphan.rows_by_node)),
                orphan.queries,
            ]
            for orphan in orphans
        ],
        values=[orphan.as_json() for orphan in orphans],
        is_fine=all(orphan.was_dropped for orphan in orphans),
        nothing="No staging tables are that old.",
    )


def _doctor(given: argparse.Namespace, chosen: ChosenLoad) -> Report:
    result = diagnosis(chosen, period=given.period, purposes=tuple(given.purposes or ("load",)))
    findings = [[check.name, text] for check in result.checks for text in check.findings]
    return Report(
        header=["check", "finding"],
        rows=findings,
        values=result.as_json(),
        summary=quantity(len(findings), "finding"),
        is_fine=result.is_ok,
        text=described(result),
    )


def _rehearse(given: argparse.Namespace) -> Report:
    like = given.like.rpartition(".") if given.like else None
    rehearsed = Rehearsal(
        hook_of(given),
        cluster=given.cluster,
        store_of=partial(object_storage, given),
        database=given.database,
        prefix=given.prefix,
        like=TableName(like[0] or given.database, like[2]) if like else None,
        staging_database=given.staging_database,
        progress=given.progress,
        warn=given.warn,
    )
    if given.clean:
        left = rehearsed.clean()
        removed = f"Removed the remains of {quantity(len(left), 'rehearsal')}."
        return Report(
            values=[{"table": name} for name in left], text=removed if left else "No table of a rehearsal was left."
        )
    rehearsal = rehearsed.play()
    text = (
        "Every period held exactly the rows of its objects."
        if rehearsal.is_exact
        else "A period did not hold exactly the rows of its objects."
    )
    return Report(values=asdict(rehearsal), text=text, is_fine=rehearsal.is_exact)


def _schema(given: argparse.Namespace) -> Report:
    described = schema()
    return Report(values=described, text=json.dumps(described, indent=2))


def _named_periods(given: argparse.Namespace, chosen: ChosenLoad) -> tuple[str, ...] | None:
    """Return the periods; None for all."""
    periods = periods_of(given)
    if bool(periods) == given.all_periods:
        raise ConfigurationError(_NO_PERIODS)
    return chosen.periods(periods, spans=True, arrivals=given.command == "plan") or None


#: The function of each command.
COMMANDS: Mapping[str, Command] = {
    "ledger": or_of_all(list_tables, _ledger),
    "costs": or_of_all(show_costs, show_costs),
    "status": for_loads(_status),
    "plan": for_loads(_plan),
    "adopt": for_loads(_adopt),
    "prove": for_loads(_prove),
    "forget": for_loads(_forget),
    "versions": for_loads(_versions),
    "restore": for_loads(_restore),
    "unpin": for_loads(_unpin),
    "approve": for_loads(_approve),
    "discard": for_loads(_discard),
    "clean": _clean,
    "doctor": for_loads(_doctor),
    "rehearse": _rehearse,
    "ddl": for_loads(_ddl),
    "schema": _schema,
}
