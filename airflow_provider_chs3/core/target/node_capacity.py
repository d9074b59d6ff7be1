"""The capacity of each node for loads, its source, the node's present use, and the parts that a table may have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.model.models import Node, NodeSpec, TableName
from airflow_provider_chs3.core.model.quantities import size_text
from airflow_provider_chs3.core.sql.quoting import Sql, in_table, is_table, literal, one_of
from airflow_provider_chs3.core.steps.operations import QueryNodes, Row, Steps
from airflow_provider_chs3.core.target.node_facts import METRICS, NodeFacts, Target
from airflow_provider_chs3.exceptions import ConfigurationError

_UNITS = {"": 1} | {
    f"{prefix}{binary}": base**power
    for power, prefix in enumerate("kmgtp", start=1)
    for binary, base in (("", 1000), ("i", 1024))
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Part limits of a table, as the settings of their names; its own override the server's."""

    parts_to_delay_insert: int
    parts_to_throw_insert: int
    max_parts_in_total: int
    max_bytes_to_merge_at_max_space_in_pool: int
    max_avg_part_size_for_too_many_parts: int

    @classmethod
    def of(cls, server: Mapping[str, str], table_settings: str) -> Limits:
        """Read the limits of a table."""
        of_table = {name: _own(name, table_settings) for name in cls.__slots__}
        return cls(**{name: int(server[name]) if value is None else value for name, value in of_table.items()})


def _own(name: str, table_settings: str) -> int | None:
    """Return the table's own value, such as `2000` or `'2K'`; else None."""
    matched = re.search(rf"(?:^|, ){name} = '?(\d+)([KMGTP]i?)?'?(?:,|$)", table_settings)
    return int(matched[1]) * _UNITS[(matched[2] or "").lower()] if matched else None


_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]i?)?B?", re.IGNORECASE)


def parse_memory(value: object) -> int:
    """Parse memory: a number of bytes, or text such as `32GiB` (1024) or `32 GB` (1000)."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(value)
    match = _MEMORY.fullmatch(str(value).strip())
    if match is None or float(match[1]) <= 0:
        raise ValueError(value)
    return int(float(match[1]) * _UNITS[(match[2] or "").lower()])


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk of the target's storage policy."""

    name: str
    kind: str
    free_bytes: int


@dataclass(frozen=True, slots=True)
class OtherParts:
    """The target's active parts, without the partition that the load replaces."""

    parts: int
    fullest_parts: int
    fullest_bytes: int
    limits: Limits


@dataclass(frozen=True, kw_only=True)
class NodeNow:
    """The state of a node at the start of a load."""

    memory_in_use_bytes: int = 0
    inserts: int = 0
    physical_memory_bytes: int = 0
    disks: tuple[Disk, ...] = ()
    views: tuple[str, ...] = ()
    others: OtherParts | None = None
    query_memory_bytes: int = 0

    @property
    def is_on_remote_disk(self) -> bool:
        """Return whether the target's disks are anything but local ones, such as S3."""
        return any(disk.kind != "Local" for disk in self.disks)


def ask_nodes_now(context: Target, period_parts: str = "0") -> Steps[dict[Node, NodeNow]]:
    """Read each node's running queries and the target's disks, views and parts, once per load."""
    statements = {node: Sql(_state_query(context.target, period_parts, facts)) for node, facts in context.nodes.items()}
    answers = yield from QueryNodes(name="Read the present state of every node", sql=statements)
    return {node: _node_now(rows[0], context.nodes[node]) for node, rows in answers.items()}


def _node_now(row: Row, facts: NodeFacts) -> NodeNow:
    processes, physical_bytes, disks, views, parts_of_others, limits, query_bytes = row
    memory_bytes, inserts = processes[0]
    others = None
    if facts.target is not None:
        parts, (fullest_parts, fullest_bytes) = parts_of_others[0]
        others = OtherParts(parts, fullest_parts, fullest_bytes, Limits.of(dict(limits), facts.target.settings))
    return NodeNow(
        memory_in_use_bytes=max(0, int(memory_bytes)),
        inserts=int(inserts),
        physical_memory_bytes=int(physical_bytes),
        disks=tuple(Disk(*disk) for disk in disks),
        views=tuple(views),
        others=others,
        query_memory_bytes=int(query_bytes),
    )


def _state_query(target: TableName, period_parts: str, facts: NodeFacts) -> str:
    of_target = is_table(target)
    policy = facts.target.storage_policy if facts.target else ""
    of_others = f"active AND {in_table(target)} AND NOT ({period_parts})"
    return f"""
SELECT
    (SELECT [(sum(memory_usage), uniqExactIf(initial_query_id, query_kind = 'Insert'))] FROM system.processes),
    {physical_memory(facts)},
    (SELECT groupArray((name, type, unreserved_space)) FROM system.disks WHERE name IN (
        SELECT arrayJoin(disks) FROM system.storage_policies WHERE policy_name = {literal(policy)})),
    (SELECT arraySort(arrayMap((view_database, view) -> concat(view_database, '.', view),
        any(dependencies_database), any(dependencies_table))) FROM system.tables WHERE {of_target}),
    (SELECT [(sum(parts), max((parts, bytes)))] FROM (
        SELECT count() AS parts, sum(bytes_on_disk) AS bytes FROM system.parts WHERE {of_others}
        GROUP BY partition_id)),
    (SELECT groupArray((name, value)) FROM system.merge_tree_settings WHERE {one_of("name", Limits.__slots__)}),
    toUInt64(getSetting('max_memory_usage'))
"""


def physical_memory(facts: NodeFacts) -> str:
    """Return a subquery for the RAM of the node's machine or container; 0 if the server does not report it."""
    if METRICS not in facts.system_tables:
        return "0"
    # A container without a limit reports no real one: the lower of the two counts.
    return (
        "(SELECT min(value) FROM system.asynchronous_metrics "
        "WHERE metric IN ('OSMemoryTotal', 'CGroupMemoryTotal') AND value > 0)"
    )


@dataclass(frozen=True)
class SizedNode:
    """The capacity of a node for loads."""

    spec: NodeSpec
    source: str
    note: str = ""

    def __str__(self) -> str:
        note = f"; {self.note}" if self.note else ""
        return f"{self.spec} ({self.source}{note})"


Declared = Mapping[str, NodeSpec]


def size_nodes(
    context: Target, states: Mapping[Node, NodeNow], *, argument: Declared, connection: Declared
) -> dict[Node, SizedNode]:
    """Determine the capacity of each node.

    The operator's argument comes first, then the connection, then the node's macros `cores` and `memory`; anything not
    declared is measured.
    """
    sized, wrong = {}, []
    for node, facts in context.nodes.items():
        size = (
            _declared(node, argument, "operator's node_specs")
            or _declared(node, connection, "connection's node_specs")
            or _read_macros(node, facts)
            or SizedNode(facts.measured, "measured")
        )
        wrong += list(_impossible(node, size, facts, states[node]))
        sized[node] = _capped(size, facts.measured.memory_bytes)
    if wrong:
        raise ConfigurationError("\n".join(wrong))
    return sized


def _declared(node: Node, specs: Declared, source: str) -> SizedNode | None:
    for name in (str(node), node.host, "default"):
        if name in specs:
            return SizedNode(specs[name], source)
    return None


def _read_macros(node: Node, facts: NodeFacts) -> SizedNode | None:
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
            f"Node {node}: its macros {dict(macros)!r} must be like cores 8 and memory '32GiB'; "
            "node_specs of the operator or the connection override them."
        ) from None
    rest = "".join(f", {name} measured" for name in ("cores", "memory") if name not in macros)
    return SizedNode(NodeSpec(cores, memory_bytes), f"its macros{rest}")


def _impossible(node: Node, size: SizedNode, facts: NodeFacts, state: NodeNow) -> Iterator[str]:
    """Report declarations above the machine's size: such loads would slow the node down or trigger its OOM killer."""
    spec, has = size.spec, facts.measured.cores
    if 0 < has < spec.cores:
        yield f"Node {node}: {size.source} declare {spec.cores} cores, but the machine has {has}: correct them."
    has = state.physical_memory_bytes
    if 0 < has < spec.memory_bytes:
        yield (
            f"Node {node}: {size.source} declare {spec.memory_bytes} bytes of memory, but the machine has {has}: "
            "correct them."
        )


def _capped(size: SizedNode, limit_bytes: int) -> SizedNode:
    if not 0 < limit_bytes < size.spec.memory_bytes:
        return size
    note = f"{size_text(size.spec.memory_bytes)} declared, capped at the server's limit max_server_memory_usage"
    return replace(size, spec=NodeSpec(size.spec.cores, limit_bytes), note=note)
