"""Check that the target can be loaded. Each finding names the node, the fact and what to do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from airflow_provider_chs3.core.cluster.node_facts import TargetContext
from airflow_provider_chs3.core.ledger.table import other_schemas
from airflow_provider_chs3.core.preflight.partition_key import (
    has_times,
    is_of_days,
    is_the_period,
    key_column,
    partition_ids_query,
    parts_of_key,
    zones_of_key,
)
from airflow_provider_chs3.core.sql.quoting import Sql, identifier
from airflow_provider_chs3.core.values.models import Node
from airflow_provider_chs3.core.values.period import Period, range_text
from airflow_provider_chs3.core.workflow.operations import QueryNodes, Row, Steps
from airflow_provider_chs3.exceptions import PreflightError

#: What ClickHouse makes of toYYYYMM; and with two digits more, of the first day of a period.
_MONTHLY_PARTITION = re.compile(r"(197[1-9]|19[89]\d|20\d\d|210[0-4])(0[1-9]|1[0-2])")

#: Types that hold any path as it is: a FixedString fills it with zero bytes, an Enum takes only some.
_HOLD_PATHS = ("String", "LowCardinality(String)")

_STRUCTURE = ("columns", "partition_key", "sorting_key", "primary_key", "sampling_key", "indices", "projections")


def check_target(context: TargetContext, *, required_settings: Iterable[str], object_column: str | None = None) -> None:
    """Check the nodes' facts.

    Args:
        context: The facts.
        required_settings: Settings without which a load could go wrong silently.
        object_column: The column that holds the object of each row, if the load has one; none by default.

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
    ]
    if findings:
        raise PreflightError(findings)


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
                "of this server alone."
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
    where = f"on {_named(absent)}" if context.cluster else "on the server"
    no_database = any(target.database not in nodes[node].databases for node in absent)
    if no_database:
        yield f"Database {target.database!r} does not exist {where}: create it, or check the name."
    elif absent and len(absent) == len(nodes):
        yield (
            f"Table {target} does not exist {where}: create it (chs3 ddl writes its statement, and "
            "create_table='if_missing' lets a load create it), or check the name."
        )
    elif absent:
        present = _named(node for node in nodes if node not in absent)
        yield f"Table {target} exists on {present} but not {where}: create it on every node of {context.cluster!r}."
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
                f"Table {context.target} on {node} is a {engine}, which no test of this package has seen: run "
                f"`chs3 rehearse --like {context.target} …` on this cluster. Once that has "
                "passed, loads run until ClickHouse's version, the engine or the storage policy change."
            )
        elif shards[node.shard_num] > 1 and not engine.startswith("Replicated"):
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


def _unknown_settings(context: TargetContext, required: Iterable[str]) -> Iterator[str]:
    for node, facts in context.nodes.items():
        unknown = sorted(set(required) - facts.known_settings.keys())
        if unknown:
            yield f"Node {node} does not know {', '.join(unknown)}, which a load depends on: upgrade it."


def period_of_partition(partition_id: str, *, key: str = "") -> Period | None:
    """Return the period of a partition's id with the usual keys; None for other ids.

    A period that was loaded records its partition: this is for all others.

    Args:
        partition_id: The id.
        key: The table's partition key; without it, 20261001 may as well be a day. Default: unknown.
    """
    if key.startswith("toStartOfMonth(") and partition_id.endswith("01"):
        partition_id = partition_id[: -len("01")]
    matched = _MONTHLY_PARTITION.fullmatch(partition_id)
    return Period.of_month(int(matched[1]), int(matched[2])) if matched else None


def partition_id_of(context: TargetContext, period: Period) -> Steps[str]:
    """Return the id of the period's partition, as in `partition_ids_of`."""
    return (yield from partition_ids_of(context, (period,)))[period]


def _number(period: Period) -> int:
    return period.begin.year * 100 + period.begin.month


def _why_not_of_period(period: Period, rows: Sequence[Row]) -> str:
    own = {partition_id for number, partition_id in rows if number == _number(period)}
    others = {partition_id for number, partition_id in rows if number != _number(period)}
    if len(own) > 1:
        return f"{period} falls into {len(own)} partitions"
    return "" if own and not own & others else f"{period} shares a partition with other periods"


def partition_ids_of(context: TargetContext, periods: Sequence[Period]) -> Steps[dict[Period, str]]:
    """Return the ids of periods' partitions, as the servers compute them; those of `toYYYYMM` are known.

    A partition key is monthly if it is constant in the period and different in the periods before and after, in the
    time zone that the key names, or else in that of its column.

    Args:
        context: The nodes and the target.
        periods: The periods; at least one.

    Raises:
        PreflightError: If the key is not monthly.
    """
    column = key_column(context)
    if column is None or not is_of_days(column):
        raise PreflightError(
            [_not_by_period(context, "it must depend on one Date or DateTime column and nothing else")]
        )
    if is_the_period(column, context.table_facts.partition_key):
        return {period: str(_number(period)) for period in periods}
    parts = yield from parts_of_key(context)
    zones = (yield from zones_of_key(context)) if has_times(column) else ()
    whys = []
    for zone in (*zones, None):
        sql = Sql(partition_ids_query(column, parts, periods, zone=zone))
        ask = QueryNodes(
            name=f"Ask for the partition of {range_text(periods)}",
            sql={context.coordinator: sql},
            settings=context.evaluating,
        )
        rows = (yield from ask)[context.coordinator]
        why = next(filter(None, (_why_not_of_period(period, rows) for period in periods)), "")
        if not why:
            ids = {number: str(partition_id) for number, partition_id in rows}
            return {period: ids[_number(period)] for period in periods}
        whys.append(why)
    raise PreflightError([_not_by_period(context, whys[0])])


def _not_by_period(context: TargetContext, why: str) -> str:
    table_facts = context.table_facts
    dates = [column.name for column in table_facts.columns if is_of_days(column)]
    use = (
        f"PARTITION BY toYYYYMM({identifier(dates[0])})"
        if dates
        else "a Date or DateTime column and PARTITION BY toYYYYMM of it"
    )
    return (
        f"Table {context.target} is not partitioned by period (its key is {table_facts.partition_key or 'none'!r}; "
        f"{why}), so a period cannot be replaced: create it with {use}."
    )
