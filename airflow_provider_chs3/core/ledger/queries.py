"""Read the newest records and the parts of many periods with one statement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from airflow_provider_chs3.core.cluster.node_facts import TargetContext
from airflow_provider_chs3.core.cluster.topology import have_one_replica
from airflow_provider_chs3.core.ledger.mutations import Mutation, mutations_of, mutations_query
from airflow_provider_chs3.core.ledger.partition_state import PartitionState
from airflow_provider_chs3.core.ledger.parts import PARTITION, partition_states
from airflow_provider_chs3.core.ledger.records import (
    IS_OF_HELD,
    IS_STATE,
    Held,
    PeriodOnNode,
    Record,
    record_columns,
    uuid_now,
)
from airflow_provider_chs3.core.ledger.replicas import with_records_of_replicas
from airflow_provider_chs3.core.ledger.table import LedgerKey, Own
from airflow_provider_chs3.core.sql.complete_answers import passed_on
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, literals, one_of, table
from airflow_provider_chs3.core.values.models import Node, TableName
from airflow_provider_chs3.core.values.period import Period
from airflow_provider_chs3.core.workflow.operations import Query, QueryNodes, Row, Steps

#: Most periods share one structure, which is sent once.
_STRUCTURE_KEY = "hex(cityHash64(structure))"
#: The number of a node that is asked alone.
_ONLY_ONE = "toUInt32(0)"


def look_up_periods(
    context: TargetContext, owns: Mapping[Period, Own]
) -> Steps[dict[Period, dict[Node, PeriodOnNode]]]:
    """Read the newest record of each period on each node, and the periods' parts, with one statement.

    Args:
        context: The nodes.
        owns: The periods, each with its partitions: they may have rows and no record.
    """
    answers = yield from _ask_for_periods(context, owns)
    records, known = _records_of(answers)
    held = _held_of(answers)
    mutations = {number: mutations_of(rows) for row in answers for number, rows in row[4]}
    of_nodes = defaultdict[int, list[Row]](list)
    for row in answers:
        for number, *state in row[3]:
            of_nodes[number].append(state)
    states = {number: states_by_own(rows, mutations.get(number, ())) for number, rows in of_nodes.items()}
    holding = {number for number, each in states.items() if any(one.rows for some in each.values() for one in some)}
    found = {
        period: {
            node: _period_on_node(
                own,
                records.get((number, str(period)), ()),
                states.get(number, {}).get(own.value, ()),
                has_history=(number, str(period)) in known,
                has_rows=number in holding,
                held=held.get((number, str(period))),
            )
            for node, number in _numbers(context).items()
        }
        for period, own in owns.items()
    }
    return {period: with_records_of_replicas(context, nodes) for period, nodes in found.items()}


def states_by_own(rows: Iterable[Row], mutations: tuple[Mutation, ...] = ()) -> dict[str, list[PartitionState]]:
    """Return partitions by what those of a period have in common.

    Args:
        rows: What `partition_states` finds, without what distinguishes nodes; with `Own.columns` where a period has
            several.
        mutations: The mutations of the table.
    """
    found = defaultdict[str, list[PartitionState]](list)
    for partition_id, fields, *several in rows:
        own, shown = several or (partition_id, "")
        found[own].append(PartitionState.of(partition_id, fields, mutations, shown=shown))
    return found


def _period_on_node(
    own: Own,
    records: Sequence[Record],
    states: Sequence[PartitionState],
    mutations: tuple[Mutation, ...] = (),
    **others: Any,
) -> PeriodOnNode:
    if own.of_part:
        return PeriodOnNode.of_several(records, states, mutations=mutations, **others)
    nothing = PartitionState(mutations=mutations, partition_id=own.value)
    return PeriodOnNode(next(iter(records), None), next(iter(states), nothing), **others)


_Records: TypeAlias = dict[tuple[int, str], Sequence[Record]]


def _records_of(rows: Iterable[Row]) -> tuple[_Records, set[tuple[int, str]]]:
    """Return the newest records, and which periods have any, by the number of the node and the period's text.

    Args:
        rows: Rows that begin with what `_records` asks for.
    """
    found, known = defaultdict[tuple[int, str], list[tuple[Record, Sequence[str]]]](list), set[tuple[int, str]]()
    for of_partitions, texts, known_here, *_ in rows:
        structures = dict(texts)
        known |= {(number, period) for number, period in known_here}
        for number, period, (*fields, key), partitions in of_partitions:
            found[number, period].append((Record(*(*fields, structures.get(key, ""))), partitions))
    return {key: _of_newest(several) for key, several in found.items()}, known


def _of_newest(several: Sequence[tuple[Record, Sequence[str]]]) -> Sequence[Record]:
    """Return the records of the partitions of a period of the newest event; none if it was forgotten."""
    newest, partitions = min(several, key=lambda each: each[0].age_seconds)
    records = [each for each, _ in several if newest.is_with(each)]
    if newest.event == "forgotten":
        return ()
    if newest.event == "published" and not {*partitions} <= {each.partition_id for each in records}:
        # Of a partition the record is lost: nobody knows what is there.
        return [replace(each, event="intent") for each in records]
    return records


def _numbers(context: TargetContext) -> dict[Node, int]:
    """Return a number for each node: its shard's, as in `_shard_num`, unless shards have several nodes."""
    if _has_one_replica(context):
        return {node: node.shard_num for node in context.nodes}
    return {node: number for number, node in enumerate(context.nodes)}


def _has_one_replica(context: TargetContext) -> bool:
    return have_one_replica((*context.nodes, *context.absent))


def _ask_for_periods(context: TargetContext, periods: Mapping[Period, Own]) -> Steps[list[Row]]:
    name = f"Look up {len(periods)} periods in the ledger"
    have_ledgers = {facts.has_ledger for facts in context.nodes.values()}
    if context.cluster and len(have_ledgers) == 1 and _has_one_replica(context):
        sql = _look_up_periods(
            context, periods, with_records=have_ledgers.pop(), cluster=context.cluster, number="_shard_num"
        )
        rows = yield from Query(name=f"{name} of every node", sql=sql)
        return rows
    # A table that one node lacks fails the query for all; and replicas could not be distinguished.
    numbers = _numbers(context)
    each = {
        node: _look_up_periods(
            context, periods, with_records=facts.has_ledger, cluster=None, number=f"toUInt32({numbers[node]})"
        )
        for node, facts in context.nodes.items()
    }
    answers = yield from QueryNodes(name=name, sql=each)
    return [rows[0] for rows in answers.values()]


def _look_up_periods(
    context: TargetContext, periods: Mapping[Period, Own], *, with_records: bool, cluster: str | None, number: str
) -> Sql:
    target = context.target
    # Each node's records are about its own table, and no two tables share a UUID.
    uuids = sorted({facts.target.uuid for facts in context.nodes.values() if facts.target})
    of_periods = (
        f"target_database = {literal(target.database)} AND target_table = {literal(target.table)} "
        f"AND {one_of('period', map(str, sorted(periods)))}"
    )
    records = _records(
        _from(context.ledger, cluster) if with_records else "",
        of_periods,
        one_of("target_uuid", uuids),
        number=number,
        by="_shard_num" if cluster else "",
    )
    of_table = f"database = {literal(target.database)} AND table = {literal(target.table)}"
    more = next((each.columns for each in periods.values()), "")
    states = partition_states(of_table, by=number, source=_from(TableName("system", "parts"), cluster), more=more)
    mutations = mutations_query(of_table, source=_from(TableName("system", "mutations"), cluster), group=number)
    held = _held(
        _from(context.ledger, cluster) if with_records else "",
        f"{of_periods} AND {one_of('target_uuid', uuids)}",
        number=number,
        by="_shard_num" if cluster else "",
    )
    sql = Sql(f"SELECT {records}, (SELECT groupArray(found) FROM ({states})), {mutations}, {held}")
    return passed_on(sql) if cluster else sql


def _records(source: str, of_periods: str, is_own: str, *, number: str = _ONLY_ONE, by: str = "") -> str:
    """Return columns with the newest record of each partition of periods, their structures, and the known periods.

    Which are the newest is found by the key of the ledger, before anything else is read: of years of loads, evidence
    and structures are most of it.

    Args:
        source: The ledger, or that of all nodes of a cluster; empty for none.
        of_periods: The condition for all records of periods of a table of this name.
        is_own: The condition for those of this very table.
        number: An expression for the number of the node.
        by: The column that distinguishes the nodes of a cluster. None by default, for one node.
    """
    if not source:
        return ", ".join(["emptyArrayString()"] * 3)
    keys = f"{by}, period" if by else "period"
    of_all = f"FROM {source} WHERE {of_periods} AND {IS_STATE}"
    numbers = f"SELECT {keys}, max(sequence) {of_all} AND {is_own} GROUP BY {keys}"
    of_newest = f"{of_all} AND {is_own} AND ({keys}, sequence) {'GLOBAL IN' if by else 'IN'} ({numbers})"
    columns = record_columns(structure=_STRUCTURE_KEY)
    newest_of_partition = f"argMax(({columns}), recorded_at), argMax(partitions, recorded_at)"
    return (
        f"(SELECT groupArray(found) FROM (SELECT ({number}, period, {newest_of_partition}) AS found {of_newest} "
        f"GROUP BY {keys}, partition_id)), "
        f"(SELECT groupUniqArray(({_STRUCTURE_KEY}, structure)) {of_newest}), "
        f"(SELECT groupUniqArray(({number}, period)) {of_all})"
    )


def _held(source: str, of_table: str, *, number: str = _ONLY_ONE, by: str = "") -> str:
    """Return a column with the claims of held versions after which nothing else was claimed.

    Args:
        source: As in `_records`.
        of_table: The condition for all records of periods of a table.
        number: As in `_records`.
        by: As in `_records`.
    """
    if not source:
        return "emptyArrayString()"
    keys = f"{by}, period" if by else "period"
    newest = f"SELECT {keys}, max(sequence) FROM {source} WHERE {of_table} AND {IS_OF_HELD} GROUP BY {keys}"
    since = "formatDateTime(recorded_at, '%F %T', 'UTC')"
    return (
        f"(SELECT groupArray(({number}, period, ({record_columns()}), why, {since}, hold_limit_days)) FROM {source} "
        f"WHERE {of_table} AND event = 'held' AND ({keys}, sequence) {'GLOBAL IN' if by else 'IN'} ({newest}))"
    )


def _held_of(rows: Iterable[Row]) -> dict[tuple[int, str], Held]:
    """Return the held versions, by the number of the node and the period's text.

    Args:
        rows: Rows that end with what `_held` asks for.
    """
    found = dict[tuple[int, str], Held]()
    for *_, claims in rows:
        for number, period, fields, why, since, limit_days in claims:
            known = found.get((number, period), Held((), why, since, limit_days))
            found[number, period] = replace(known, records=(*known.records, Record(*fields)))
    return found


#: Columns of `look_up`.
LOOKED_UP = 8


def look_up(
    ledger: TableName, keys: Sequence[LedgerKey], owns: Sequence[Own], *, with_records: bool, beside: str = ""
) -> Sql:
    """Return the query for the newest record and the parts of periods of one table, on one node.

    Args:
        ledger: The ledger.
        keys: The periods; at least one.
        owns: The partitions of each.
        with_records: Whether to ask for the records; not where there is no ledger.
        beside: Further columns; none by default.

    Returns:
        A SELECT with one row, which `periods_on_node` parses; further columns come last.
    """
    key, periods = keys[0], literals(str(each.period) for each in keys)
    records = _records(
        table(ledger) if with_records else "",
        f"{key.name_condition} AND period IN ({periods})",
        f"target_uuid = {literal(key.target_uuid)}",
    )
    of_table = f"database = {literal(key.target.database)} AND table = {literal(key.target.table)}"
    of_held = f"{key.table_condition} AND period IN ({periods})"
    values, more = literals(each.value for each in owns), owns[0].columns
    if more:
        states = f"{partition_states(of_table, more=more)} HAVING own IN ({values})"
    else:
        states = partition_states(f"{of_table} AND {PARTITION} IN ({values})")
    return Sql(
        f"SELECT {records}, (SELECT groupArray(found) FROM ({states})), {mutations_query(of_table)}, "
        f"(SELECT sum(rows) > 0 FROM system.parts WHERE {of_table} AND active), {uuid_now(key)}, "
        f"{_held(table(ledger) if with_records else '', of_held)}"
        f"{beside and f', {beside}'}"
    )


def periods_on_node(row: Row, keys: Sequence[LedgerKey], owns: Sequence[Own]) -> list[PeriodOnNode]:
    """Parse the answer to `look_up`.

    Args:
        row: The row.
        keys: The periods.
        owns: The partitions of each.
    """
    *_, partitions, mutations, has_rows, table_uuid, _ = row
    held = _held_of([row])
    records, known = _records_of([row])
    of_table = mutations_of(mutations)
    states = states_by_own(partitions, of_table)
    return [
        _period_on_node(
            own,
            records.get((0, str(key.period)), ()),
            states.get(own.value, ()),
            of_table,
            has_history=(0, str(key.period)) in known,
            has_rows=bool(has_rows),
            table_uuid=table_uuid,
            held=held.get((0, str(key.period))),
        )
        for key, own in zip(keys, owns, strict=True)
    ]


def _from(name: TableName, cluster: str | None) -> str:
    if cluster is None:
        return table(name)
    return f"clusterAllReplicas({literal(cluster)}, {identifier(name.database)}, {identifier(name.table)})"
