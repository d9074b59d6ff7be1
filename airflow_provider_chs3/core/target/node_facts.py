"""Facts about the servers and the target, read once before anything is written."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from airflow_provider_chs3.core.model.models import ADAPTIVE_BUFFERS, Node, NodeSpec, SettingValues, TableName
from airflow_provider_chs3.core.sql.complete_answers import evaluating_settings, has_default, is_about_reading
from airflow_provider_chs3.core.sql.quoting import Sql, literal, one_of, table
from airflow_provider_chs3.core.steps.operations import Gather, QueryNodes, Row, Steps
from airflow_provider_chs3.core.target.privileges import find_filtered, policies_query
from airflow_provider_chs3.core.target.table_facts import (
    TableFacts,
    family,
    has_passed,
    is_rehearsal,
    same_name,
    target_facts,
    target_query,
)
from airflow_provider_chs3.core.target.topology import (
    LOADS_TABLE,
    OBJECTS_TABLE,
    READS_AS_WRITTEN,
    RECORDS_SCHEMA,
    KeeperPlace,
    TableLocation,
    TableRequest,
    check_versions,
    leave_out_absent,
    release_of,
    resolve_table,
)

#: Tables of `system` that are not on every server, or that not every user may read: the first has the RAM of the
#: machine, the second what replicas have yet to do.
METRICS, QUEUE = "asynchronous_metrics", "replication_queue"
#: Size of a node: cores, memory limit, macros, and which of these tables the user sees.
_CORES = "anyIf(toUInt32OrZero(extract(default, '\\d+')), name = 'max_threads')"
_MEMORY_AND_MACROS = """
    (SELECT any(toUInt64OrZero(value)) FROM system.server_settings WHERE name = 'max_server_memory_usage'),
    (SELECT groupArray((macro, substitution)) FROM system.macros WHERE macro IN ('cores', 'memory'))"""
SIZE = f"""(SELECT {_CORES} FROM system.settings WHERE name = 'max_threads'), {_MEMORY_AND_MACROS},
    (SELECT groupArray(name) FROM system.tables WHERE database = 'system' AND {one_of("name", (METRICS, QUEUE))})"""

#: Machines that were copied may share the UUID, and containers the name and the port.
SERVER = "concat(toString(serverUUID()), ' ', hostName(), ':', toString(tcpPort()))"

#: Settings that a server requires for a new table with the target's types, codecs or keys, and for a cast to its types:
#: `allow_suspicious_low_cardinality_types`, `enable_alp_codec`, and on older servers many more. Only those that the
#: user's profile lets statements enable.
_IS_PERMISSION = """
        match(name, '^allow_suspicious_|^(allow|enable)_.*(types?|codecs?|index|statistics?|index_for_json)$')
        AND type = 'Bool' AND NOT is_obsolete AND alias_for = ''
        AND NOT readonly AND coalesce(max, '') NOT IN ('0', 'false')"""


#: How long a server that has just died is waited for.
_QUORUM_TIMEOUT_MS = 60_000


class RecordTable(NamedTuple):
    """A table that has the name of one of records: the ledger, loaded objects, or loads."""

    engine: str = "MergeTree"
    comment: str = RECORDS_SCHEMA
    is_shared: bool = False

    @property
    def is_current(self) -> bool:
        """Return whether it is as this version of the package makes it."""
        is_own_of_node = self.is_shared and self.engine == "MergeTree"
        return self.comment == RECORDS_SCHEMA and self.engine.endswith("MergeTree") and not is_own_of_node


class ReplicatedDatabase(NamedTuple):
    """A database of engine Replicated or Shared: it runs each CREATE, DROP and RENAME on all of its servers."""

    #: Number of its shards; 0 if the load names no cluster.
    shards: int
    #: Number of its servers; 0 likewise. None where nobody says: of engine Shared, of ClickHouse Cloud.
    servers: int | None
    #: Whether the server that was asked runs none of its statements: it has just started, or recovers, or cannot
    #: recover, as where a power cut left a table's directory without its metadata.
    is_stuck: bool = False


@dataclass(frozen=True)
class NodeFacts:
    """The facts of one node."""

    target: TableFacts | None
    databases: Mapping[str, ReplicatedDatabase | None]
    known_settings: Mapping[str, int | None]
    measured: NodeSpec
    macros: Mapping[str, str] = field(default_factory=dict)
    system_tables: frozenset[str] = frozenset()
    keeper: KeeperPlace | None = None
    time_zone: str = ""
    permissions: frozenset[str] = frozenset()
    reading_defaults: Mapping[str, str] = field(default_factory=dict)
    ledger: RecordTable | None = None
    objects: RecordTable | None = None
    loads: RecordTable | None = None
    is_rehearsed: bool = True
    filtered: tuple[str, ...] = ()
    server: str = ""
    version: str = ""

    @property
    def has_ledger(self) -> bool:
        """Return whether it has a ledger of this version of the package."""
        return bool(self.ledger and self.ledger.is_current)

    @property
    def has_loads(self) -> bool:
        """Return whether it has a table of loads of this version of the package."""
        return bool(self.loads and self.loads.is_current)


@dataclass(frozen=True)
class Target:
    """The table of a load, with everything that one look at its nodes found.

    Values computed from all nodes are computed once: the steps of many periods ask for them again and again.
    """

    cluster: str | None
    target: TableName
    ledger: TableName
    nodes: dict[Node, NodeFacts]
    absent: tuple[Node, ...] = ()
    sharding_key: str | None = None

    def place(self, nodes: Iterable[Node]) -> str:
        """Return nodes for people, with the word before them."""
        return f"on {', '.join(map(str, nodes))}" if self.cluster else "on the server"

    def missing_database(self, database: str) -> str:
        """Return what to say if a database is missing on a node; empty if every node has it."""
        lacking = [node for node, facts in self.nodes.items() if database not in facts.databases]
        text = f"Database {database!r} does not exist {self.place(lacking)}: create it, or check the name."
        return text if lacking else ""

    def missing_target(self, what_to_do: str, *, said: str = "") -> str:
        """Return what to say if the target, or its database, is missing on a node; empty if every node has it."""
        lacking = [node for node, facts in self.nodes.items() if facts.target is None]
        if not lacking:
            return ""
        # Without a database beside it, what stands before the dot would be one.
        dotted = f" (all of {self.target.table!r} is its name, as database is set)" if "." in self.target.table else ""
        text = f"Table {self.target}{said}{dotted} does not exist {self.place(lacking)}: {what_to_do}."
        return self.missing_database(self.target.database) or text

    @property
    def staging_database(self) -> str:
        """The database of staging tables, which is the ledger's."""
        return self.ledger.database

    @property
    def loads(self) -> TableName:
        """The table of loads, on the coordinator."""
        return TableName(self.ledger.database, LOADS_TABLE)

    def with_ledger(self, *, with_loads: bool = False) -> Target:
        """Return the context after the ledger was created on every node."""
        loads = {self.coordinator: RecordTable()} if with_loads else {}
        nodes = {
            node: replace(facts, ledger=RecordTable(), loads=loads.get(node, facts.loads))
            for node, facts in self.nodes.items()
        }
        return replace(self, nodes=nodes)

    @property
    def coordinator(self) -> Node:
        """The node that decides between two concurrent attempts."""
        return min(self.nodes)

    @cached_property
    def publishers(self) -> tuple[Node, ...]:
        """One node of each shard. Other nodes of a shard are its replicas, and follow."""
        return tuple({node.shard_num: node for node in sorted(self.nodes, reverse=True)}.values())[::-1]

    @cached_property
    def shared(self) -> ReplicatedDatabase | None:
        """The staging database, if it is one of engine Replicated: then its tables are a shard's, not a node's."""
        return self.nodes[self.coordinator].databases.get(self.staging_database)

    @property
    def recorders(self) -> tuple[Node, ...]:
        """The nodes that records are written on: one of each shard where tables of records are a shard's, else all."""
        return self.publishers if self.shared else tuple(self.nodes)

    @property
    def record_settings(self) -> SettingValues:
        """The settings for claims: those of a shard are on all of its servers before they count as written."""
        replicas = min(Counter(node.shard_num for node in self.nodes).values())
        quorum = {"insert_quorum": replicas, "insert_quorum_timeout": _QUORUM_TIMEOUT_MS}
        return quorum if self.shared and replicas > 1 else {}

    def is_stuck(self, node: Node) -> bool:
        """Return whether a node runs no statement of a Replicated database, and would let one wait for minutes."""
        return any(database.is_stuck for database in self.nodes[node].databases.values() if database)

    def ddl_settings_of(self, database: str) -> SettingValues:
        """Return the settings for DDL in a database: a server that Keeper knows as gone does it when it is back."""
        is_repeated = self.nodes[self.coordinator].databases.get(database)
        return {"distributed_ddl_output_mode": "throw_only_active"} if is_repeated else {}

    @property
    def own_engine(self) -> str:
        """The engine of tables of records: a node's, or a shard's."""
        return "ReplicatedMergeTree" if self.shared else "MergeTree"

    def engine_beside(self, node: Node, name: str) -> str:
        """Return the engine of a table on a node that is replicated as the target is."""
        keeper = self.nodes[node].keeper
        return keeper.engine_beside(name) if keeper and not self.shared else self.own_engine

    @property
    def table_facts(self) -> TableFacts:
        """The target's structure, which is the same on every node once the preflight has passed."""
        target = self.nodes[self.coordinator].target
        assert target is not None  # checked by the preflight
        return target

    @property
    def server_zones(self) -> Mapping[str, tuple[Node, ...]]:
        """The servers' time zones, each with its nodes."""
        zones = sorted({facts.time_zone for facts in self.nodes.values()})
        return {zone: tuple(node for node, facts in self.nodes.items() if facts.time_zone == zone) for zone in zones}

    def zone_of(self, settings: SettingValues) -> str:
        """Return the zone of times without one: the user's, or that of all servers; empty if theirs differ."""
        given = same_name(str(settings.get("session_timezone", "")))
        return given or (min(self.server_zones) if len(self.server_zones) == 1 else "")

    @cached_property
    def known_settings(self) -> Mapping[str, int | None]:
        """The settings that every node knows, each with the highest number that the user's profiles allow, or None."""
        every = [facts.known_settings for facts in self.nodes.values()]
        known = (name for name in every[0] if all(name in others for others in every))
        return {name: min(filter(None, (settings[name] for settings in every)), default=None) for name in known}

    @cached_property
    def permissions(self) -> SettingValues:
        """The settings that let a statement on any node use all types, codecs and keys of the target."""
        return dict.fromkeys(sorted(frozenset.intersection(*(facts.permissions for facts in self.nodes.values()))), 1)

    @property
    def evaluating(self) -> SettingValues:
        """The settings for evaluating the target's keys as the target does, under any profile."""
        return {**evaluating_settings(self.reading_defaults), **self.permissions}

    @cached_property
    def reading_defaults(self) -> Mapping[str, str]:
        """The settings for reading files that every node knows, each with the coordinator's default."""
        others = [facts.reading_defaults for facts in self.nodes.values()]
        return {
            name: default
            for name, default in self.nodes[self.coordinator].reading_defaults.items()
            if all(name in known for known in others)
        }

    @cached_property
    def has_older_readers(self) -> bool:
        """Return whether a node may read values of files as others."""
        return any(release_of(facts.version) < READS_AS_WRITTEN for facts in self.nodes.values() if facts.version)

    def on_each(self, *, name: str, sql: Sql, settings: SettingValues | None = None) -> QueryNodes:
        """Return a step that runs the same statement on every node."""
        return QueryNodes(name=name, sql=dict.fromkeys(self.nodes, sql), settings=settings or {})

    def on_coordinator(self, *, name: str, sql: Sql, settings: SettingValues | None = None) -> Steps[list[Row]]:
        """Run a statement on the coordinator, and return its rows."""
        answers = yield from QueryNodes(name=name, sql={self.coordinator: sql}, settings=settings or {})
        return answers[self.coordinator]


def inspect_target(
    request: TableRequest, *, settings: Iterable[str] = (), needs_all: bool = False, policies_on: Collection[str] = ()
) -> Steps[Target]:
    """Find the nodes and read the facts of each."""
    location = yield from resolve_table(request)
    if not needs_all:
        location = yield from leave_out_absent(location)
    looks = (check_versions(location.nodes), look_at(location, settings=settings, policies_on=policies_on))
    context: Target = (yield from Gather(name=f"Inspect {len(location.nodes)} nodes", workflows=looks))[1]
    return context


def look_at(location: TableLocation, *, settings: Iterable[str], policies_on: Collection[str] = ()) -> Steps[Target]:
    """Read the facts of each node."""
    sql = Sql(f"{_facts_query(location, settings)}, {policies_query(policies_on)}")
    answers = yield from QueryNodes(
        name=f"Inspect {location.target} on every node", sql=dict.fromkeys(location.nodes, sql)
    )
    facts = {node: _node_facts(rows[0][:-1], location.ledger) for node, rows in answers.items()}
    filtered = yield from find_filtered([node for node, rows in answers.items() if rows[0][-1]], policies_on)
    facts |= {node: replace(facts[node], filtered=tables) for node, tables in filtered.items()}
    facts = yield from _recall_rehearsals(location, facts)
    return Target(
        cluster=location.cluster,
        target=location.target,
        ledger=location.ledger,
        nodes=facts,
        absent=location.absent,
        sharding_key=location.sharding_key,
    )


def _recall_rehearsals(location: TableLocation, nodes: dict[Node, NodeFacts]) -> Steps[dict[Node, NodeFacts]]:
    untested = {node: facts for node, facts in nodes.items() if facts.target and family(facts.target.engine)}
    if not untested or is_rehearsal(location.target):
        return nodes
    sql = {node: has_passed(location.ledger, location.target) for node, facts in untested.items() if facts.has_ledger}
    answers = yield from QueryNodes(name="Check whether a rehearsal has passed", sql=sql)
    passed = {node for node, rows in answers.items() if rows[0][0]}
    return nodes | {node: replace(facts, is_rehearsed=node in passed) for node, facts in untested.items()}


def _facts_query(location: TableLocation, settings: Iterable[str]) -> str:
    target, ledger, names = location.target, location.ledger, tuple(settings)
    databases = {target.database, ledger.database}
    # A database of engine Replicated is a cluster, too. Without a cluster, nobody needs the privilege to read these.
    of_clusters = f"system.clusters WHERE {one_of('cluster', sorted(databases))} AND database_shard_name != ''"
    is_stuck = "is_local AND ifNull(is_active = 0, 0)"
    servers = f"(SELECT groupArray((cluster, shard_num, {is_stuck})) FROM {of_clusters})" if location.cluster else "[]"
    is_asked_for = one_of("name", names)
    # Only a request for a table setting needs this privilege.
    of_tables = (
        f"(SELECT groupArray(name) FROM system.merge_tree_settings WHERE {is_asked_for})"
        if ADAPTIVE_BUFFERS in names
        else "emptyArrayString()"
    )
    # `system.settings` is read once, as servers take milliseconds to describe them all. The array is for
    # clickhouse-driver: a tuple out of a sub-query is a Nullable(Tuple(…)), which it cannot read.
    return f"""SELECT {target_query(target)},
    (SELECT groupArray((name, engine)) FROM system.databases WHERE {one_of("name", sorted(databases))}), {servers},
    (SELECT [(groupArrayIf((name, engine, comment), database = {literal(ledger.database)}),
            groupArrayIf(name, database = 'system'))]
        FROM system.tables WHERE {one_of("database", (ledger.database, "system"))}
        AND {one_of("name", (ledger.table, OBJECTS_TABLE, LOADS_TABLE, METRICS, QUEUE))}),
    (SELECT [(groupArrayIf((name, max), {is_asked_for}), groupArrayIf(name, {_IS_PERMISSION}),
            groupArrayIf((name, default), {has_default()}), {_CORES})] FROM system.settings),
    {of_tables},
    version(), serverTimezone(), {SERVER}, {_MEMORY_AND_MACROS}
"""


def _node_facts(row: Row, ledger: TableName) -> NodeFacts:
    *target, databases, servers, tables, settings = row[:-6]
    table_settings, version, time_zone, server, memory_bytes, macros = row[-6:]
    of_records, system_tables = tables[0]
    shared = {name: _replicated(name, engine, servers) for name, engine in databases}
    is_shared = bool(shared.get(ledger.database))
    records = {name: RecordTable(engine, comment, is_shared) for name, engine, comment in of_records}
    known, permissions, defaults, cores = settings[0]
    return NodeFacts(
        target=target_facts(target),
        databases=shared,
        ledger=records.get(ledger.table),
        objects=records.get(OBJECTS_TABLE),
        loads=records.get(LOADS_TABLE),
        known_settings={
            **{name: int(most) if most and most.isdecimal() else None for name, most in known},
            **dict.fromkeys(table_settings),
        },
        measured=NodeSpec(cores=int(cores), memory_bytes=int(memory_bytes)),
        macros=dict(macros),
        system_tables=frozenset(system_tables),
        time_zone=same_name(time_zone),
        server=server,
        version=version,
        permissions=frozenset(permissions),
        reading_defaults={name: default for name, default in defaults if is_about_reading(name)},
    )


def _replicated(name: str, engine: str, servers: Iterable[Row]) -> ReplicatedDatabase | None:
    if engine not in ("Replicated", "Shared"):
        return None
    of_it = [(shard, is_stuck) for database, shard, is_stuck in servers if database == name]
    number = len(of_it) or (None if engine == "Shared" else 0)
    return ReplicatedDatabase(len({shard for shard, _ in of_it}), number, any(is_stuck for _, is_stuck in of_it))


def other_schemas(context: Target) -> Iterator[str]:
    """Yield what to do about tables of records that this version of the package has not made."""
    nodes_by_tables = defaultdict[tuple[tuple[TableName, RecordTable], ...], list[Node]](list)
    for node, facts in context.nodes.items():
        tables = ((context.ledger.table, facts.ledger), (OBJECTS_TABLE, facts.objects), (LOADS_TABLE, facts.loads))
        others = ((TableName(context.ledger.database, name), columns) for name, columns in tables if columns)
        nodes_by_tables[tuple((name, columns) for name, columns in others if not columns.is_current)].append(node)
    for tables_of_nodes, nodes in nodes_by_tables.items():
        if tables_of_nodes:
            yield other_schema(dict(tables_of_nodes), nodes, target=str(context.target))


def other_schema(tables: Mapping[TableName, RecordTable], nodes: Iterable[Node], *, target: str) -> str:
    """Return what to do about tables that this version of the package has not made."""
    engine, comment, is_shared = next(iter(tables.values()))
    wanted, where = ("ReplicatedMergeTree", "one") if is_shared else ("MergeTree", "each")
    renamed = (f"{table(name)} TO {table(TableName(name.database, f'old_{name.table}'))}" for name in tables)
    return (
        f"{' and '.join(map(str, tables))} on {', '.join(map(str, nodes))}: not created by this version of the "
        f"package, as engine and comment are {engine} and {comment!r}, not {wanted} and {RECORDS_SCHEMA!r}. If "
        f"another version made them, run RENAME TABLE {', '.join(renamed)} on {where} of these nodes, and "
        f"then chs3 adopt --table {target} --all-periods with the source and the arguments of the loads, which records "
        "the published periods again. Otherwise set another database as staging_database."
    )
