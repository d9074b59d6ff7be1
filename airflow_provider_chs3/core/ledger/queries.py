"""Read the newest records and the parts of periods, however many: one statement for each node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from airflow_provider_chs3.core.ledger.partition_changes import are_merged
from airflow_provider_chs3.core.ledger.partition_state import (
    PARTITION,
    Broken,
    Contents,
    Evidence,
    Mutation,
    Part,
    PartitionState,
    mutations_of,
    mutations_query,
    partition_states,
    sources_query,
)
from airflow_provider_chs3.core.ledger.records import (
    IS_STATE,
    NUMBER_OF_HELD,
    Held,
    PeriodOnNode,
    Record,
    record_columns,
    records_of_replicas,
    uuid_now,
)
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Period
from airflow_provider_chs3.core.sql.quoting import Sql, in_table, literal, literals, one_of, table
from airflow_provider_chs3.core.steps.operations import QueryNodes, Row, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.period_partitions import PeriodPartitions, period_of_partition
from airflow_provider_chs3.core.target.replication import catch_up

#: Most periods share one structure, which is sent once.
_STRUCTURE_KEY = "hex(cityHash64(structure))"
#: Columns of `look_up`.
_LOOKED_UP = 6


def look_up_periods(
    context: Target, owns: Mapping[Period, PeriodPartitions]
) -> Steps[dict[Period, dict[Node, PeriodOnNode]]]:
    """Read the newest record of each period on each node, and the periods' parts."""
    name = f"Look up {len(owns)} periods in the ledger"
    return (yield from look_up_beside(context, owns, name=name))[0]


def look_up_beside(
    context: Target,
    owns: Mapping[Period, PeriodPartitions],
    beside: str = "",
    *,
    name: str,
    with_records: bool = True,
) -> Steps[tuple[dict[Period, dict[Node, PeriodOnNode]], dict[Node, Row]]]:
    """Look periods up with a statement that asks for something else, too; its further columns are returned by node."""
    if not owns:
        return {}, {}
    sql = {
        node: look_up(
            context.ledger,
            LedgerKey.on(context, node, WHOLE_TABLE),
            owns,
            with_records=with_records and facts.has_ledger,
            beside=beside,
        )
        for node, facts in context.nodes.items()
    }
    if with_records and any(facts.has_ledger for facts in context.nodes.values()):
        yield from catch_up(context, context.ledger)
    rows = {node: row for node, (row,) in (yield from QueryNodes(name=name, sql=sql)).items()}
    on_nodes = {node: periods_on_node(row[:_LOOKED_UP], owns) for node, row in rows.items()}
    by_period = {period: {node: periods[period] for node, periods in on_nodes.items()} for period in owns}
    if context.table_facts.is_replicated:
        by_period = {period: records_of_replicas(nodes) for period, nodes in by_period.items()}
    by_period = yield from look_up_sources(context, by_period, lambda _, partition, __: _known_after_intent(partition))
    return by_period, {node: row[_LOOKED_UP:] for node, row in rows.items()}


def _known_after_intent(partition: PeriodOnNode) -> Contents | None:
    """Return the contents that a dead load may have left of a partition; None if none has."""
    if partition.record is None or partition.record.event != "intent":
        return None
    evidence = Evidence.of_text(partition.record.evidence)
    before = (part.content for part in evidence.parts or ())
    return Contents(of_parts=(*before, *(evidence.beside.of_parts or ())))


def look_up_sources(
    context: Target,
    by_period: dict[Period, dict[Node, PeriodOnNode]],
    known: Callable[[Period, PeriodOnNode, Node], Contents | None],
) -> Steps[dict[Period, dict[Node, PeriodOnNode]]]:
    """Return periods with the parts that were joined to merges nobody knows, as long as servers show them.

    Servers are asked only for partitions that have such merges: they would compute the hashes of all replaced parts.
    """
    asked = defaultdict[Node, set[str]](set)
    for period, nodes in by_period.items():
        for node, on_node in nodes.items():
            for partition in on_node.each:
                contents = known(period, partition, node)
                if contents is not None and are_merged(contents.of_parts or (), partition.state):
                    asked[node].add(partition.partition_id)
    if not asked:
        return by_period
    sources = yield from query_sources(
        {
            node: f"{in_table(context.target)} AND {one_of('partition_id', sorted(ids))} AND NOT active"
            for node, ids in asked.items()
        },
        name=f"Look at the parts that were merged in {context.target}",
    )
    return with_sources(by_period, sources)


#: Parts that merges may have joined, of each partition of a node.
Sources: TypeAlias = Mapping[Node, Mapping[str, tuple[Part, ...]]]


def query_sources(parts: Mapping[Node, str], *, name: str) -> Steps[Sources]:
    """Look up parts that merges may have joined."""
    rows = yield from QueryNodes(name=name, sql={node: Sql(sources_query(filter)) for node, filter in parts.items()})
    return {node: {key: tuple(Part(*part) for part in of_key) for key, of_key in rows[node]} for node in parts}


def with_sources(
    by_period: Mapping[Period, dict[Node, PeriodOnNode]], sources: Sources
) -> dict[Period, dict[Node, PeriodOnNode]]:
    """Return periods with parts that merges may have joined, beside those that they have."""
    return {
        period: {node: on_node.with_sources(sources.get(node, {})) for node, on_node in nodes.items()}
        for period, nodes in by_period.items()
    }


def look_up(
    ledger: TableName,
    of: LedgerKey,
    owns: Mapping[Period, PeriodPartitions],
    *,
    with_records: bool,
    beside: str = "",
) -> Sql:
    """Return the query for the newest records and the parts of periods; further columns of its one row come last."""
    of_periods = f"period IN ({literals(map(str, owns))})"
    records = _records(table(ledger), of, of_periods) if with_records else "emptyArrayString()"
    is_in, values = in_table(of.target), literals(partitions.value for partitions in owns.values())
    if more := next(iter(owns.values())).columns:
        states = f"{partition_states(is_in, more=more)} HAVING own IN ({values})"
    else:
        states = partition_states(f"{is_in} AND {PARTITION} IN ({values})")
    blocks = "(partition_id, min_block_number, max_block_number)"
    broken = f"(SELECT groupArray({blocks}) FROM system.detached_parts WHERE {is_in} AND startsWith(reason, 'broken'))"
    return Sql(
        f"SELECT {records}, (SELECT groupArray(found) FROM ({states})), {mutations_query(is_in)}, "
        f"(SELECT sum(rows) > 0 FROM system.parts WHERE {is_in} AND active), {uuid_now(of)}, {broken}"
        f"{beside and f', {beside}'}"
    )


def _records(ledger: str, of: LedgerKey, of_periods: str) -> str:
    """Return a column with the newest records of periods and the claims of held versions, in an array of one tuple.

    Those are the records themselves, the structures that they name, and the periods with records of any table of this
    name. The key of the ledger finds the newest ones before anything else is read: after years of loads, evidence and
    structures are most of it. Each further subquery would cost a node 3 to 8 ms of CPU.
    """
    of_name, of_table = f"FROM {ledger} WHERE {of.name_condition} AND {of_periods}", "period, target_uuid"
    newest = f"[maxIf(sequence, {IS_STATE}), {NUMBER_OF_HELD}]"
    of_held = "why, formatDateTime(recorded_at, '%F %T', 'UTC'), hold_limit_days, keep_versions"
    record = f"(period, ({record_columns(structure=_STRUCTURE_KEY)}), partitions, {of_held})"
    is_own = f"target_uuid = {literal(of.target_uuid)}"
    return (
        f"(SELECT [(groupArrayIf({record}, {is_own}), groupUniqArrayIf(({_STRUCTURE_KEY}, structure), {is_own}), "
        f"groupUniqArrayIf(period, {IS_STATE}))] {of_name} AND event != 'discarded' AND ({of_table}, sequence) IN "
        f"(SELECT {of_table}, arrayJoin({newest}) {of_name} GROUP BY {of_table}))"
    )


def periods_on_node(row: Row, owns: Mapping[Period, PeriodPartitions]) -> dict[Period, PeriodOnNode]:
    """Parse the answer to `look_up`."""
    of_ledger, partitions, mutations, has_rows, table_uuid, put_aside = row
    newest, structures, known = of_ledger[0] if of_ledger else ((), (), ())
    records, held = _records_of(newest, dict(structures))
    of_table, broken = mutations_of(mutations), tuple(map(tuple, put_aside))
    states = _states_by_own(partitions, of_table, broken)
    return {
        period: _period_on_node(
            partitions,
            records.get(str(period), ()),
            states.get(partitions.value, ()),
            PartitionState(mutations=of_table, broken=broken),
            has_history=str(period) in known,
            has_rows=bool(has_rows),
            table_uuid=table_uuid,
            held=held.get(str(period)),
        )
        for period, partitions in owns.items()
    }


def _period_on_node(
    partitions: PeriodPartitions,
    records: Sequence[Record],
    states: Sequence[PartitionState],
    nothing: PartitionState,
    **others: Any,
) -> PeriodOnNode:
    if partitions.of_part:
        return PeriodOnNode.of_several(records, states, nothing=nothing, **others)
    nothing = replace(nothing, partition_id=partitions.value)
    return PeriodOnNode(next(iter(records), None), next(iter(states), nothing), **others)


def _states_by_own(
    rows: Iterable[Row], mutations: tuple[Mutation, ...], broken: Broken
) -> dict[str, list[PartitionState]]:
    by_value = defaultdict[str, list[PartitionState]](list)
    for partition_id, fields, *several in rows:
        value, shown = several or (partition_id, "")
        by_value[value].append(PartitionState.of(partition_id, fields, mutations, shown=shown, broken=broken))
    return by_value


def _records_of(
    rows: Iterable[Row], structures: Mapping[str, str]
) -> tuple[dict[str, Sequence[Record]], dict[str, Held]]:
    """Return the newest records and the held version of each period, by its text."""
    by_period, held = defaultdict[str, list[tuple[Record, Sequence[str]]]](list), dict[str, Held]()
    for period, (*fields, key), partitions, *of_held in rows:
        record = Record(*(*fields, structures.get(key, "")))
        if record.event == "held":
            known = held.get(period, Held((), *of_held))
            held[period] = replace(known, records=(*known.records, record))
        else:
            by_period[period].append((record, partitions))
    return {period: _select_newest(several) for period, several in by_period.items()}, held


def _select_newest(several: Iterable[tuple[Record, Sequence[str]]]) -> Sequence[Record]:
    """Return the records of the partitions of a period of the newest event; none if it was forgotten."""
    oldest_first = sorted(several, key=lambda pair: -pair[0].age_seconds)
    newest, partitions = oldest_first[-1]
    of_partitions = {record.partition_id: record for record, _ in oldest_first}.values()
    records = [partition for partition in of_partitions if newest.is_with(partition)]
    if newest.event == "forgotten":
        return ()
    if newest.event == "published" and not {*partitions} <= {record.partition_id for record in records}:
        # The record of a partition is lost: nobody knows what is there.
        return [replace(record, event="intent") for record in records]
    return records


def periods_of_partitions(context: Target, partition_ids: Collection[str]) -> Steps[dict[str, Period]]:
    """Return partitions with their periods, as a usual key or a ledger tells them; those of others are left out."""
    key = context.table_facts.partition_key
    periods = {
        partition_id: period for partition_id in partition_ids if (period := period_of_partition(partition_id, key=key))
    }
    ledgers = [node for node, facts in context.nodes.items() if facts.has_ledger]
    if len(periods) == len(partition_ids) or not ledgers:
        return periods
    sql = {
        node: Sql(
            f"SELECT DISTINCT partition_id, period FROM {table(context.ledger)} "
            f"WHERE {LedgerKey.on(context, node, WHOLE_TABLE).table_condition} "
            f"AND {one_of('partition_id', partition_ids)}"
        )
        for node in ledgers
    }
    answers = yield from QueryNodes(name="Ask the ledgers for the periods of partitions", sql=sql)
    return periods | {partition_id: Period.parse(period) for rows in answers.values() for partition_id, period in rows}
