"""The commands: each runs an operator and prints its result."""

from __future__ import annotations

import argparse
import getpass
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from airflow_provider_chs3.cli.arguments import object_storage, periods_of, source_arguments
from airflow_provider_chs3.cli.doctor_output import described, diagnosis
from airflow_provider_chs3.cli.rehearse import Rehearsal
from airflow_provider_chs3.cli.tables import age, rendered, size
from airflow_provider_chs3.core.files.csv_dialect import Dialect
from airflow_provider_chs3.core.files.table_suggestion import NewTable, NewTableRequest, suggest_table
from airflow_provider_chs3.core.load.cleanup_on_request import Orphan
from airflow_provider_chs3.core.load.load_result import LoadResult
from airflow_provider_chs3.core.load.reload import RELOAD
from airflow_provider_chs3.core.model.formats import format_named
from airflow_provider_chs3.core.model.models import PeriodObjects, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.periods.adopt import AdoptedPeriod
from airflow_provider_chs3.core.periods.discard import DiscardedPeriod
from airflow_provider_chs3.core.periods.forget import ForgottenPeriod
from airflow_provider_chs3.core.periods.objects import LoadedObject
from airflow_provider_chs3.core.periods.plan import PlannedPeriod, forecast_text
from airflow_provider_chs3.core.periods.proved_period import DIFFERS, EQUAL, ProvedPeriod
from airflow_provider_chs3.core.periods.restore import ListedVersion, RestoredPeriod
from airflow_provider_chs3.core.periods.status import PeriodInLedger
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.operators.held import ApprovePeriodsOperator, DiscardPeriodsOperator
from airflow_provider_chs3.operators.ledger import (
    AdoptPeriodsOperator,
    CleanStagingOperator,
    ForgetPeriodsOperator,
    ListLedgerOperator,
)
from airflow_provider_chs3.operators.period import PeriodOperator
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.operators.prove import ProvePeriodsOperator
from airflow_provider_chs3.operators.versions import (
    ListVersionsOperator,
    RestorePeriodsOperator,
    UnpinPeriodsOperator,
)


@dataclass(frozen=True)
class CommandResult:
    """The result of a command."""

    as_json: list[dict[str, Any]] | dict[str, Any]
    as_text: str
    is_fine: bool


def _ledger(given: argparse.Namespace) -> CommandResult:
    periods = periods_of(given)
    operator = ListLedgerOperator(task_id="ledger", periods=periods, **_table(given))
    if given.objects:
        return _objects(operator)
    listed = operator.listed()
    header = ["period", "partition", "state", "rows", "size", "objects", "published (UTC)", "rows/s", "attempt"]
    rows = [
        [period.period, period.partition_id, period.state, period.rows, size(period.size_bytes), *_published(period)]
        for period in listed
    ]
    nothing = "The ledger has no such period." if periods else "The ledger has no periods of this table."
    text = rendered(header, rows) if rows else nothing
    return CommandResult(
        [period.as_json() for period in listed], text, all(period.is_as_published for period in listed)
    )


def _objects(operator: ListLedgerOperator) -> CommandResult:
    listed = operator.listed_objects()
    header = ["period", "object", "size", "rows", "loaded (UTC)", "attempt", "published"]
    rows = [
        [unit.period, unit.path, size(unit.size_bytes), unit.rows, unit.loaded_at, unit.attempt, _is_current(unit)]
        for unit in listed
    ]
    text = rendered(header, rows) if rows else "No load of these periods has recorded its objects."
    return CommandResult([unit.as_json() for unit in listed], text, is_fine=True)


def _is_current(unit: LoadedObject) -> str:
    return "yes" if unit.is_current else "no"


def _published(period: PeriodInLedger) -> list[object]:
    if not period.attempt:
        return [None] * 4
    speed = "adopted" if period.was_adopted else f"{period.rows_per_second or 0:,}"
    return [period.objects, period.published_at, speed, period.attempt]


def _plan(given: argparse.Namespace) -> CommandResult:
    operator = PlanLoadsOperator(
        task_id="plan", definition=given.definition, **_table(given), **source_arguments(given), **_named_periods(given)
    )
    planned: list[PlannedPeriod] = operator.planned({})
    rows = [
        [
            period.period,
            period.to_do,
            period.reason,
            *_amount(period.objects),
        ]
        for period in planned
    ]
    values = [
        {
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
        for period in planned
    ]
    is_of_rows = any(period.objects.rows is not None for period in planned)
    text = rendered(["period", "to do", "reason", *(["rows"] if is_of_rows else ["objects", "size"])], rows)
    text = "\n\n".join(filter(None, (text, forecast_text(planned))))
    return CommandResult(values, text, not any(period.is_to_load for period in planned))


def _amount(objects: PeriodObjects) -> list[object]:
    return [objects.count, size(objects.size_bytes)] if objects.rows is None else [objects.rows]


def _adopt(given: argparse.Namespace) -> CommandResult:
    operator = AdoptPeriodsOperator(
        task_id="adopt",
        definition=given.definition,
        prove=given.prove,
        **_table(given),
        **source_arguments(given),
        **_named_periods(given),
    )
    adopted: list[AdoptedPeriod] = operator.adopted()
    rows = [[period.period, period.status, sum(period.rows_by_node.values()), period.reason] for period in adopted]
    return CommandResult(
        [period.as_json() for period in adopted],
        rendered(["period", "status", "rows", "reason"], rows),
        all(period.status != "refused" for period in adopted),
    )


def _prove(given: argparse.Namespace) -> CommandResult:
    operator = ProvePeriodsOperator(
        task_id="prove",
        definition=given.definition,
        object_column=given.object_column,
        sample=given.sample,
        **_table(given),
        **source_arguments(given),
        **_named_periods(given),
    )
    proved: list[ProvedPeriod] = operator.proved()
    rows = [[period.period, period.status, period.rows, period.source_rows, period.reason] for period in proved]
    texts = [
        rendered(["period", "status", "rows", "of the objects", "reason"], rows),
        "\n".join(f"Not compared: {name}, as {reason}." for name, reason in _left_out_of(proved).items()),
        _to_repair(proved, operator),
    ]
    unlike = [period for period in proved if period.status != EQUAL]
    return CommandResult([period.as_json() for period in proved], "\n\n".join(filter(None, texts)), not unlike)


def _left_out_of(proved: Sequence[ProvedPeriod]) -> dict[str, str]:
    return {name: reason for period in proved for name, reason in period.left_out.items()}


def _to_repair(proved: Sequence[ProvedPeriod], operator: ProvePeriodsOperator) -> str:
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
            "load without arguments. Prove them again with those that the DAG's load has, as --definition "
            "'{\"select\": …}', or with --definition '{}' for none."
        )
    if known:
        named = operator.of_table(operator.hook().options)["target"]
        asked = {"database": named.database, "table": named.table, "periods": known, "replace_rows_of_others": True}
        texts.append(
            "To load just what differs, trigger the DAG that loads the table:\n"
            f"airflow dags trigger <dag_id> --conf {shlex.quote(json.dumps({RELOAD: asked}))}"
        )
    return "\n\n".join(texts)


def _forget(given: argparse.Namespace) -> CommandResult:
    periods = periods_of(given)
    if given.all_periods and not periods:
        listed = ListLedgerOperator(task_id="ledger", **_table(given)).listed()
        periods = tuple(str(period.period) for period in listed if period.period)
        if not periods:
            return CommandResult([], "The ledger has no periods.", is_fine=True)
    operator = ForgetPeriodsOperator(task_id="forget", periods=periods, **_table(given))
    forgotten: list[ForgottenPeriod] = operator.forgotten()
    rows = [[period.period, "forgotten" if period.was_known else "was not known", period.rows] for period in forgotten]
    text = rendered(["period", "status", "rows that stay"], rows)
    return CommandResult([period.as_json() for period in forgotten], text, is_fine=True)


def _versions(given: argparse.Namespace) -> CommandResult:
    operator = ListVersionsOperator(task_id="versions", periods=periods_of(given), **_table(given))
    listed: list[ListedVersion] = operator.listed()
    header = ["period", "version", "replaced (UTC)", "rows", "held alone", "problem"]
    rows = [
        [version.period, version.attempt, version.kept_at, version.rows, size(version.size_bytes), version.why_broken]
        for version in listed
    ]
    nothing = "No versions are kept of this table: loads keep some with policies={'keep_versions': 1}."
    text = rendered(header, rows) if rows else nothing
    if rows:
        text += f"\n{size(sum(version.size_bytes for version in listed))} on disk would be free without them."
    return CommandResult(
        [version.as_json() for version in listed], text, not any(version.why_broken for version in listed)
    )


def _restore(given: argparse.Namespace) -> CommandResult:
    operator = RestorePeriodsOperator(
        task_id="restore",
        periods=periods_of(given),
        version=given.version,
        replace_changed=given.replace_changed,
        **_table(given),
    )
    return _restored(operator.restored(getpass.getuser()))


def _unpin(given: argparse.Namespace) -> CommandResult:
    return _restored(UnpinPeriodsOperator(task_id="unpin", periods=periods_of(given), **_table(given)).unpinned())


def _approve(given: argparse.Namespace) -> CommandResult:
    operator = ApprovePeriodsOperator(
        task_id="approve",
        periods=periods_of(given),
        **_table(given),
        **source_arguments(given),
    )
    results: list[LoadResult] = operator.approved()
    rows = [[result.period, result.status, result.rows, result.reason] for result in results]
    return CommandResult(
        [result.as_json() for result in results], rendered(["period", "status", "rows", "reason"], rows), is_fine=True
    )


def _discard(given: argparse.Namespace) -> CommandResult:
    operator = DiscardPeriodsOperator(task_id="discard", periods=periods_of(given), **_table(given))
    discarded: list[DiscardedPeriod] = operator.discarded()
    rows = [[period.period, "discarded" if period.was_held else "was not held", period.why] for period in discarded]
    return CommandResult(
        [period.as_json() for period in discarded], rendered(["period", "status", "why"], rows), is_fine=True
    )


def _restored(periods: Sequence[RestoredPeriod]) -> CommandResult:
    rows = [[period.period, period.status, period.version, period.rows, period.reason] for period in periods]
    text = rendered(["period", "status", "version", "rows", "reason"], rows)
    return CommandResult([period.as_json() for period in periods], text, is_fine=True)


def _clean(given: argparse.Namespace) -> CommandResult:
    operator = CleanStagingOperator(
        task_id="clean",
        database=given.database,
        cluster=given.cluster,
        older_than_seconds=given.older_than_hours * 3600,
        dry_run_only=given.dry_run,
        clickhouse_conn_id=given.conn_id,
    )
    orphans: list[Orphan] = operator.cleaned()
    rows = [
        [
            orphan.name,
            "dropped" if orphan.was_dropped else "would be dropped",
            age(orphan.age_seconds),
            sum(orphan.rows_by_node.values()),
            size(orphan.size_bytes),
            len(orphan.rows_by_node),
            orphan.queries,
        ]
        for orphan in orphans
    ]
    header = ["staging", "status", "age", "rows", "size", "nodes", "queries"]
    text = rendered(header, rows) if rows else "No staging tables are that old."
    return CommandResult([orphan.as_json() for orphan in orphans], text, all(orphan.was_dropped for orphan in orphans))


def _doctor(given: argparse.Namespace) -> CommandResult:
    arguments = {**_table(given), **source_arguments(given)}
    result = diagnosis(
        arguments, period=given.period, purposes=tuple(given.purposes or ("load",)), definition=given.definition
    )
    return CommandResult(result.as_json(), described(result), result.is_ok)


def _rehearse(given: argparse.Namespace) -> CommandResult:
    arguments = {"cluster": given.cluster, "clickhouse_conn_id": given.conn_id}
    like = given.like.rpartition(".") if given.like else None
    rehearsed = Rehearsal(
        arguments,
        store_of=partial(object_storage, given),
        database=given.database,
        prefix=given.prefix,
        like=TableName(like[0] or given.database, like[2]) if like else None,
        staging_database=given.staging_database,
        tell=given.tell,
        warn=given.warn,
    )
    if given.clean:
        left = rehearsed.clean()
        return CommandResult([{"table": name} for name in left], _cleaned(len(left)), is_fine=True)
    rehearsal = rehearsed.play()
    text = (
        "Every period held exactly the rows of its objects."
        if rehearsal.is_exact
        else "A period did not hold exactly the rows of its objects."
    )
    return CommandResult(asdict(rehearsal), text, rehearsal.is_exact)


def _ddl(given: argparse.Namespace) -> CommandResult:
    arguments = {**_named_table(given), **source_arguments(given)}
    suggestion = _suggested_table(arguments, given)
    return CommandResult(suggestion.as_json(), suggestion.as_text, is_fine=True)


def _suggested_table(arguments: Mapping[str, Any], given: argparse.Namespace) -> NewTable:
    task = PeriodOperator(task_id="ddl", **arguments)
    listing = task.listing()
    runner = task.runner(listing)
    options = runner.session.options
    request = NewTableRequest(
        source=task.source(listing),
        table=TableName.of(arguments["table"], arguments["database"], default_database=options.database),
        cluster=arguments["cluster"] or options.cluster,
        file_format=format_named(given.file_format) if given.file_format else None,
        csv=Dialect.of(given.csv),
    )
    return runner.run(suggest_table(request, Period.parse(given.period)))


def _cleaned(count: int) -> str:
    if not count:
        return "No table of a rehearsal was left."
    return f"Removed the remains of {count} rehearsal{'' if count == 1 else 's'}."


def _table(given: argparse.Namespace) -> dict[str, Any]:
    return {**_named_table(given), "staging_database": given.staging_database}


def _named_table(given: argparse.Namespace) -> dict[str, Any]:
    return {
        "table": given.table,
        "database": given.database,
        "cluster": given.cluster,
        "clickhouse_conn_id": given.conn_id,
    }


def _named_periods(given: argparse.Namespace) -> dict[str, Any]:
    periods = periods_of(given)
    if bool(periods) == given.all_periods:
        raise ConfigurationError("Name the periods: --period, --from and --to, or --all-periods.")
    return {"periods": periods, "all_periods": given.all_periods}


#: The function of each command.
COMMANDS: Mapping[str, Callable[[argparse.Namespace], CommandResult]] = {
    "ledger": _ledger,
    "plan": _plan,
    "adopt": _adopt,
    "prove": _prove,
    "forget": _forget,
    "versions": _versions,
    "restore": _restore,
    "unpin": _unpin,
    "approve": _approve,
    "discard": _discard,
    "clean": _clean,
    "doctor": _doctor,
    "rehearse": _rehearse,
    "ddl": _ddl,
}
