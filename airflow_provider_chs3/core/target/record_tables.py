"""Tables of records that another version of this package has made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.sql.quoting import table
from airflow_provider_chs3.core.target.node_facts import RecordTable, TargetContext
from airflow_provider_chs3.core.target.topology import LOADS_TABLE, OBJECTS_TABLE, RECORDS_SCHEMA


def other_schemas(context: TargetContext) -> Iterator[str]:
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
        "the published periods again. Otherwise give another database as staging_database."
    )
