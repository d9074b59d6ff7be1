"""Check that the target can be loaded. Each finding names the node, the fact and what to do."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from airflow_provider_chs3.core.cluster.node_facts import TargetContext, inspect_target
from airflow_provider_chs3.core.cluster.table_facts import Column
from airflow_provider_chs3.core.cluster.time_zones import going_by_servers
from airflow_provider_chs3.core.cluster.topology import TableRequest
from airflow_provider_chs3.core.conversion.column_types import ColumnType
from airflow_provider_chs3.core.ledger.table import LedgerKey, Own, other_schemas
from airflow_provider_chs3.core.preflight.partition_key import (
    PartsOfKey,
    has_times,
    is_of_days,
    is_the_month,
    number_of,
    partitions_query,
    parts_of_key,
    time_of_key,
    zones_of_key,
)
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, one_of, table
from airflow_provider_chs3.core.sql.server_text import elements
from airflow_provider_chs3.core.values.models import Node, SettingValues
from airflow_provider_chs3.core.values.period import WHOLE_TABLE, Grain, Period, range_text
from airflow_provider_chs3.core.workflow.operations import QueryNodes, Row, Steps
from airflow_provider_chs3.exceptions import ConfigurationError, PreflightError

_USUAL_KEY = re.compile(r"(\w+)\([^()]+\)")
_SECONDS, _DAY = "%s", "%Y%m%d"
#: Function of the usual keys → the length of their periods, and the ids of their partitions: the second at which a
#: period begins, or its date.
_IDS = {
    "toStartOfHour": (Grain.HOUR, _SECONDS),
    "toDate": (Grain.DAY, _DAY),
    "toYYYYMMDD": (Grain.DAY, _DAY),
    "toMonday": (Grain.WEEK, _DAY),
    "toStartOfWeek": (Grain.WEEK, _DAY),
    "toYYYYMM": (Grain.MONTH, "%Y%m"),
    "toStartOfMonth": (Grain.MONTH, _DAY),
    "toStartOfQuarter": (Grain.QUARTER, _DAY),
    "toYear": (Grain.YEAR, "%Y"),
    "toStartOfYear": (Grain.YEAR, _DAY),
}

#: The partition of a table without a key.
_ID_OF_ALL = "all"
#: A moment in the middle of a period of each length.
_ANY_MOMENT = datetime(2026, 5, 13, 12)
#: Length of a period → the function of it by which to partition a table.
KEYS = {
    Grain.HOUR: "toStartOfHour",
    Grain.DAY: "toYYYYMMDD",
    Grain.WEEK: "toMonday",
    Grain.MONTH: "toYYYYMM",
    Grain.QUARTER: "toStartOfQuarter",
    Grain.YEAR: "toYear",
}
_SHARES = "shares a partition with other"

#: Types that hold any path as it is: a FixedString fills it with zero bytes, an Enum takes only some.
_HOLD_PATHS = ("String", "LowCardinality(String)")

_STRUCTURE = ("columns", "partition_key", "sorting_key", "primary_key", "sampling_key", "indices", "projections")


def check_target(
    context: TargetContext,
    *,
    required_settings: Iterable[str] = (),
    object_column: str | None = None,
    settings: SettingValues | None = None,
) -> None:
    """Check the nodes' facts.

    Raises:
        PreflightError: With all problems.
    """
    findings = [
        *_filtered(context),
        *_listed_twice(context),
        *_missing(context),
        *_differing(context),
        *_engines(context),
        *_unknown_settings(context, required_settings),
        *other_schemas(context),
        *_object_column(context, object_column),
        *_obsolete_types(context),
    ]
    if findings or (settings is not None and (findings := [*zone_findings(context, settings)])):
        raise PreflightError(*findings)


def _named(nodes: Iterable[Node]) -> str:
    return ", ".join(str(node) for node in nodes)


def _filtered(context: TargetContext) -> Iterator[str]:
    for node, facts in context.nodes.items():
        if facts.filtered:
            yield (
                f"A row policy filters {', '.join(f'system.{name}' for name in facts.filtered)} for the connection's "
                f"user on {node}: it may hide a column or rows of {context.target}, which would be lost. Exempt the "
                "user from the policy (ALTER ROW POLICY … TO ALL EXCEPT …), or load as another user."
            )


def _listed_twice(context: TargetContext) -> Iterator[str]:
    servers: dict[str, list[Node]] = {}
    for node, facts in context.nodes.items():
        if facts.server:
            servers.setdefault(facts.server, []).append(node)
    for nodes in servers.values():
        if len(nodes) > 1:
            shards = ", ".join(str(node.shard_num) for node in nodes)
            yield (
                f"Cluster {context.cluster!r} lists one server more than once: {_named(nodes)} (shards {shards}). Each "
                "entry would replace what the other has published. Name a cluster with each server once, such as one "
                "of this server alone; or if only the connection's node_addresses lead to one server, correct these."
            )


def _missing(context: TargetContext) -> Iterator[str]:
    target, nodes = context.target, context.nodes
    for database in sorted({target.database, context.staging_database}):
        if "." in database and context.cluster:
            yield (
                f"Database {database!r} has a dot in its name, which the function cluster() does not accept: "
                "use another."
            )
    absent = [node for node, facts in nodes.items() if facts.target is None]
    finding = context.missing_target(
        "create it (chs3 ddl writes its statement, and create_table='if_missing' lets a load create it), or check the "
        "name"
    )
    if 0 < len(absent) < len(nodes) and not context.missing_database(target.database):
        present = _named(node for node in nodes if node not in absent)
        finding = (
            f"Table {target} exists on {present} but not {context.place(absent)}: create it on every node of "
            f"{context.cluster!r}."
        )
    if finding:
        yield finding
    if context.staging_database != target.database:
        without = [node for node, facts in nodes.items() if context.staging_database not in facts.databases]
        if without:
            yield f"staging_database={context.staging_database!r} does not exist on {_named(without)}: create it there."


def _differing(context: TargetContext) -> Iterator[str]:
    present = {node: facts.target for node, facts in context.nodes.items() if facts.target is not None}
    if not present:
        return
    for part in _STRUCTURE:
        values = {node: getattr(target, part) for node, target in present.items()}
        usual, times = Counter(values.values()).most_common(1)[0]
        if times < len(values):
            odd = next(node for node, value in values.items() if value != usual)
            difference = _difference(part, values[odd], usual)
            yield f"Table {context.target} differs on {odd}: {difference}. Make its structure the same on every node."


def _difference(part: str, odd: object, usual: object) -> str:
    if not isinstance(odd, tuple) or not isinstance(usual, tuple):
        return f"its {part.replace('_', ' ')} is {odd or 'none'!r} there and {usual or 'none'!r} elsewhere"
    there = ", ".join(str(each) for each in odd if each not in usual)
    elsewhere = ", ".join(str(each) for each in usual if each not in odd)
    if not there and not elsewhere:
        return f"its {part} are in another order"
    return f"its {part} are {there or 'missing'} there and {elsewhere or 'missing'} elsewhere"


def _engines(context: TargetContext) -> Iterator[str]:
    shards = Counter(node.shard_num for node in context.nodes)
    replicated = [node for node, facts in context.nodes.items() if facts.target and facts.target.is_replicated]
    if 0 < len(replicated) < sum(facts.target is not None for facts in context.nodes.values()):
        yield (
            f"Table {context.target} is replicated on {_named(replicated)}, but not on the other nodes: give it one "
            "engine on all."
        )
    for node, facts in context.nodes.items():
        engine = facts.target.engine if facts.target else "MergeTree"
        if not engine.endswith("MergeTree"):
            yield f"Table {context.target} on {node} has engine {engine}: only MergeTree tables have partitions."
        elif engine.endswith("VersionedCollapsingMergeTree"):
            yield (
                f"Table {context.target} on {node} is a {engine}, whose hidden sorting column keeps it from taking "
                "partitions of a plain staging table: use CollapsingMergeTree or ReplacingMergeTree."
            )
        elif not facts.is_rehearsed:
            yield (
                f"Table {context.target} on {node} is a {engine}, an engine that this package is not tested with: run "
                f"`chs3 rehearse --like {context.target} …` on this cluster. Once that has "
                "passed, loads run until ClickHouse's version, the engine or the storage policy change."
            )
        elif shards[node.shard_num] > 1 and facts.target and not facts.target.is_replicated:
            yield (
                f"Shard {node.shard_num} of cluster {context.cluster!r} has {shards[node.shard_num]} replicas, but "
                f"{context.target} on {node} is a plain {engine}: each replica would get only a part of the rows. Name "
                "a cluster with one replica per shard."
            )


def _object_column(context: TargetContext, name: str | None) -> Iterator[str]:
    present = next((facts.target for facts in context.nodes.values() if facts.target), None)
    for column in present.columns if present else ():
        if column.name == name and column.type not in _HOLD_PATHS:
            yield (
                f"increments['object_column']={name!r} is {column.type} in {context.target}, which cannot hold every "
                f"path: make it {' or '.join(_HOLD_PATHS)}, or leave object_column out."
            )


def _obsolete_types(context: TargetContext) -> Iterator[str]:
    present = next((facts.target for facts in context.nodes.values() if facts.target), None)
    for column in present.columns if present else ():
        if any(ColumnType(column.type).parts("Object")):
            yield (
                f"Column {column.name!r} of {context.target} is {column.type}, an obsolete type, which no load fills: "
                f"change Object to JSON, as in ALTER TABLE {table(context.target)} MODIFY COLUMN "
                f"{identifier(column.name)} JSON."
            )


def _unknown_settings(context: TargetContext, required: Iterable[str]) -> Iterator[str]:
    for node, facts in context.nodes.items():
        unknown = sorted(set(required) - facts.known_settings.keys())
        if unknown:
            yield f"Node {node} does not know {', '.join(unknown)}, which a load depends on: upgrade it."


def zone_findings(context: TargetContext, settings: SettingValues) -> Iterator[str]:
    """Yield a sentence for each way in which values depend on the node that reads them."""
    if settings.get("session_timezone") == "":
        yield "settings={'session_timezone': ''} names no time zone: leave it out, or give a name like 'Europe/Berlin'."
    if len(context.server_zones) < 2:
        return
    zones = "; ".join(f"{zone} on {', '.join(map(str, nodes))}" for zone, nodes in context.server_zones.items())
    if not context.zone_of(settings):
        yield (
            f"The nodes have different time zones ({zones}), so a time without a zone would mean a different moment "
            "on each: set one timezone on all, or give the zone of such times, as in "
            "settings={'session_timezone': 'Europe/Berlin'}."
        )
    for what in going_by_servers(context.table_facts):
        yield (
            f"The nodes have different time zones ({zones}), and {context.target} computes {what} in the zone of each "
            "node, whatever session_timezone is: set one timezone on all, or recreate the table with zones in its "
            "times, as in DateTime('UTC')."
        )


def period_of_partition(partition_id: str, *, key: str) -> Period | None:
    """Return the period of a partition's id with the usual keys; None with other keys.

    A period that was loaded records its partition: this is for all others.
    """
    if partition_id == _ID_OF_ALL:
        return WHOLE_TABLE
    matched = _USUAL_KEY.fullmatch(key)
    if not matched or matched[1] not in _IDS:
        return None
    grain, form = _IDS[matched[1]]
    try:
        at = (
            datetime.fromtimestamp(int(partition_id), UTC)
            if form == _SECONDS
            else datetime.strptime(partition_id, form)
        )
        period = Period.of(at.replace(tzinfo=None), grain)
    except (ValueError, OverflowError, OSError, ConfigurationError):
        return None
    return period if _id_of(period, form) == partition_id else None


def periods_of_partitions(context: TargetContext, partition_ids: Collection[str]) -> Steps[dict[str, Period]]:
    """Return partitions with their periods, as a usual key or a ledger tells them; those of others are left out."""
    key = context.table_facts.partition_key
    found = {each: period for each in partition_ids if (period := period_of_partition(each, key=key))}
    ledgers = [node for node, facts in context.nodes.items() if facts.has_ledger]
    if len(found) == len(partition_ids) or not ledgers:
        return found
    sql = {
        node: Sql(
            f"SELECT DISTINCT partition_id, period FROM {table(context.ledger)} "
            f"WHERE {LedgerKey.on(context, node, WHOLE_TABLE).table_condition} "
            f"AND {one_of('partition_id', partition_ids)}"
        )
        for node in ledgers
    }
    answers = yield from QueryNodes(name="Ask the ledgers for the periods of partitions", sql=sql)
    return found | {partition_id: Period.parse(period) for rows in answers.values() for partition_id, period in rows}


def usual_partition_ids(period: Period) -> list[str]:
    """Return the ids that the usual keys give the partition of a period."""
    if period is WHOLE_TABLE:
        return [_ID_OF_ALL]
    return sorted({_id_of(period, form) for grain, form in _IDS.values() if grain is period.grain})


def _id_of(period: Period, form: str) -> str:
    return str(int(period.begin.replace(tzinfo=UTC).timestamp())) if form == _SECONDS else f"{period.begin:{form}}"


def partitions_of_one(context: TargetContext, period: Period) -> Steps[Own]:
    """Return the partitions of a period, as in `partitions_of`."""
    return (yield from partitions_of(context, (period,)))[period]


def _why_not_of_periods(periods: Sequence[Period], rows: Sequence[Row]) -> str:
    ids, numbers = defaultdict[int, set[str]](set), defaultdict[str, set[int]](set)
    for number, partition_id in rows:
        ids[number].add(partition_id)
        numbers[partition_id].add(number)
    for period in periods:
        own = ids[number_of(period)]
        if len(own) > 1:
            return f"{period} falls into {len(own)} partitions"
        if not own or len(numbers[next(iter(own))]) > 1:
            return f"{period} {_SHARES} {period.grain}s"
    return ""


def find_grain(
    request: TableRequest, *, may_lack: bool = False, policies_on: Collection[str] = ()
) -> Steps[tuple[Grain, TargetContext | None]]:
    """Return how long the periods are that a table is partitioned by, and the facts of its nodes.

    Raises:
        PreflightError: If it is missing, or partitioned by something else.
    """
    context = yield from inspect_target(request, policies_on=policies_on)
    if may_lack and not any(facts.target for facts in context.nodes.values()):
        return Grain.MONTH, None
    check_target(context)
    return (yield from grain_of_key(context)), context


def grain_of_key(context: TargetContext) -> Steps[Grain]:
    """Return how long the periods are that the target is partitioned by, as the servers compute its key.

    Raises:
        PreflightError: If it is partitioned by something else.
    """
    table_facts, of_time = context.table_facts, time_of_key(context)
    if not table_facts.is_partitioned:
        return Grain.ALL
    if of_time and is_the_month(of_time.column, table_facts.partition_key):
        return Grain.MONTH
    key, errors = (yield from _key_of_time(context, Grain.MONTH)), dict[Grain, PreflightError]()
    for grain in (Grain.MONTH, Grain.DAY, Grain.HOUR, Grain.YEAR, Grain.WEEK, Grain.QUARTER):
        try:
            yield from _partitions_by(context, key, [Period.of(_ANY_MOMENT, grain)])
        except PreflightError as error:
            errors[grain] = error
        else:
            return grain
    # The longest that is constant, but comes back, is what the key means: toISOWeek is by week.
    repeating = (grain for grain in reversed(KEYS) if _SHARES in str(errors[grain]))
    raise errors[next(repeating, Grain.MONTH)]


def partitions_of(context: TargetContext, periods: Sequence[Period]) -> Steps[dict[Period, Own]]:
    """Return the partitions of periods, as the servers compute them; those of `toYYYYMM` are known.

    A partition key fits periods if its parts of time are constant in each and different in those before and after, in
    the time zone that the key names, or else in that of its column. Parts of other columns give a period several
    partitions. A table without partitions is one period.

    Raises:
        PreflightError: If the key does not fit them.
    """
    grain, key = periods[0].grain, context.table_facts.partition_key
    has_key = context.table_facts.is_partitioned
    if grain is Grain.ALL or not has_key:
        if grain is Grain.ALL and not has_key:
            return {WHOLE_TABLE: Own(_ID_OF_ALL)}
        why = "it has one" if has_key else "it has none, so the whole table is one period: give period='all'"
        raise PreflightError(_does_not_fit(context, grain, why))
    of_time = time_of_key(context)
    if of_time and grain is Grain.MONTH and is_the_month(of_time.column, key):
        return {period: Own(str(number_of(period))) for period in periods}
    return (yield from _partitions_by(context, (yield from _key_of_time(context, grain)), periods))


class _KeyOfTime(NamedTuple):
    column: Column
    parts: PartsOfKey
    zones: tuple[str, ...]


def _key_of_time(context: TargetContext, grain: Grain) -> Steps[_KeyOfTime]:
    """Return the parts of the key that are of time, as the servers read them; only hours need none of its zones."""
    of_time = time_of_key(context)
    if of_time is None or not is_of_days(of_time.column):
        why = "a part of it must depend on a Date or DateTime column alone, and the others on no such column"
        raise PreflightError(_does_not_fit(context, grain, why))
    parts = yield from parts_of_key(context, of_time)
    zones = (yield from zones_of_key(context)) if has_times(of_time.column) and grain is not Grain.HOUR else ()
    return _KeyOfTime(of_time.column, parts, zones)


def _partitions_by(context: TargetContext, key: _KeyOfTime, periods: Sequence[Period]) -> Steps[dict[Period, Own]]:
    grain, whys = periods[0].grain, list[str]()
    # Hours are in UTC, whatever zone the key names.
    for zone in (*(() if grain is Grain.HOUR else key.zones), None):
        sql = Sql(partitions_query(key.column, key.parts, periods, zone=zone))
        name = f"Ask for the partition of {range_text(periods)}"
        rows = yield from context.on_coordinator(name=name, sql=sql, settings=context.evaluating)
        why = _why_not_of_periods(periods, rows)
        if not why:
            ids = {number: str(partition_id) for number, partition_id in rows}
            return {period: Own(ids[number_of(period)], key.parts.of_part) for period in periods}
        whys.append(why)
    raise PreflightError(_does_not_fit(context, grain, whys[0]))


def _does_not_fit(context: TargetContext, grain: Grain, why: str) -> str:
    table_facts = context.table_facts
    key = table_facts.partition_key or "none"
    if grain is Grain.ALL:
        way_out = (
            "give one of its own periods" if _has_time(context) else f"create it without a key, or with {_use(context)}"
        )
        return f"Table {context.target} is not one period (its partition key is {key!r}): {way_out}."
    article = "an" if grain is Grain.HOUR else "a"
    return (
        f"Table {context.target} is not partitioned by {grain} (its key is {key!r}; {why}), so {article} {grain} "
        f"cannot be replaced: give a period that its key knows, or create it with {_use(context, grain)}."
    )


def _use(context: TargetContext, grain: Grain = Grain.MONTH) -> str:
    """Return a key by which periods can be replaced: of one without time its parts, and one of time."""
    columns, key = context.table_facts.columns, context.table_facts.partition_key
    dates = [column.name for column in columns if is_of_days(column)]
    if not dates:
        return f"a Date or DateTime column and PARTITION BY {KEYS[grain]} of it"
    of_time = f"{KEYS[grain]}({identifier(dates[0])})"
    if key and not _has_time(context):
        of_time = f"({', '.join([*elements(key), of_time])})"
    return f"PARTITION BY {of_time}"


def _has_time(context: TargetContext) -> bool:
    return any(column.in_partition_key and is_of_days(column) for column in context.table_facts.columns)
