"""Remove the parts that a publication has replaced from the disks: a server that dies may show them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_provider_chs3.core.attempt.load_context import periods_text
from airflow_provider_chs3.core.attempt.period_load import PeriodLoad, Periods
from airflow_provider_chs3.core.cluster.replication import follow
from airflow_provider_chs3.core.ledger.queries import look_up_beside
from airflow_provider_chs3.core.ledger.records import PeriodOnNode
from airflow_provider_chs3.core.publication.members import Member
from airflow_provider_chs3.core.sql.quoting import Sql, in_table, literal, table
from airflow_provider_chs3.core.staging.tables import ddl_settings
from airflow_provider_chs3.core.values.models import Node
from airflow_provider_chs3.core.values.period import Period
from airflow_provider_chs3.core.workflow.operations import QueryNodes, Steps

#: The ids of partitions are made of digits, or of hexadecimal ones: none has this.
_NO_PARTITION = "chs3-none"


def held_nodes(periods: Periods, members: Mapping[Period, Mapping[Node, Sequence[Member]]]) -> set[Node]:
    """Return the nodes that may have replaced parts on their disks. Replicas know from Keeper what was replaced.

    Args:
        periods: The periods, which are replaced.
        members: The partitions of each.
    """
    return {
        node
        for each in periods
        if not each.load.context.table_facts.is_replicated
        for node, of_node in members[each.period].items()
        for one in of_node
        # After an intent, parts may have been replaced by nothing.
        if one.was.state.parts or (one.was.record and one.was.record.event == "intent")
    }


def remove_replaced(periods: Periods, held: set[Node]) -> Steps[None]:
    """Remove replaced parts from the disks, or wait for replicas.

    A statement that detaches a partition removes them at once, even where merges are stopped (seen on 25.8 and 26.9).

    Args:
        periods: The periods, which are replaced; at least one.
        held: The nodes that `held_nodes` returned.
    """
    load = periods.first.load
    target = load.context.target
    yield from follow(load.context, target)
    if held:
        sql = Sql(f"ALTER TABLE {table(target)} DETACH PARTITION ID {literal(_NO_PARTITION)}")
        yield from QueryNodes(
            name="Remove the replaced parts",
            sql={node: sql for node in load.context.nodes if node in held},
            settings=ddl_settings(load.context),
            query_id=f"{load.attempt.name}_remove",
        )


def look_at_published(
    some: Sequence[PeriodLoad], *, held: set[Node]
) -> Steps[list[tuple[dict[Node, PeriodOnNode], set[str]]]]:
    """Look at periods that are replaced, and at what is left of their old parts.

    Args:
        some: The periods; at least one.
        held: The nodes that `held_nodes` returned.

    Returns:
        Each period on each node, with the partitions of the table that have replaced parts on the disk of one of them.
    """
    load = some[0].load
    replaced = (
        f"(SELECT groupUniqArray(partition_id) FROM system.parts WHERE {in_table(load.context.target)} AND rows > 0 "
        "AND _state IN ('Outdated', 'Deleting'))"
    )
    found, beside = yield from look_up_beside(
        load.context,
        {each.period: each.load.own for each in some},
        replaced if held else "",
        name=f"Look for replaced parts of {periods_text([each.load for each in some])}",
        with_records=False,
    )
    left = {partition_id for node in held for partition_id in beside[node][0]}
    return [(found[each.period], left) for each in some]
