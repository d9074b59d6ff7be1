"""Topology of a table: the local table behind the one that the user named, and its nodes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from airflow_provider_chs3.core.model.models import AsJson, Node, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import Sql, arguments_of, in_table, is_table, literal
from airflow_provider_chs3.core.steps.operations import Log, Query, QueryNodes, Row, Steps, TryQueryNodes
from airflow_provider_chs3.exceptions import ClickHouseConnectionError, PreflightError

#: The oldest supported server. In older ones `partitionId`, `system.projections` and s3Cluster behave differently.
LOWEST_VERSION = (25, 8)
#: From here on readers give all values as files have them, or an error. Those between this and 25.8 were not tried.
READS_AS_WRITTEN = (26, 9)

#: The ledger's name, in the staging database of every node.
LEDGER_TABLE = "chs3_ledger"
#: Beside the ledger: the objects that each period was loaded from.
OBJECTS_TABLE = "chs3_objects"
#: Beside the ledger of the coordinator: what loads did.
LOADS_TABLE = "chs3_loads"
#: The comment of these tables: who made them, and the version of what is in them.
RECORDS_SCHEMA = "records of airflow-provider-chs3, schema 9"

#: The single server of the connection, where no cluster is used.
ONLY_NODE = Node(1, 1, "", 0)

#: Columns that `nodes_of` reads for each node of each cluster.
_OF_NODE = "cluster, shard_num, replica_num, host_name, port"
#: A macro in the name of a cluster; servers expand those in the macros' own values up to so many times.
_MACRO, _MACROS_IN_MACROS = re.compile(r"\{([^{}]*)\}"), 10


@dataclass(frozen=True, slots=True)
class KeeperPlace:
    """The path of a target's replica in Keeper."""

    keeper: str
    path: str
    replica: str

    def engine_beside(self, name: str) -> str:
        """Return the engine for a table on the same replicas, at its own path beside this one."""
        keeper = "" if self.keeper == "default" else f"{self.keeper}:"
        return f"ReplicatedMergeTree({literal(f'{keeper}{self.path}.{name}')}, {literal(self.replica)})"


@dataclass(frozen=True, kw_only=True, slots=True)
class TableLocation:
    """A table, and the nodes that hold it."""

    cluster: str | None
    target: TableName
    ledger: TableName
    nodes: tuple[Node, ...]
    absent: tuple[Node, ...] = ()
    sharding_key: str | None = None


@dataclass(frozen=True, kw_only=True)
class TableRequest:
    """A table as named by the user."""

    #: A local table, or a Distributed one over the tables of the nodes.
    target: TableName
    #: The cluster; None takes the Distributed table's, otherwise the default.
    cluster: str | None
    #: The connection's cluster; None for the connection's single server.
    default_cluster: str | None
    #: Database of staging tables and ledger; None takes the target's database.
    staging_database: str | None = None


@dataclass(frozen=True, kw_only=True)
class PassedRequest(TableRequest, AsJson):
    """A request for periods of a table, or for all of them, that is passed to a trigger as JSON."""

    periods: tuple[Period, ...] | None

    def as_json(self) -> dict[str, Any]:
        """Return JSON-safe values, without the default cluster, which is the connection's."""
        return {name: value for name, value in super().as_json().items() if name != "default_cluster"}

    @classmethod
    def of_json(cls, values: Mapping[str, Any], *, default_cluster: str | None) -> Self:
        """Create the request from the values of `as_json`."""
        periods = values["periods"]
        parsed = {
            "target": TableName(*values["target"]),
            "periods": None if periods is None else tuple(map(Period.parse, periods)),
        }
        return cls(**{**values, **parsed}, default_cluster=default_cluster)


def resolve_table(request: TableRequest) -> Steps[TableLocation]:
    """Find the local table and the nodes, from the server of the connection."""
    rows, clusters = yield from _look_up(request)
    local, cluster_of_table, sharding_key = yield from _local_table(request.target, request.cluster, rows)
    cluster = yield from _expanded(request.cluster or cluster_of_table or request.default_cluster)
    nodes = (yield from nodes_of(cluster)) if clusters is None else _nodes_of(cluster, clusters)
    ledger = TableName(request.staging_database or local.database, LEDGER_TABLE)
    return TableLocation(cluster=cluster, target=local, ledger=ledger, nodes=nodes, sharding_key=sharding_key)


def _look_up(request: TableRequest) -> Steps[tuple[Sequence[Row], Sequence[Row] | None]]:
    """Return the table's engine, and the nodes of all clusters if one will be needed, with one statement."""
    if not (request.cluster or request.default_cluster):
        return (yield from _engine_of(request.target)), None
    tables = f"(SELECT groupArray((engine, engine_full)) {_from_tables(request.target)})"
    sql = Sql(f"SELECT {tables}, (SELECT groupArray(({_OF_NODE})) FROM system.clusters)")
    return (yield from Query(name=f"Look up {request.target}, and the clusters", sql=sql))[0]


def check_distribution(location: TableLocation, *, distribution: str, target: TableName) -> Steps[None]:
    """Check that a required sharding key exists, and that each row is written once."""
    if distribution != "sharding_key":
        return
    if location.sharding_key:
        yield from _check_replication(location)
        return
    way_out = "leave distribution out: each node then keeps the rows that it reads"
    if location.sharding_key is None:
        finding = (
            f"distribution='sharding_key' needs a Distributed table with a sharding key, and {target} is not one: name "
            f"the Distributed table over it as table, or {way_out}."
        )
    else:
        finding = (
            f"distribution='sharding_key' needs a sharding key, which {target} lacks: create it with one, as "
            f"Distributed(cluster, database, table, key), or {way_out}."
        )
    raise PreflightError(finding)


def _check_replication(location: TableLocation) -> Steps[None]:
    if have_one_replica((*location.nodes, *location.absent)):
        return
    of_cluster = f"FROM system.clusters WHERE cluster = {literal(location.cluster or '')}"
    rows = yield from Query(
        name=f"Read how {location.cluster} writes to replicas",
        sql=Sql(f"SELECT min(internal_replication) {of_cluster}"),
    )
    if not rows[0][0]:
        raise PreflightError(
            f"Cluster {location.cluster!r} has internal_replication = false: with a sharding key it would write "
            "each row to every replica of a shard, and the replicas would replicate it as well. Set "
            "internal_replication to true in the definition of the cluster, or leave distribution out: each node "
            "then keeps the rows that it reads."
        )


def have_one_replica(nodes: Collection[Node]) -> bool:
    """Check whether each shard of these nodes has a single replica."""
    return len({node.shard_num for node in nodes}) == len(nodes)


def local_table(target: TableName, cluster: str | None) -> Steps[TableName]:
    """Return the table, or the local one of a Distributed table."""
    local, _, _ = yield from _local_table(target, cluster, (yield from _engine_of(target)))
    return local


def _engine_of(target: TableName) -> Steps[Sequence[Row]]:
    sql = Sql(f"SELECT engine, engine_full {_from_tables(target)}")
    rows: Sequence[Row] = yield from Query(name=f"Look up {target}", sql=sql)
    return rows


def _from_tables(target: TableName) -> str:
    return f"FROM system.tables WHERE {is_table(target)}"


def _local_table(
    target: TableName, cluster: str | None, rows: Sequence[Row]
) -> Steps[tuple[TableName, str | None, str | None]]:
    if not rows or rows[0][0] != "Distributed":
        return target, None, None
    arguments = arguments_of(rows[0][1])
    if len(arguments) < 3 or not all(text.startswith("'") for text in arguments[:3]):
        raise PreflightError(
            f"The definition of the Distributed table {target} is not understood ({rows[0][1]}): name its local table."
        )
    named, database, name = (re.sub(r"\\(.)", r"\1", text[1:-1]) for text in arguments[:3])
    # Servers expand macros in the cluster's name alone (seen on 25.8 and 26.9).
    of_cluster = yield from _expanded(named)
    if cluster and (yield from _expanded(cluster)) != of_cluster:
        raise PreflightError(
            f"{target} is Distributed over cluster {of_cluster!r}, but the load names cluster={cluster!r}: leave "
            "cluster out."
        )
    return TableName(database, name), of_cluster, "".join(arguments[3:4])


def _expanded(cluster: str | None) -> Steps[str | None]:
    """Return a cluster's name with the macros of the connection's server in place of `{…}`, as the server does."""
    if not cluster or "{" not in cluster:
        return cluster
    rows = yield from Query(name="Read the server's macros", sql=Sql("SELECT macro, substitution FROM system.macros"))
    return with_macros(cluster, dict(rows))


def with_macros(cluster: str, macros: Mapping[str, str]) -> str:
    """Return a cluster's name with macros in place of `{…}`."""
    expanded = cluster
    for _ in range(_MACROS_IN_MACROS):
        names = _MACRO.findall(expanded)
        if unknown := [name for name in names if name not in macros]:
            raise PreflightError(
                f"The cluster's name {cluster!r} has a macro {{{unknown[0]}}} that the server of the connection "
                "does not have: add it to the server's macros, or name the cluster. Known macros: "
                f"{', '.join(sorted(macros)) or 'none'}."
            )
        expanded = _MACRO.sub(lambda match: macros[match[1]], expanded)
    return expanded


def nodes_of(cluster: str | None) -> Steps[tuple[Node, ...]]:
    """Return the nodes of a cluster, in order."""
    if not cluster:
        return (ONLY_NODE,)
    cluster = yield from _expanded(cluster)
    sql = Sql(f"SELECT {_OF_NODE} FROM system.clusters")
    rows = yield from Query(name=f"Find the nodes of cluster {cluster}", sql=sql)
    return _nodes_of(cluster, rows)


def _nodes_of(cluster: str | None, rows: Sequence[Row]) -> tuple[Node, ...]:
    nodes = tuple(sorted(Node(*row[1:]) for row in rows if row[0] == cluster))
    if not nodes:
        known = ", ".join(sorted({row[0] for row in rows})) or "none"
        raise PreflightError(f"Cluster {cluster!r} is not known to the server. Known clusters: {known}.")
    return nodes


def check_versions(nodes: tuple[Node, ...]) -> Steps[None]:
    """Check the version of every node."""
    answers = yield from QueryNodes(
        name="Check the version of every node", sql=dict.fromkeys(nodes, Sql("SELECT version()"))
    )
    if old := list(too_old({node: rows[0][0] for node, rows in answers.items()})):
        raise PreflightError(*old)


def release_of(version: str) -> tuple[int, ...]:
    """Return the release of a version: (26, 9) of `26.9.2.1`."""
    return tuple(int(part) for part in version.split(".")[:2])


def too_old(versions: Mapping[Node, str]) -> Iterator[str]:
    """Yield a sentence for each node whose version is not supported."""
    lowest = ".".join(map(str, LOWEST_VERSION))
    for node, version in versions.items():
        if release_of(version) < LOWEST_VERSION:
            yield f"Node {node} runs ClickHouse {version}, below {lowest}, the lowest supported: upgrade it."


def leave_out_absent(location: TableLocation) -> Steps[TableLocation]:
    """Leave out nodes that do not answer, where the table is replicated and other replicas of their shard are up.

    Replicas are restarted and replaced all the time, so a nightly load must not need all of them. A replica that comes
    back fetches what it missed from the others, by way of Keeper. So Keeper decides which replica is down: one that it
    still considers alive may write to the period at any moment.
    """
    if have_one_replica(location.nodes):
        return location
    answers = yield from TryQueryNodes(
        name="Check which replicas are up", sql=dict.fromkeys(location.nodes, Sql("SELECT 1"))
    )
    down = {node: error for node, error in answers.items() if isinstance(error, ClickHouseConnectionError)}
    if not down:
        return location
    up = tuple(node for node in location.nodes if node not in down)
    yield from _check_absent(location, up, down)
    for node in down:
        yield from Log(name=f"{node} is down. Other replicas of its shard are up: continuing without it.")
    return replace(location, nodes=up, absent=tuple(down))


def _check_absent(
    location: TableLocation, up: tuple[Node, ...], down: Mapping[Node, ClickHouseConnectionError]
) -> Steps[None]:
    target = location.target
    sql = Sql(
        "SELECT zookeeper_name, replica_name, mapKeys(mapFilter((name, is_active) -> is_active, replica_is_active)) "
        f"FROM system.replicas WHERE {in_table(target)}"
    )
    answers = yield from QueryNodes(name=f"Check the replicas of {target} in Keeper", sql=dict.fromkeys(up, sql))
    for node, error in down.items():
        of_shard = [
            rows[0]
            for replica, rows in answers.items()
            # The newest record of a shard comes from its Keeper, and only one is asked
            # (see `core.ledger.recording.add_records`).
            if replica.shard_num == node.shard_num and rows and rows[0][0] == "default"
        ]
        answering = {name for _, name, _ in of_shard}
        # Where Keeper itself is down, no replica is active.
        if not of_shard or any(set(active) != answering for _, _, active in of_shard):
            message = error.message
            if of_shard:
                message = (
                    f"{message} Another replica of shard {node.shard_num} is up, but Keeper counts this one as alive. "
                    "If it is down, loads continue without it once its session has expired (session_timeout_ms, 30 s "
                    "by default). If it is up, workers must reach it."
                )
            raise ClickHouseConnectionError(message, error.host, error.query_id)
