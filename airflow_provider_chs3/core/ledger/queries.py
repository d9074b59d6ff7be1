"""Read the newest records and the parts of many periods with one statement."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from airflow_provider_chs3.core.cluster.node_facts import TargetContext
from airflow_provider_chs3.core.cluster.topology import have_one_replica
from airflow_provider_chs3.core.ledger.mutations import mutations_of, mutations_query
from airflow_provider_chs3.core.ledger.partition_state import PartitionState
from airflow_provider_chs3.core.ledger.parts import PARTITION, partition_states
from airflow_provider_chs3.core.ledger.records import (
    IS_STATE,
    PeriodOnNode,
    Record,
    newest,
    record_columns,
    record_of,
    uuid_now,
)
from airflow_provider_chs3.core.ledger.replicas import with_records_of_replicas
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.sql.complete_answers import passed_on
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, literals, one_of, table
from airflow_provider_chs3.core.values.models import Node, TableName
from airflow_provider_chs3.core.values.period import Period
from airflow_provider_chs3.core.workflow.operations import Query, QueryNodes, Row, Steps


def look_up_periods(
    context: TargetContext, partition_ids: Mapping[Period, str]
) -> Steps[dict[Period, dict[Node, PeriodOnNode]]]:
    """Read the newest record of each period on each node, and the periods' parts, with one statement.

    Args:
        context: The nodes.
        partition_ids: The periods, each with the id of its partition: it may have rows and no record.
    """
    answers = yield from _ask_for_periods(context, sorted(partition_ids))
    records = [record for row in answers for record in row[0]]
    structures = {key: text for row in answers for key, text in row[1]}
    mutations = {number: mutations_of(rows) for row in answers for number, rows in row[3]}
    states = {
        (number, partition_id): PartitionState.of(partition_id, state, mutations.get(number, ()))
        for row in answers
        for number, partition_id, state in row[2]
    }
    holding = {number for (number, _), state in states.items() if state.rows}
    newest_records = {
        (number, period): _record_of(fields, structures) for number, period, fields, is_own in records if is_own
    }
    known = {(number, period) for number, period, *_ in records}
    found = {
        period: {
            node: PeriodOnNode(
                newest_records.get((number, str(period))),
                states.get((number, partition_id), PartitionState(partition_id=partition_id)),
                has_history=(number, str(period)) in known,
                has_rows=number in holding,
            )
            for node, number in _numbers(context).items()
        }
        for period, partition_id in partition_ids.items()
    }
    return {period: with_records_of_replicas(context, nodes) for period, nodes in found.items()}


def _record_of(fields: Sequence[Any], structures: Mapping[str, str]) -> Record | None:
    """Return a record whose structure is given by its hash: most periods share one structure, which is sent once."""
    *others, key = fields
    return record_of((*others, structures.get(key, "")))


def _numbers(context: TargetContext) -> dict[Node, int]:
    """Return a number for each node: its shard's, as in `_shard_num`, unless shards have several nodes."""
    if _has_one_replica(context):
        return {node: node.shard_num for node in context.nodes}
    return {node: number for number, node in enumerate(context.nodes)}


def _has_one_replica(context: TargetContext) -> bool:
    return have_one_replica((*context.nodes, *context.absent))


def _ask_for_periods(context: TargetContext, periods: Collection[Period]) -> Steps[list[Row]]:
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
    context: TargetContext, periods: Iterable[Period], *, with_records: bool, cluster: str | None, number: str
) -> Sql:
    target = context.target
    # Each node's records are about its own table, and no two tables share a UUID.
    uuids = sorted({facts.target.uuid for facts in context.nodes.values() if facts.target})
    is_own = one_of("target_uuid", uuids)
    of_record = record_columns(structure="hex(cityHash64(structure))")
    own = newest(of_record, condition=is_own)
    of_periods = (
        f"FROM {_from(context.ledger, cluster)} "
        f"WHERE target_database = {literal(target.database)} AND target_table = {literal(target.table)} "
        f"AND {one_of('period', map(str, periods))} AND {IS_STATE}"
    )
    records = structures = "emptyArrayString()"
    if with_records:
        each = f"({number}, period, {own}, countIf({is_own}) > 0) AS record"
        records = f"(SELECT groupArray(record) FROM (SELECT {each} {of_periods} GROUP BY {number}, period))"
        structures = f"(SELECT groupUniqArray((hex(cityHash64(structure)), structure)) {of_periods})"
    of_table = f"database = {literal(target.database)} AND table = {literal(target.table)}"
    states = partition_states(of_table, by=number, source=_from(TableName("system", "parts"), cluster))
    mutations = mutations_query(of_table, source=_from(TableName("system", "mutations"), cluster), group=number)
    sql = Sql(f"SELECT {records}, {structures}, (SELECT groupArray(found) FROM ({states})), {mutations}")
    return passed_on(sql) if cluster else sql


def look_up(ledger: TableName, keys: Sequence[LedgerKey], *, with_records: bool) -> Sql:
    """Return the query for the newest record and the parts of periods of one table, on one node.

    Args:
        ledger: The ledger.
        keys: The periods; at least one.
        with_records: Whether to ask for the records; not where there is no ledger.

    Returns:
        A SELECT with a row for each period: its place among the keys, from 0, and what `period_on_node` parses.
    """
    key, periods, ids = (
        keys[0],
        literals(str(each.period) for each in keys),
        literals(each.partition_id for each in keys),
    )
    records, known = "emptyArrayString()", "emptyArrayString()"
    own = "emptyArrayString()"
    if with_records:
        of_periods = f"period IN ({periods}) AND {IS_STATE}"
        records = (
            f"(SELECT groupArray((period, record)) FROM (SELECT period, {newest(record_columns())} AS record "
            f"FROM {table(ledger)} WHERE {key.table_condition} AND {of_periods} GROUP BY period))"
        )
        known = f"(SELECT groupUniqArray(period) FROM {table(ledger)} WHERE {key.name_condition} AND {of_periods})"
        own = "arrayMap(each -> each.2, arrayFilter(each -> each.1 = period, records))"
    of_table = f"database = {literal(key.target.database)} AND table = {literal(key.target.table)}"
    states = partition_states(f"{of_table} AND {PARTITION} IN ({ids})")
    return Sql(
        f"WITH {records} AS records, {known} AS known, (SELECT groupArray(found) FROM ({states})) AS states "
        f"SELECT toUInt32(number - 1), id, [({own}, has(known, period))], "
        f"(SELECT sum(rows) > 0 FROM system.parts WHERE {of_table} AND active), {mutations_query(of_table)}, "
        f"arrayFilter(each -> each.1 = id, states), {uuid_now(key)} "
        f"FROM (SELECT arrayJoin(arrayZip(range(1, {len(keys) + 1}), [{periods}], [{ids}])) AS each, "
        "each.1 AS number, each.2 AS period, each.3 AS id)"
    )


def _from(name: TableName, cluster: str | None) -> str:
    if cluster is None:
        return table(name)
    return f"clusterAllReplicas({literal(cluster)}, {identifier(name.database)}, {identifier(name.table)})"
