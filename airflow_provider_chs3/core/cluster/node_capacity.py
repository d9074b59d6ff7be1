"""What each node has for loads, who says so, and what runs there already."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.cluster.node_facts import NodeFacts, TargetContext
from airflow_provider_chs3.core.cluster.topology import ONLY_NODE
from airflow_provider_chs3.core.sql.quoting import Sql, literal, one_of
from airflow_provider_chs3.core.values.merge_tree_limits import Limits
from airflow_provider_chs3.core.values.models import Node, NodeSpec, TableName
from airflow_provider_chs3.core.workflow.operations import QueryNodes, Row, Steps
from airflow_provider_chs3.exceptions import ConfigurationError

_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]i?)?B?", re.IGNORECASE)
_MEMORY_UNITS = {"": 1} | {
    prefix + suffix: base**power
    for power, prefix in enumerate("kmgt", start=1)
    for suffix, base in (("", 1000), ("i", 1024))
}


def parse_memory(value: object) -> int:
    """Bytes from a number of bytes, or from text such as `32GiB` (1024) or `32 GB` (1000).

    Raises:
        ValueError: If it is neither, or not above zero.
    """
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(value)
    match = _MEMORY.fullmatch(str(value).strip())
    if match is None or float(match[1]) <= 0:
        raise ValueError(value)
    return int(float(match[1]) * _MEMORY_UNITS[(match[2] or "").lower()])


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk of the target's storage policy.

    Args:
        name: Its name.
        kind: `Local`, or what else it is.
        free_bytes: What is free there and not reserved.
    """

    name: str
    kind: str
    free_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherParts:
    """The target's active parts, without the partition that the load replaces.

    Args:
        parts: All of them.
        fullest_parts: Those of the partition that has most.
        fullest_bytes: Their size.
        limits: What the table's settings allow.
    """

    parts: int
    fullest_parts: int
    fullest_bytes: int
    limits: Limits


@dataclass(frozen=True, kw_only=True)
class NodeNow:
    """A node at the start of a load.

    Args:
        memory_in_use_bytes: Memory of the queries that run there.
        inserts: How many inserts run there.
        physical_memory_bytes: RAM of the machine, or of its container; 0 where the server does not tell.
        disks: The target's disks.
        views: Materialized views and the like that read from the target.
        others: The target's other parts; None where the node does not hold it.
        query_memory_bytes: What the user's profile lets a query take there; 0 is no limit.
    """

    memory_in_use_bytes: int = 0
    inserts: int = 0
    physical_memory_bytes: int = 0
    disks: tuple[Disk, ...] = ()
    views: tuple[str, ...] = ()
    others: OtherParts | None = None
    query_memory_bytes: int = 0

    @property
    def is_on_remote_disk(self) -> bool:
        """Whether the target's disks are anything but local ones, such as S3."""
        return any(disk.kind != "Local" for disk in self.disks)


def ask_nodes_now(context: TargetContext, *, partition_id: str) -> Steps[dict[Node, NodeNow]]:
    """Ask every node what runs there, and for the target's disks, views and parts: once, when a load is due.

    Args:
        context: The nodes, and the target on them.
        partition_id: The partition that the load replaces; empty where it replaces none.
    """
    statements = {node: Sql(_now_query(context.target, partition_id, facts)) for node, facts in context.nodes.items()}
    answers = yield from QueryNodes(name="Ask every node how it is right now", sql=statements)
    return {node: _node_now(rows[0], context.nodes[node]) for node, rows in answers.items()}


def _node_now(row: Row, facts: NodeFacts) -> NodeNow:
    memory_bytes, inserts, physical_bytes, disks, views, parts, fullest, limits, query_bytes = row
    others = None
    if facts.target is not None:
        fullest_parts, fullest_bytes = fullest[0] if fullest else (0, 0)
        others = OtherParts(
            parts=parts,
            fullest_parts=fullest_parts,
            fullest_bytes=fullest_bytes,
            limits=Limits.of(dict(limits), facts.target.settings),
        )
    return NodeNow(
        memory_in_use_bytes=max(0, int(memory_bytes)),
        inserts=int(inserts),
        physical_memory_bytes=int(physical_bytes),
        disks=tuple(Disk(*disk) for disk in disks),
        views=tuple(views),
        others=others,
        query_memory_bytes=int(query_bytes),
    )


def _now_query(target: TableName, partition_id: str, facts: NodeFacts) -> str:
    of_target = f"database = {literal(target.database)} AND name = {literal(target.table)}"
    of_others = (
        f"active AND database = {literal(target.database)} AND table = {literal(target.table)} "
        f"AND partition_id != {literal(partition_id)}"
    )
    return f"""
SELECT
    (SELECT sum(memory_usage) FROM system.processes),
    (SELECT uniqExact(initial_query_id) FROM system.processes WHERE query_kind = 'Insert'),
    {physical_memory(facts)},
    (SELECT groupArray((name, type, unreserved_space)) FROM system.disks WHERE name IN (
        SELECT arrayJoin(disks) FROM system.storage_policies
        WHERE policy_name = (SELECT any(storage_policy) FROM system.tables WHERE {of_target}))),
    (SELECT arraySort(arrayMap((view_database, view) -> concat(view_database, '.', view),
        any(dependencies_database), any(dependencies_table))) FROM system.tables WHERE {of_target}),
    (SELECT count() FROM system.parts WHERE {of_others}),
    (SELECT groupArray((parts, bytes)) FROM (
        SELECT count() AS parts, sum(bytes_on_disk) AS bytes FROM system.parts WHERE {of_others}
        GROUP BY partition_id ORDER BY parts DESC LIMIT 1)),
    (SELECT groupArray((name, value)) FROM system.merge_tree_settings WHERE {one_of("name", Limits.__slots__)}),
    toUInt64(getSetting('max_memory_usage'))
"""


def physical_memory(facts: NodeFacts) -> str:
    """Sub-query for the RAM of the node's machine, or of its container; 0 where the server does not tell.

    Args:
        facts: What the node said of itself.
    """
    if not facts.has_metrics:
        return "0"
    # A container without a limit of its own shows that of nobody: the least of both is what there is.
    return (
        "(SELECT min(value) FROM system.asynchronous_metrics "
        "WHERE metric IN ('OSMemoryTotal', 'CGroupMemoryTotal') AND value > 0)"
    )


@dataclass(frozen=True)
class SizedNode:
    """What a node has for loads.

    Args:
        spec: Cores, and memory; 0 bytes are not known.
        source: Who says so.
        note: What became of it; mostly empty.
    """

    spec: NodeSpec
    source: str
    note: str = ""

    def __str__(self) -> str:
        memory = f"{self.spec.memory_bytes / 1024**3:.2f} GiB" if self.spec.memory_bytes else "memory not known"
        note = f"; {self.note}" if self.note else ""
        return f"{self.spec.cores} cores, {memory} ({self.source}{note})"


Declared = Mapping[str, NodeSpec]


def size_nodes(
    context: TargetContext, now: Mapping[Node, NodeNow], *, argument: Declared, connection: Declared
) -> dict[Node, SizedNode]:
    """What each node has.

    The operator's argument says it, else the connection, else the node's macros `cores` and `memory`; what nobody
    declares is measured.

    Args:
        context: What the nodes said of themselves.
        now: What else is known of them.
        argument: Host, `host:port` or `default` → what the operator's `node_specs` declare.
        connection: The same of the connection.

    Raises:
        ConfigurationError: If a node is declared to have more than the machine has, or its macros cannot be read.
    """
    sized, wrong = {}, []
    for node, facts in context.nodes.items():
        each = _declared(node, argument, "operator's node_specs") or _declared(
            node, connection, "connection's node_specs"
        )
        each = each or _of_macros(node, facts) or SizedNode(facts.measured, "measured")
        wrong += list(_impossible(node, each, facts, now[node]))
        sized[node] = _capped(each, facts.measured.memory_bytes)
    if wrong:
        raise ConfigurationError("\n".join(wrong))
    return sized


def shown(node: Node) -> str:
    """The node's name for people."""
    return "the server" if node == ONLY_NODE else str(node)


def _declared(node: Node, specs: Declared, source: str) -> SizedNode | None:
    for name in (str(node), node.host, "default"):
        if name in specs:
            return SizedNode(specs[name], source)
    return None


def _of_macros(node: Node, facts: NodeFacts) -> SizedNode | None:
    macros = facts.macros
    if not macros:
        return None
    try:
        cores = int(macros.get("cores", facts.measured.cores))
        memory_bytes = parse_memory(macros["memory"]) if "memory" in macros else facts.measured.memory_bytes
        if cores < 1:
            raise ValueError(cores)
    except ValueError:
        raise ConfigurationError(
            f"Node {shown(node)}: its macros {dict(macros)!r} must be like cores 8 and memory '32GiB'; "
            "node_specs of the operator or the connection win over them."
        ) from None
    rest = "".join(f", {name} measured" for name in ("cores", "memory") if name not in macros)
    return SizedNode(NodeSpec(cores, memory_bytes), f"its macros{rest}")


def _impossible(node: Node, each: SizedNode, facts: NodeFacts, now: NodeNow) -> Iterator[str]:
    """More than there is: settings made for it would slow the node down, or end in its out-of-memory killer."""
    spec, has = each.spec, facts.measured.cores
    if 0 < has < spec.cores:
        yield f"Node {shown(node)}: {each.source} declare {spec.cores} cores, but the machine has {has}: correct it."
    has = now.physical_memory_bytes
    if 0 < has < spec.memory_bytes:
        yield (
            f"Node {shown(node)}: {each.source} declare {spec.memory_bytes} bytes of memory, but the machine has "
            f"{has}: correct it."
        )


def _capped(each: SizedNode, limit_bytes: int) -> SizedNode:
    if not 0 < limit_bytes < each.spec.memory_bytes:
        return each
    note = f"{each.spec.memory_bytes / 1024**3:.2f} GiB declared, capped at the server's limit max_server_memory_usage"
    return replace(each, spec=NodeSpec(each.spec.cores, limit_bytes), note=note)
