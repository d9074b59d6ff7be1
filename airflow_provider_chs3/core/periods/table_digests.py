"""Read the rows of a table's period: their digest, and which objects it holds no row of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from airflow_provider_chs3.core.ledger.records import PeriodOnNode
from airflow_provider_chs3.core.load.period_load import PeriodLoad
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.periods.digests import Digest, digest_columns, hash_of_row, names_of
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, one_of, table
from airflow_provider_chs3.core.steps.operations import QueryNodes, Row, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.table_facts import Column
from airflow_provider_chs3.exceptions import TargetChangedError


def digest_table(
    load: PeriodLoad,
    before: Mapping[Node, PeriodOnNode],
    compared: Sequence[Column],
    object_column: str | None,
    *,
    is_sample: bool,
) -> Steps[dict[str, Digest]]:
    """Read the period's rows of one replica of each shard, and of others whose parts differ from its.

    Of a sample, only the rows of the load's objects are read.

    Returns:
        The digest of the rows of each object, as the column calls it; of all rows under no name without a column.
    """
    name, grouped = (f"toString({identifier(object_column)})", " GROUP BY 1") if object_column else ("''", "")
    of_objects = ""
    if is_sample:
        wanted = sorted({text for unit in load.files.manifest.objects for text in _texts_of(load, unit.path)})
        of_objects = f" AND {one_of(name, wanted)}"
    columns = f"{name} AS `chs3: object`, {digest_columns(_values(compared))}"
    answers = yield from _read(load, before, columns, of_objects, grouped)
    return _sum_shards(load, {node: Digest.by_key(rows) for node, rows in answers.items()})


def find_absent(
    load: PeriodLoad,
    before: Mapping[Node, PeriodOnNode],
    compared: Sequence[Column],
    in_objects: Mapping[str, Digest],
) -> Steps[list[str]]:
    """Look for one row of each object, and return the objects whose row the period does not hold."""
    least = {path: digest.least for path, digest in in_objects.items() if digest.least is not None}
    row = hash_of_row(_values(compared))
    of_rows = f" AND {row} IN ({', '.join(map(str, sorted(least.values())))})" if least else " AND 0"
    answers = yield from _read(load, before, f"DISTINCT {row}", of_rows, "")
    held = {value for rows in answers.values() for (value,) in rows}
    return [path for path, value in least.items() if value not in held]


def _values(compared: Sequence[Column]) -> list[tuple[str, str]]:
    return [(identifier(column.name), column.type) for column in compared]


def _read(
    load: PeriodLoad, before: Mapping[Node, PeriodOnNode], columns: str, condition: str, grouped: str
) -> Steps[Mapping[Node, list[Row]]]:
    ids = {
        node: sorted({partition.partition_id for partition in before[node].each if partition.state.rows})
        for node in _readers(load.context, before)
    }
    rows = f"SELECT {columns} FROM {table(load.context.target)}"
    sql = {
        node: Sql(f"{rows} WHERE {one_of('_partition_id', of_node)}{condition}{grouped}")
        for node, of_node in ids.items()
    }
    return (
        yield from QueryNodes(
            name=f"Read the rows of {load.period}",
            sql=sql,
            settings={**load.context.permissions, "session_timezone": load.files.neutral["session_timezone"]},
        )
    )


def _texts_of(load: PeriodLoad, path: str) -> Iterable[str]:
    url = getattr(load.files.source, "url", "")
    return (*names_of(path), *([f"{url}/{path.partition('/')[2]}"] if url else []))


def _readers(context: Target, before: Mapping[Node, PeriodOnNode]) -> list[Node]:
    first = {node.shard_num: node for node in context.publishers}
    contents = {node: on_node.state.contents for node, on_node in before.items()}
    return [
        node
        for node in context.nodes
        if node in first.values() or not contents[node].has_parts_of(contents[first[node.shard_num]])
    ]


def _sum_shards(load: PeriodLoad, digests: Mapping[Node, Mapping[str, Digest]]) -> dict[str, Digest]:
    """Return the digests of all shards together, each row once however many replicas have it."""
    total, of_shards = dict[str, list[Digest]](), dict[int, tuple[Node, Mapping[str, Digest]]]()
    for node, table_digests in sorted(digests.items()):
        if node.shard_num not in of_shards:
            of_shards[node.shard_num] = node, table_digests
            for name, digest in table_digests.items():
                total.setdefault(name, []).append(digest)
            continue
        other, on_replica = of_shards[node.shard_num]
        if not Digest.total(table_digests.values()).is_of(Digest.total(on_replica.values())):
            raise TargetChangedError(
                f"{load.context.target} holds other rows of {load.period} on {node} than on {other}, its "
                "replica: wait until they have caught up with each other (system.replication_queue), and try again."
            )
    return {name: Digest.total(addends) for name, addends in total.items()}
