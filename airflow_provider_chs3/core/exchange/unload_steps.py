"""The statements of an unload: each node writes its own rows, and reads them back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.exchange.unload_manifest import Fingerprint
from airflow_provider_chs3.core.exchange.unload_request import UnloadRequest
from airflow_provider_chs3.core.model.models import Node, SettingValues, TableName
from airflow_provider_chs3.core.sql.quoting import PARSED, Sql, identifier, literal, table
from airflow_provider_chs3.core.steps.operations import QueryNodes, Row, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.period_partitions import PeriodPartitions, partitions_of_one
from airflow_provider_chs3.core.target.replication import check_shards, follow
from airflow_provider_chs3.core.target.topology import have_one_replica
from airflow_provider_chs3.core.watch.merge_observation import inspect_table
from airflow_provider_chs3.exceptions import PreflightError

#: A key is of one attempt, so that nothing is there: what is there must not be replaced, nor written beside.
_NEW: SettingValues = {**PARSED, "s3_truncate_on_insert": 0, "s3_create_new_file_on_insert": 0}


@dataclass(frozen=True)
class UnloadContext:
    """The table and the period to unload, as the servers have them."""

    target: TableName
    partitions: PeriodPartitions
    columns: tuple[tuple[str, str], ...]
    nodes: Mapping[str, Node]
    permissions: SettingValues

    @property
    def names(self) -> str:
        """The columns, quoted."""
        return ", ".join(identifier(name) for name, _ in self.columns)

    @property
    def structure(self) -> str:
        """The columns with their types."""
        return ", ".join(f"{identifier(name)} {kind}" for name, kind in self.columns)

    @property
    def rows(self) -> str:
        """The FROM and WHERE of the period's rows on a node."""
        return f"FROM {table(self.target)} WHERE {self.partitions.rows_of(self.target)}"


def query_id_of(attempt: str) -> str:
    """Return the beginning of the query ids of an attempt."""
    return f"chs3_unload_{attempt}"


def inspect(request: UnloadRequest) -> Steps[UnloadContext]:
    """Find the table on every node, and wait until those that write have all rows of their shards."""
    context = yield from inspect_table(request)
    columns = _columns(context)
    _check_engines(context)
    yield from check_shards(context)
    partitions = yield from partitions_of_one(context, request.period)
    # Replicas that do not write may lag.
    writers = replace(context, nodes={node: context.nodes[node] for node in context.publishers})
    yield from follow(writers, context.target)
    named = {f"{node.shard_num}": node for node in writers.nodes}
    return UnloadContext(context.target, partitions, columns, named, context.permissions)


def _check_engines(context: Target) -> None:
    """Check that the replicas of a shard have the same rows, so that one of them may write for all."""
    engines = {node: facts.target.engine for node, facts in context.nodes.items() if facts.target}
    plain = [node for node, facts in context.nodes.items() if facts.target and not facts.target.is_replicated]
    if not plain:
        return
    what = f"{context.target} on {plain[0]} is a {engines[plain[0]]}"
    if len(plain) < len(engines):
        raise PreflightError(f"Table {what}, and replicated on other nodes: create it with one engine on all.")
    if not have_one_replica(context.nodes):
        raise PreflightError(
            f"Shards of cluster {context.cluster!r} have several replicas, but {what}, so they may all have the "
            "same rows, or each its own: name a cluster with one replica per shard."
        )


def _columns(context: Target) -> tuple[tuple[str, str], ...]:
    by_node = {
        node: tuple(
            (column.name, column.type) for column in facts.target.columns if column.default_kind in ("", "DEFAULT")
        )
        for node, facts in context.nodes.items()
        if facts.target
    }
    columns = by_node[context.coordinator]
    if any(column.name == "_partition_id" for column in context.table_facts.columns):
        raise PreflightError(
            f"Table {context.target} has a column '_partition_id'. It hides ClickHouse's virtual column, which "
            "finds the period's rows: rename the column."
        )
    if odd := [str(node) for node, others in by_node.items() if others != columns]:
        raise PreflightError(
            f"The columns of table {context.target} on {', '.join(odd)} differ from those on {context.coordinator}: "
            "make its structure the same on every node."
        )
    return columns


def fingerprints(context: UnloadContext, attempt: str) -> Steps[dict[str, Fingerprint]]:
    """Read the fingerprint of the period's rows on each node that has some."""
    sql = Sql(f"SELECT {_fingerprint(context)} {context.rows}")
    answers = yield from QueryNodes(
        name="Read the rows of the table",
        sql=dict.fromkeys(context.nodes.values(), sql),
        query_id=f"{query_id_of(attempt)}_table",
    )
    return _name_fingerprints(context, answers)


def write(context: UnloadContext, request: UnloadRequest, attempt: str, nodes: Mapping[str, Node]) -> Steps[None]:
    """Have each of some nodes write its rows to an object of its own."""
    rows = f" SELECT {context.names} {context.rows}"
    functions = {node: _function(context, request, attempt, name) for name, node in nodes.items()}
    sql = {node: function.between("INSERT INTO FUNCTION ", rows) for node, function in functions.items()}
    settings = {**context.permissions, **_NEW}
    yield from QueryNodes(name="Write files", sql=sql, settings=settings, query_id=f"{query_id_of(attempt)}_write")


def read_back(
    context: UnloadContext, request: UnloadRequest, attempt: str, nodes: Mapping[str, Node]
) -> Steps[dict[str, Fingerprint]]:
    """Read the fingerprint of the rows that each node wrote."""
    functions = {node: _function(context, request, attempt, name) for name, node in nodes.items()}
    sql = {node: function.between(f"SELECT {_fingerprint(context)} FROM ") for node, function in functions.items()}
    settings = {**context.permissions, **PARSED}
    answers = yield from QueryNodes(
        name="Read files back", sql=sql, settings=settings, query_id=f"{query_id_of(attempt)}_files"
    )
    return _name_fingerprints(context, answers)


def cancel(context: UnloadContext, attempt: str) -> Steps[None]:
    """End the statements of an attempt on all nodes."""
    sql = Sql(f"KILL QUERY WHERE startsWith(query_id, {literal(query_id_of(attempt))}) ASYNC")
    yield from QueryNodes(name="Kill the unload", sql=dict.fromkeys(context.nodes.values(), sql))


def _function(context: UnloadContext, request: UnloadRequest, attempt: str, node: str) -> Sql:
    key = request.file_key(attempt, node)
    return request.source.table_function(key, file_format="Parquet", structure=context.structure)


def _fingerprint(context: UnloadContext) -> str:
    # A row's bytes differ wherever a value does: NULL from the default, -0 from 0, one column's end from another's.
    return f"count(), toString(sum(cityHash64(formatRow('RowBinary', {context.names}))))"


def _name_fingerprints(context: UnloadContext, answers: Mapping[Node, list[Row]]) -> dict[str, Fingerprint]:
    names = {node: name for name, node in context.nodes.items()}
    fingerprints = {names[node]: Fingerprint(*rows[0]) for node, rows in answers.items()}
    return {name: fingerprint for name, fingerprint in fingerprints.items() if fingerprint.rows}
