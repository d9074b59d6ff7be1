"""Targets, nodes and a record for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_provider_chs3.core.ledger.records import Record
from airflow_provider_chs3.core.model.models import Node, NodeSpec, TableName
from airflow_provider_chs3.core.target.node_facts import NodeFacts, Target
from airflow_provider_chs3.core.target.table_facts import Column, TableFacts

ONE, TWO, THREE = (Node(number, 1, f"ch-{number}", 9000) for number in (1, 2, 3))

TARGET = TableFacts(
    engine="MergeTree",
    engine_full="MergeTree PARTITION BY toYYYYMM(at) ORDER BY (id, at) SETTINGS index_granularity = 8192",
    partition_key="toYYYYMM(at)",
    sorting_key="id, at",
    primary_key="id, at",
    sampling_key="",
    uuid="6217087c-a134-43f2-91a1-f241100032db",
    columns=(Column("id", "UInt64"), Column("at", "DateTime", in_partition_key=True)),
    indices=(),
    projections=(),
)
FACTS = NodeFacts(
    target=TARGET,
    databases={"db": None},
    known_settings={"insert_deduplicate": None, "optimize_on_insert": None},
    measured=NodeSpec(cores=8, memory_bytes=32 * 1024**3),
    time_zone="UTC",
)
RECORD = Record(
    event="published",
    attempt="nonce",
    fingerprint="f",
    definition="d",
    source_bytes=100,
    nodes=3,
    rows=10,
    min_block=5,
    max_block=7,
)


def surroundings(
    *facts: NodeFacts, nodes: tuple[Node, ...] = (ONE, TWO, THREE), cluster: str | None = "c", staging: str = "db"
) -> Target:
    """Three nodes, or as many as facts are given."""
    said = facts or (FACTS,) * len(nodes)
    return Target(
        cluster=cluster,
        target=TableName("db", "trips"),
        ledger=TableName(staging, "chs3_ledger"),
        nodes=dict(zip(nodes, said, strict=False)),
    )


def with_target(**changes: Any) -> NodeFacts:
    """A node whose target is otherwise."""
    return replace(FACTS, target=replace(TARGET, **changes))


WITHOUT_TABLE = replace(FACTS, target=None)
