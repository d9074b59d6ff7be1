"""Check node specs: declared against measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.doctor.report import Check, in_a_line
from airflow_provider_chs3.core.model.models import Node, NodeSpec
from airflow_provider_chs3.core.model.quantities import size_text
from airflow_provider_chs3.core.target.node_capacity import NodeNow, SizedNode, size_nodes
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.topology import ONLY_NODE
from airflow_provider_chs3.exceptions import ConfigurationError

#: With fewer cores, a load has no second core for merges.
_FEW_CORES = 2


@dataclass(frozen=True)
class Sizes:
    """The sizes of the nodes for loads."""

    nodes: Mapping[Node, SizedNode]
    wrong: tuple[str, ...]


def find_sizes(context: Target, states: Mapping[Node, NodeNow], connection: Mapping[str, NodeSpec]) -> Sizes:
    """Size each node separately, so that one wrong spec does not hide another."""
    nodes, wrong = dict[Node, SizedNode](), list[str]()
    for node in states:
        alone = replace(context, nodes={node: context.nodes[node]})
        try:
            nodes |= size_nodes(alone, states, argument={}, connection=connection)
        except ConfigurationError as error:
            wrong += str(error).splitlines()
    return Sizes(nodes, tuple(wrong))


def check_specs(
    sizes: Sizes,
    context: Target,
    *,
    cluster_nodes: Iterable[Node],
    declared: Mapping[str, NodeSpec],
    addresses: Iterable[str],
) -> Check:
    """Check that declared specs are possible, and that each entry of the connection names a node."""
    nodes = tuple(cluster_nodes)
    findings = [*map(in_a_line, sizes.wrong)]
    if nodes != (ONLY_NODE,):
        findings += [*_unknown("node_specs", declared, nodes), *_unknown("node_addresses", addresses, nodes)]
    # Nodes of the same kind differ by a few megabytes.
    seen = {f"{node.spec} ({node.source})" for node in sizes.nodes.values()}
    return Check(
        name="node specs",
        summary="; ".join(sorted(seen)),
        findings=tuple(findings),
        remarks=tuple(_remarks(sizes, context)),
    )


def _unknown(extra: str, names: Iterable[str], nodes: tuple[Node, ...]) -> Iterator[str]:
    known = {"default", *(node.host for node in nodes), *map(str, nodes)}
    hosts = ", ".join(map(str, nodes))
    for name in names:
        if name not in known:
            yield (
                f"the connection's {extra} names {name!r}, which is not a node of the cluster ({hosts}): use the name "
                "in system.clusters, or remove it."
            )


def _remarks(sizes: Sizes, context: Target) -> Iterator[str]:
    for node, size in sizes.nodes.items():
        measured = context.nodes[node].measured
        if size.note:
            yield f"{node}: {size.note}"
        elif size.spec.cores < measured.cores or size.spec.memory_bytes < measured.memory_bytes:
            yield f"{node}: {size.source} {_unused(size.spec, measured)} unused"
        if not measured.memory_bytes and not size.spec.memory_bytes:
            yield f"{node}: its memory is unknown, so blocks keep their default size"
        if size.spec.cores < _FEW_CORES:
            yield f"{node}: with a single core, inserts and merges wait for each other"


def _unused(spec: NodeSpec, measured: NodeSpec) -> str:
    cores = f"leave {measured.cores - spec.cores} of {measured.cores} cores"
    if not measured.memory_bytes:
        return cores
    unused_bytes = max(0, measured.memory_bytes - spec.memory_bytes)
    memory = f"{size_text(unused_bytes)} of {size_text(measured.memory_bytes)}"
    return (
        f"{cores} and {memory}"
        if spec.cores < measured.cores
        else f"use all {measured.cores} cores, and leave {memory}"
    )
