"""ALTER partitions of a table, for several periods with a single statement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from airflow_provider_chs3.core.load.staging_tables import ddl_settings
from airflow_provider_chs3.core.model.error_codes import BAD_ARGUMENTS, INCOMPATIBLE_COLUMNS
from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.sql.quoting import Sql, literal, table
from airflow_provider_chs3.core.steps.operations import QueryNodes, Steps
from airflow_provider_chs3.core.target.node_facts import TargetContext
from airflow_provider_chs3.exceptions import ClickHouseServerError, TransientError

#: Part of the message about other keys, indices or projections.
_DIFFERENT = "Tables have different"


class Command(NamedTuple):
    """The change that an ALTER makes to a partition."""

    node: Node
    text: str
    settings: str = ""


def alter_partitions(
    context: TargetContext, altered: TableName, commands: Iterable[Command], *, name: str, query_id: str | None = None
) -> Steps[None]:
    """Alter partitions of a table, with a statement per node.

    It is not atomic: if it fails, some commands may have taken effect.

    Raises:
        TransientError: If somebody alters one of the tables meanwhile. The next run loads into the table as it is then.
    """
    by_node = defaultdict[Node, list[Command]](list)
    for command in commands:
        by_node[command.node].append(command)
    sql = {node: _render_alter(altered, node_commands) for node, node_commands in by_node.items()}
    try:
        yield from QueryNodes(name=name, sql=sql, settings=ddl_settings(context), query_id=query_id)
    except ClickHouseServerError as error:
        if error.code != INCOMPATIBLE_COLUMNS and not (error.code == BAD_ARGUMENTS and _DIFFERENT in error.message):
            raise
        # Their structures were compared right before.
        raise TransientError(
            f"{context.target} was altered on {error.host} right before a partition was moved. The next run loads into "
            "the table as it is then."
        ) from error


def _render_alter(altered: TableName, commands: list[Command]) -> Sql:
    (settings,) = {command.settings for command in commands}
    texts = ", ".join(command.text for command in commands)
    return Sql(f"ALTER TABLE {table(altered)} {texts}" + (f" SETTINGS {settings}" if settings else ""))


def attach_partitions(
    context: TargetContext,
    source: TableName,
    to: TableName,
    partitions: Iterable[tuple[Node, str]],
    *,
    name: str,
    query_id: str,
) -> Steps[None]:
    """Attach partitions of one table to another by hard links; replicas follow."""
    commands = (Command(node, f"ATTACH PARTITION ID {literal(key)} FROM {table(source)}") for node, key in partitions)
    return alter_partitions(context, to, commands, name=name, query_id=query_id)
