"""Read all tables that have a ledger, with a few statements however many periods they have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from airflow_provider_chs3.core.arguments.merge_arguments import Thresholds
from airflow_provider_chs3.core.ledger.partition_state import Part, mutations_of
from airflow_provider_chs3.core.ledger.period_comparison import count_shards
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.steps.fan_out import query_reachable, texts_of
from airflow_provider_chs3.core.steps.operations import Row, Steps
from airflow_provider_chs3.core.target.table_facts import TableFacts, is_rehearsal
from airflow_provider_chs3.core.watch.merge_observation import Activity, grouped
from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.plugin.observation import periods_queries
from airflow_provider_chs3.plugin.observation.derived_tables import look_at_derived_tables
from airflow_provider_chs3.plugin.observation.due_times import look_at_due_times
from airflow_provider_chs3.plugin.observation.ledgers import Ledgers, find_ledgers
from airflow_provider_chs3.plugin.observation.periods_records import is_published, recorded_partition_ids
from airflow_provider_chs3.plugin.observation.snapshots import ClusterSnapshot, NodeSnapshot
from airflow_provider_chs3.plugin.observation.unchanged_periods import (
    Choices,
    TableOnNodes,
    TableSummary,
    Wanted,
    choose,
    choose_recorded,
    few,
    newest_of,
    newest_query,
    summaries_of,
    summaries_query,
)

#: The UUID of every table in a database of engine Ordinary.
_NO_UUID = "00000000-0000-0000-0000-000000000000"


def look_at_all_tables(cluster: str | None, wanted: Wanted | None = None) -> Steps[ClusterSnapshot]:
    """Read all tables that have a ledger on every node; a node that does not answer is reported as down."""
    wanted = wanted or Wanted()
    ledgers = yield from find_ledgers(cluster)
    derived = yield from look_at_derived_tables(ledgers, cluster)
    due = yield from look_at_due_times(ledgers)
    stale = ((name, period) for name, table in derived.items() for period in table.stale)
    wanted = replace(wanted, named={*wanted.named, *stale})
    newest = (yield from _newest(ledgers)) if wanted.is_quick else None
    look = _read_all(ledgers, wanted) if newest is None else _read_newest(ledgers, newest)
    nodes, choices, summaries = yield from look
    return ClusterSnapshot(
        cluster=cluster,
        nodes=nodes,
        down=texts_of(ledgers.down),
        unread=ledgers.unread,
        choices=choices,
        summaries=summaries,
        derived=derived,
        due=due,
    )


_Summaries = Mapping[Node, Mapping[TableName, TableSummary]]
_Look = Steps[tuple[dict[Node, NodeSnapshot], Choices, _Summaries]]


def _newest(ledgers: Ledgers) -> Steps[dict[TableName, set[str]] | None]:
    asked = {node: newest_query(databases) for node, (databases, _) in ledgers.of_nodes.items() if databases}
    return newest_of((yield from query_reachable("Find the newest periods", asked, ledgers.down)).values())


def _read_newest(ledgers: Ledgers, newest: Mapping[TableName, Collection[str]]) -> _Look:
    """Read the newest periods of the tables whose records name all of a period's partitions.

    Other partitions of a period, and tables that are gone, take a look at all parts and tables.
    """
    nodes = yield from _snapshots(ledgers, newest, (), dict.fromkeys(ledgers.databases, newest))
    of_one = {name for node in nodes.values() for name, facts in node.tables.items() if facts.partition_key[:1] != "("}
    newest = {name: periods if name in of_one else () for name, periods in newest.items()}
    records = yield from _records(ledgers, nodes, few({period for periods in newest.values() for period in periods}))
    of_all = chain.from_iterable(records.values())
    choices = choose_recorded(
        newest, ((TableName(*row[:2]), row[3], recorded_partition_ids(row[4:])) for row in of_all)
    )
    return (yield from _read_parts(ledgers, nodes, choices, records, are_all=False)), choices, {}


def _read_all(ledgers: Ledgers, wanted: Wanted) -> _Look:
    thresholds = Thresholds()
    asked = {
        node: summaries_query(*of_node, spare_parts=thresholds.spare_parts, task=wanted.task)
        for node, of_node in ledgers.of_nodes.items()
    }
    answers = yield from query_reachable("Sum up the periods", asked, ledgers.down)
    summaries = {node: summaries_of(rows) for node, rows in answers.items()}
    tables = sorted({name for summary in summaries.values() for name in summary})
    uuids = sorted(
        {key for summary in summaries.values() for table_summary in summary.values() for key in table_summary.uuids}
        - {_NO_UUID}
    )
    nodes = yield from _snapshots(ledgers, tables, uuids, summaries)
    # A node without a ledger may have rows all the same.
    summaries = {node: {**snapshot.unrecorded, **summaries.get(node, {})} for node, snapshot in nodes.items()}
    of_nodes = {name: _join_nodes(name, nodes, summaries, ledgers.down, thresholds) for name in tables}
    choices = choose(of_nodes, wanted)
    are_all = not any(table.unread for table in choices.tables.values())
    names = None if are_all else few({name for table in choices.tables.values() for name in table.read})
    records = yield from _records(ledgers, nodes, names)
    return (yield from _read_parts(ledgers, nodes, choices, records, are_all=are_all)), choices, summaries


def _snapshots(
    ledgers: Ledgers,
    tables: Collection[TableName],
    uuids: Collection[str],
    recorded: Mapping[Node, Collection[TableName]],
) -> Steps[dict[Node, NodeSnapshot]]:
    """Read what is there of the tables, also on nodes that have lost their ledgers."""
    reachable = [node for node in ledgers.databases if node not in ledgers.down] if tables else []
    others = {node: [name for name in tables if name not in recorded.get(node, ())] for node in reachable}
    sql = {
        node: periods_queries.circumstances(tables, uuids, unrecorded, system_tables=ledgers.system_tables[node])
        for node, unrecorded in others.items()
    }
    rest = yield from query_reachable("Read the state of the tables", sql, ledgers.down)
    return {
        node: _node_snapshot(tables, rest[node][0]) if node in rest else NodeSnapshot()
        for node in ledgers.databases
        if node not in ledgers.down
    }


def _join_nodes(
    name: TableName,
    nodes: Mapping[Node, NodeSnapshot],
    summaries: Mapping[Node, Mapping[TableName, TableSummary]],
    down: Collection[Node],
    thresholds: Thresholds,
) -> TableOnNodes:
    facts = next((snapshot.tables[name] for snapshot in nodes.values() if name in snapshot.tables), None)
    busy: set[str] | None = set()
    for snapshot in nodes.values():
        of_node = snapshot.busy_partitions(name, max_replica_delay_seconds=thresholds.max_replica_delay_seconds)
        busy = None if busy is None or of_node is None else busy | of_node
    return TableOnNodes(
        summaries=[summaries.get(node, {}).get(name, TableSummary()) for node in nodes],
        spread=count_shards((*nodes, *down), facts) if facts else 0,
        busy=busy,
        partition_key=facts.partition_key if facts else "",
    )


def _records(
    ledgers: Ledgers, nodes: Collection[Node], periods: Collection[str] | None
) -> Steps[dict[Node, list[Row]]]:
    """Read the records, before the parts: those of a period that is published meanwhile would be unlike its record."""
    asked = {
        node: periods_queries.records(*of_node, periods) for node, of_node in ledgers.of_nodes.items() if node in nodes
    }
    return (yield from query_reachable("Read the periods in the ledgers", asked, ledgers.down))


def _read_parts(
    ledgers: Ledgers,
    nodes: Mapping[Node, NodeSnapshot],
    choices: Choices,
    records: Mapping[Node, list[Row]],
    *,
    are_all: bool,
) -> Steps[dict[Node, NodeSnapshot]]:
    """Read the parts of the periods that were chosen."""
    tables = choices.tables
    ids = None if are_all else few({key for table in tables.values() for key in table.partitions})
    asked = dict.fromkeys(nodes, periods_queries.partitions(tables, ids)) if tables else {}
    partitions = yield from query_reachable("Read the parts of the periods", asked, ledgers.down)
    return {
        node: _add_rows(snapshot, choices, records.get(node, []), partitions.get(node, []))
        for node, snapshot in nodes.items()
        if node not in ledgers.down
    }


def _add_rows(node: NodeSnapshot, choices: Choices, records: Iterable[Row], partitions: Iterable[Row]) -> NodeSnapshot:
    tables = choices.tables
    by_table = {
        name: [row for row in rows if row[1] in tables[name].read]
        for name, rows in _group_by_table(records).items()
        if name in tables
    }
    parts_by_table = {
        name: [row for row in rows if row[0] in tables[name].partitions]
        for name, rows in _group_by_table(partitions).items()
    }
    gone = _gone(by_table, node.tables)
    return replace(
        node,
        records={
            name: {row[1]: row[2:] for row in by_table.get(name, ()) if row[0] == table_facts.uuid}
            for name, table_facts in node.tables.items()
        },
        known={name: {row[1] for row in rows if row[2]} for name, rows in by_table.items()},
        gone=gone,
        renamed={name: node.names[row[0]] for name in gone for row in by_table[name] if row[0] in node.names},
        partitions={name: {row[0]: row[1:] for row in rows} for name, rows in parts_by_table.items()},
        filled_partitions={name: [row[0] for row in rows if row[1]] for name, rows in parts_by_table.items()},
    )


def with_contents(seen: ClusterSnapshot, tables: Collection[TableName]) -> Steps[ClusterSnapshot]:
    """Read the parts of some tables again, with the hashes by which a load compares them.

    Without hashes, a mutation that has changed nothing in a period looks like a change; and without the parts that
    merges have joined, so does what they left after a crash.
    """
    down: dict[Node, Chs3Error] = {}
    sql = dict.fromkeys(seen.nodes, periods_queries.partitions(tables, with_content=True))
    hashes = yield from query_reachable("Read the hashes of the parts", sql, down)
    sql = dict.fromkeys(hashes, periods_queries.sources(tables))
    joined = yield from query_reachable("Read the parts that were merged", sql, down)
    nodes = {
        node: replace(
            snapshot,
            partitions={
                **snapshot.partitions,
                **{name: {row[0]: row[1:] for row in rows} for name, rows in _group_by_table(hashes[node]).items()},
            },
            sources={(TableName(*of), key): tuple(Part(*part) for part in parts) for *of, key, parts in joined[node]},
        )
        if node in joined
        else snapshot
        for node, snapshot in seen.nodes.items()
    }
    return replace(seen, nodes=nodes)


def _gone(
    records_by_table: Mapping[TableName, Iterable[Row]], tables: Collection[TableName]
) -> dict[TableName, dict[str, Row]]:
    """Return the published periods of tables that are not there, but for those of rehearsals."""
    return {
        table: {row[1]: row[2:] for row in rows if is_published(row[2:])}
        for table, rows in records_by_table.items()
        if table not in tables and not is_rehearsal(table)
    }


def _node_snapshot(named: Collection[TableName], rest: Row) -> NodeSnapshot:
    tables, broken, staging, processes, all_mutations, unrecorded, structures = rest[:7]
    return NodeSnapshot(
        tables={name: target_of(*row[2:7]) for row in tables if (name := TableName(*row[:2])) in named},
        names={row[4]: TableName(*row[:2]) for row in tables},
        tables_with_rows={TableName(*row[:2]) for row in tables if row[8]},
        mutations={TableName(*row[:2]): mutations_of(row[2]) for row in all_mutations},
        broken={name: tuple(part for (part,) in parts) for name, parts in _group_by_table(broken).items()},
        staging=tuple(staging),
        structures={TableName(*of): digest for *of, digest in structures},
        processes=tuple(processes),
        activity=Activity.of(rest[7:]),
        table_parts={TableName(*row[:2]): row[7] or 0 for row in tables},
        unrecorded={name: TableSummary(unknown=rows) for name, rows in _group_by_table(unrecorded).items()},
    )


def _group_by_table(rows: Iterable[Row]) -> dict[TableName, Sequence[Row]]:
    return {TableName(*name): of_table for name, of_table in grouped(rows, 2).items()}


def target_of(
    engine: str, engine_full: str, uuid: str = "", storage_policy: str = "", partition_key: str = ""
) -> TableFacts:
    """Return the facts of a table that the comparison with its ledger, and with its limits, needs."""
    return TableFacts(
        engine=engine,
        engine_full=engine_full,
        uuid=uuid,
        partition_key=partition_key,
        sorting_key="",
        primary_key="",
        sampling_key="",
        columns=(),
        indices=(),
        projections=(),
        storage_policy=storage_policy,
    )
