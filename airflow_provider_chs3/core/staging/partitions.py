"""ALTER partitions of a table: those of several months with one statement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from airflow_provider_chs3.core.sql.quoting import Sql, table
from airflow_provider_chs3.core.values.models import Node, SettingValues, TableName
from airflow_provider_chs3.core.workflow.operations import QueryOneOfSeveral


class Command(NamedTuple):
    """The change that an ALTER makes to a partition.

    Args:
        text: What follows ALTER TABLE, such as `ATTACH PARTITION …`.
        settings: Its settings, which are those of the whole statement; none by default.
    """

    text: str
    settings: str = ""


def alter_partition(
    target: TableName,
    commands: Mapping[Node, Command],
    *,
    name: str,
    settings: SettingValues,
    query_id: str,
    is_repeatable: bool = True,
) -> QueryOneOfSeveral:
    """Return the step that alters a month's partition on nodes.

    Of several months in lockstep, the commands are those of one ALTER. It is not atomic: if it fails, some of its
    commands may have taken effect.

    Args:
        target: The table.
        commands: The command on each node.
        name: Name of the step. Those of one name, but for the month, must have the same table and settings.
        settings: Settings to send with it, on all nodes.
        query_id: Beginning of the query ids.
        is_repeatable: Whether it may be sent again after an error. True by default.
    """
    of_table = partial(_one_alter, target)
    return QueryOneOfSeveral(
        name=name,
        sql=of_table([commands]),
        settings=settings,
        query_id=query_id,
        subject=commands,
        of_several=of_table,
        is_repeatable=is_repeatable,
    )


def _one_alter(target: TableName, several: Sequence[Mapping[Node, Command]]) -> dict[Node, Sql]:
    by_node = defaultdict[Node, list[Command]](list)
    for commands in several:
        for node, command in commands.items():
            by_node[node].append(command)
    return {
        node: Sql(
            f"ALTER TABLE {table(target)} {', '.join(each.text for each in some)}"
            + (f" SETTINGS {some[0].settings}" if some[0].settings else "")
        )
        for node, some in by_node.items()
    }
