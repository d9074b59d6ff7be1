"""Check that the target can be loaded. Each finding names the node, the fact and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from airflow_provider_chs3.core.model.models import Node, SettingValues
from airflow_provider_chs3.core.model.period import Grain
from airflow_provider_chs3.core.sql.column_types import ColumnType
from airflow_provider_chs3.core.sql.quoting import identifier, table
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.node_facts import Target, inspect_target, other_schemas
from airflow_provider_chs3.core.target.partition_key import zone_of_periods
from airflow_provider_chs3.core.target.period_partitions import grain_of_key
from airflow_provider_chs3.core.target.table_facts import going_by_servers
from airflow_provider_chs3.core.target.topology import TableRequest
from airflow_provider_chs3.exceptions import PreflightError, TransientError

#: Types that hold any path as it is: a FixedString fills it with zero bytes, an Enum takes only some.
_HOLD_PATHS = ("String", "LowCardinality(String)")

_STRUCTURE = ("columns", "partition_key", "sorting_key", "primary_key", "sampling_key", "indices", "projections")


def check_target(
    context: Target,
    *,
    required_settings: Iterable[str] = (),
    object_column: str | None = None,
    settings: SettingValues | None = None,
) -> None:
    """Check the nodes' facts."""
    _check_stuck(context)
    findings = [
        *_filtered(context),
        *_listed_twice(context),
        *_missing(context),
        *_differing(context),
        *_engines(context),
        *_unknown_settings(context, required_settings),
        *other_schemas(context),
        *_columns(context, object_column),
    ]
    if findings or (settings is not None and (findings := [*zone_findings(context, settings)])):
        raise PreflightError(*findings)


def _named(nodes: Iterable[Node]) -> str:
    return ", ".join(str(node) for node in nodes)


def _check_stuck(context: Target) -> None:
    if stuck := [node for node, facts in context.nodes.items() if facts.target is None and context.is_stuck(node)]:
        raise TransientError(
            f"Table {context.target} is missing on {_named(stuck)}, which runs no statement of its Replicated database "
            "(is_active in system.clusters). After a start that ends by itself. If it lasts, the server's log says why "
            "(DDLWorker), and docs/replicas.md what to do."
        )


def _filtered(context: Target) -> Iterator[str]:
    for node, facts in context.nodes.items():
        if facts.filtered:
            yield (
                f"A row policy filters {', '.join(f'system.{name}' for name in facts.filtered)} for the connection's "
                f"user on {node}: it may hide a column or rows of {context.target}, which would be lost. Exempt the "
                "user from the policy (ALTER ROW POLICY … TO ALL EXCEPT …), or load as another user."
            )


def _listed_twice(context: Target) -> Iterator[str]:
    servers: dict[str, list[Node]] = {}
    for node, facts in context.nodes.items():
        if facts.server:
            servers.setdefault(facts.server, []).append(node)
    for nodes in servers.values():
        if len(nodes) > 1:
            shards = ", ".join(str(node.shard_num) for node in nodes)
            yield (
                f"Cluster {context.cluster!r} lists one server more than once: {_named(nodes)} (shards {shards}). Each "
                "entry would replace what the other has published. Name a cluster that lists each server once; or if "
                "only the connection's node_addresses lead to one server, correct these."
            )


def _missing(context: Target) -> Iterator[str]:
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


def _differing(context: Target) -> Iterator[str]:
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
    missing_elsewhere = ", ".join(str(value) for value in odd if value not in usual)
    elsewhere = ", ".join(str(value) for value in usual if value not in odd)
    if not missing_elsewhere and not elsewhere:
        return f"its {part} are in another order"
    return f"its {part} are {missing_elsewhere or 'missing'} there and {elsewhere or 'missing'} elsewhere"


def _engines(context: Target) -> Iterator[str]:
    shards = Counter(node.shard_num for node in context.nodes)
    replicated = [node for node, facts in context.nodes.items() if facts.target and facts.target.is_replicated]
    if 0 < len(replicated) < sum(facts.target is not None for facts in context.nodes.values()):
        yield (
            f"Table {context.target} is replicated on {_named(replicated)}, but not on the other nodes: create it "
            "with one engine on all."
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


def _columns(context: Target, object_column: str | None) -> Iterator[str]:
    present = next((facts.target for facts in context.nodes.values() if facts.target), None)
    for column in present.columns if present else ():
        if column.name == object_column and column.type not in _HOLD_PATHS:
            yield (
                f"increments['object_column']={object_column!r} is {column.type} in {context.target}, which cannot "
                f"hold every path: make it {' or '.join(_HOLD_PATHS)}, or leave object_column out."
            )
        if any(ColumnType(column.type).parts("Object")):
            yield (
                f"Column {column.name!r} of {context.target} is {column.type}, an obsolete type, which no load fills: "
                f"change Object to JSON, as in ALTER TABLE {table(context.target)} MODIFY COLUMN "
                f"{identifier(column.name)} JSON."
            )


def _unknown_settings(context: Target, required: Iterable[str]) -> Iterator[str]:
    for node, facts in context.nodes.items():
        unknown = sorted(set(required) - facts.known_settings.keys())
        if unknown:
            yield f"Node {node} does not know {', '.join(unknown)}, which a load depends on: upgrade it."


def zone_findings(context: Target, settings: SettingValues) -> Iterator[str]:
    """Yield a sentence for each way in which values depend on the node that reads them."""
    if settings.get("session_timezone") == "":
        yield "settings={'session_timezone': ''} names no time zone: leave it out, or set a name like 'Europe/Berlin'."
    if len(context.server_zones) < 2:
        return
    zones = "; ".join(f"{zone} on {', '.join(map(str, nodes))}" for zone, nodes in context.server_zones.items())
    if not context.zone_of(settings):
        yield (
            f"The nodes have different time zones ({zones}), so a time without a zone would mean a different moment "
            "on each: set one timezone on all, or name the zone of such times, as in "
            "settings={'session_timezone': 'Europe/Berlin'}."
        )
    for what in going_by_servers(context.table_facts):
        yield (
            f"The nodes have different time zones ({zones}), and {context.target} computes {what} in the zone of each "
            "node, whatever session_timezone is: set one timezone on all, or recreate the table with zones in its "
            "times, as in DateTime('UTC')."
        )


def find_grain(
    request: TableRequest, *, may_lack: bool = False, policies_on: Collection[str] = ()
) -> Steps[tuple[Grain, Target | None]]:
    """Return how long the periods are that a table is partitioned by, and the facts of its nodes."""
    context = yield from inspect_target(request, policies_on=policies_on)
    if may_lack and not any(facts.target for facts in context.nodes.values()):
        return Grain.MONTH, None
    check_target(context)
    return (yield from grain_of_key(context)), context


def find_zone(request: TableRequest) -> Steps[str | None]:
    """Return the time zone in which the periods of a table begin; None if its key has no times, or it is missing."""
    context = yield from inspect_target(request)
    if not all(facts.target for facts in context.nodes.values()):
        return None
    return (yield from zone_of_periods(context))
