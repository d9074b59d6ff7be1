"""ALTER partitions of a table: those of several periods with one statement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from airflow_provider_chs3.core.sql.quoting import Sql, table
from airflow_provider_chs3.core.values.models import Node, TableName


class Command(NamedTuple):
    """The change that an ALTER makes to a partition.

    Args:
        text: What follows ALTER TABLE, such as `ATTACH PARTITION …`.
        settings: Its settings, which are those of the whole statement; none by default.
    """

    text: str
    settings: str = ""


def alter_partitions(target: TableName, several: Sequence[Mapping[Node, Command]]) -> dict[Node, Sql]:
    """Return the statement for each node that alters partitions of a table.

    It is not atomic: if it fails, some of its commands may have taken effect.

    Args:
        target: The table.
        several: The command for each partition on nodes. Those of one node must have the same settings, as a statement
            has one set of them.
    """
    by_node = defaultdict[Node, list[Command]](list)
    for commands in several:
        for node, command in commands.items():
            by_node[node].append(command)
    return {node: _one_alter(target, some) for node, some in by_node.items()}


def _one_alter(target: TableName, commands: Sequence[Command]) -> Sql:
    (settings,) = {each.settings for each in commands}
    texts = ", ".join(each.text for each in commands)
    return Sql(f"ALTER TABLE {table(target)} {texts}" + (f" SETTINGS {settings}" if settings else ""))
