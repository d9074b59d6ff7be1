"""End a load whose task a person stopped, and clean up after dead ones that nobody ran again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.core.load.end_attempts import end_attempts_with, end_named
from airflow_provider_chs3.core.load.load_request import LoadRequest
from airflow_provider_chs3.core.load.resume import find_attempts
from airflow_provider_chs3.core.model.models import AsJson, Node, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import Sql, literal
from airflow_provider_chs3.core.steps.operations import Log, Row, Steps
from airflow_provider_chs3.core.target.node_facts import inspect_target
from airflow_provider_chs3.core.target.topology import LEDGER_TABLE, PassedRequest, TableRequest
from airflow_provider_chs3.core.tuning.insert_settings import DDL_SETTINGS
from airflow_provider_chs3.exceptions import PreflightError

#: Names of staging tables, see `core.load.staging_tables.Attempt`. Nothing else is ever dropped.
_STAGING = "^chs3_(held_)?[0-9a-f]{16}_[0-9a-f]{16}[0-9a-z_]*$"
#: How long held rows are kept at least: while they may be approved, by the comment of their table.
_HELD_SECONDS = "JSONExtractFloat(comment, 'hold_limit_days') * 24 * 60 * 60"


@dataclass(frozen=True, kw_only=True)
class StopRequest(PassedRequest):
    """A request to end a load, in addition to the table's arguments."""

    periods: tuple[Period, ...]
    nonce: str
    owner: str = ""

    @classmethod
    def of(cls, request: LoadRequest, periods: Sequence[Period]) -> StopRequest:
        """Create the request that ends a load of periods."""
        given = {name: getattr(request, name) for name in cls.__dataclass_fields__ if name != "periods"}
        return cls(**given, periods=tuple(periods))


def stop_load(request: StopRequest) -> Steps[None]:
    """End a load: afterwards no node runs a query of it, and its staging is gone."""
    context = yield from inspect_target(request, settings=DDL_SETTINGS)
    attempts = yield from find_attempts(context, request.periods, request.owner)
    yield from end_attempts_with(context, *sorted({request.nonce, *(nonce for _, nonce in attempts)}))


@dataclass(frozen=True, kw_only=True)
class CleanRequest:
    """A request to clean up staging."""

    database: str
    cluster: str | None
    default_cluster: str | None
    older_than_seconds: float
    is_dry_run: bool = False


@dataclass(frozen=True, kw_only=True)
class Orphan(AsJson):
    """A staging table that outlived its attempt."""

    name: str
    age_seconds: int
    rows_by_node: Mapping[str, int]
    size_bytes: int
    queries: int
    was_dropped: bool

    def as_json(self) -> dict[str, Any]:
        """Return JSON-safe values."""
        return {**super().as_json(), "rows": sum(self.rows_by_node.values())}


def clean_staging(request: CleanRequest) -> Steps[list[Orphan]]:
    """Kill the queries of old staging tables on every node, wait until they end, and drop the tables."""
    # The ledger is the only table with a known name in that database.
    ledger = TableRequest(
        target=TableName(request.database, LEDGER_TABLE),
        cluster=request.cluster,
        default_cluster=request.default_cluster,
    )
    context = yield from inspect_target(ledger, settings=DDL_SETTINGS)
    if finding := context.missing_database(request.database):
        raise PreflightError(finding)
    answers = yield from context.on_each(name="Look for staging", sql=_tables_query(request.database))
    orphans = list(_parse_orphans(answers, request))
    yield from Log(name=f"{len(orphans)} staging tables are older than {request.older_than_seconds:g} s.")
    if orphans and not request.is_dry_run:
        yield from end_named(context, [orphan.name for orphan in orphans])
    return orphans


def _tables_query(database: str) -> Sql:
    # Without metadata on disk, there is no creation time, and nothing proves that tables are old.
    made_at = "toUnixTimestamp(metadata_modification_time)"
    age_seconds = f"if({made_at} = 0, 0, toInt64(toUnixTimestamp(now())) - {made_at})"
    return Sql(
        f"SELECT name, {age_seconds}, ifNull(total_rows, 0), "
        f"ifNull(total_bytes, 0), {_HELD_SECONDS}, "
        "(SELECT groupArray(initial_query_id) FROM system.processes) AS queries "
        f"FROM system.tables WHERE database = {literal(database)} AND match(name, {literal(_STAGING)})"
    )


def _parse_orphans(answers: Mapping[Node, Sequence[Row]], request: CleanRequest) -> Iterator[Orphan]:
    tables: dict[str, dict[Node, Row]] = defaultdict(dict)
    for node, rows in answers.items():
        for name, *facts in rows:
            tables[name][node] = tuple(facts)
    ages = {name: min(age for age, *_ in nodes.values()) for name, nodes in tables.items()}
    kept = {name: max(seconds for *_, seconds, _ in nodes.values()) for name, nodes in tables.items()}
    young = [name for name, age in ages.items() if age < max(request.older_than_seconds, kept[name])]
    for name, nodes in sorted(tables.items()):
        # A load that starts over appends a number to the name.
        if any(other.startswith(name) for other in young):
            continue
        queries = {query for *_, running in nodes.values() for query in running if query.startswith(f"{name}_")}
        yield Orphan(
            name=name,
            age_seconds=ages[name],
            rows_by_node={str(node): rows for node, (_, rows, *_) in nodes.items()},
            size_bytes=sum(size_bytes for _, _, size_bytes, *_ in nodes.values()),
            queries=len(queries),
            was_dropped=not request.is_dry_run,
        )
