"""Find partitions that keep rows in any merge: if such a partition is gone, somebody removed it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, table
from airflow_provider_chs3.core.steps.operations import Log, Steps, TryQueryNodes
from airflow_provider_chs3.core.target.node_facts import TargetContext
from airflow_provider_chs3.core.target.table_facts import TableFacts

#: Most partitions of a statement: more would slow down the server's analysis.
_MOST_TOGETHER = 60
#: Most partitions show a row at once. A partition that loses all rows is read whole, if time allows.
_LIMITS = "max_threads = 1, max_block_size = 1024, max_execution_time = 10, optimize_aggregation_in_order = 1"


def find_lasting(context: TargetContext, partitions: Mapping[Node, Sequence[str]]) -> Steps[dict[Node, frozenset[str]]]:
    """Return the partitions of every node that certainly keep a row in merges.

    Nothing is certain if rows expire, or if a server does not answer: it lacks memory, time or the SELECT privilege.
    Then a missing partition counts as merged away.
    """
    lasting = dict[int, set[str]]()
    facts = context.table_facts
    if facts.may_lose_all and not facts.rows_expire:
        of_shards = {node: partitions[node] for node in context.publishers}
        for first in range(0, max(map(len, of_shards.values())), _MOST_TOGETHER):
            chunk = {node: several[first : first + _MOST_TOGETHER] for node, several in of_shards.items()}
            sql = {node: _render_query(context, keys) for node, keys in chunk.items() if keys}
            answers = yield from TryQueryNodes(name="Look for what merges leave", sql=sql)
            for node, rows in answers.items():
                if isinstance(rows, list):
                    lasting.setdefault(node.shard_num, set()).update(key for key, _ in rows)
                else:
                    reason = f"the server did not say what merges leave of it: {rows}"
                    yield from Log(name=f"{context.target} on {node}: an emptied partition goes unnoticed, as {reason}")
    # Replicas of a shard have the same parts.
    return {node: frozenset(lasting.get(node.shard_num, ())) for node in context.nodes}


def _render_query(context: TargetContext, partitions: Sequence[str]) -> Sql:
    selects = " UNION ALL ".join(_render_select(context, key) for key in partitions)
    return Sql(f"SELECT id, nothing FROM ({selects}) SETTINGS {_LIMITS}")


def _render_select(context: TargetContext, partition_id: str) -> str:
    facts, of = context.table_facts, f"WHERE _partition_id = {literal(partition_id)}"
    if facts.engine.endswith("CollapsingMergeTree"):
        # The result for a key depends on the order of merges, unless all its rows have the same sign.
        sign = facts.engine_arguments[-1]
        return (
            f"SELECT {literal(partition_id)} AS id, 0 AS nothing FROM {table(context.target)} {of} "
            f"GROUP BY {facts.sorting_key} HAVING min({sign}) = max({sign}) LIMIT 1"
        )
    # Sums must be read to show that they are zero.
    return (
        f"SELECT {literal(partition_id)} AS id, ignore({', '.join(_stored_columns(facts))}) AS nothing "
        f"FROM {table(context.target)} FINAL {of} LIMIT 1"
    )


def _stored_columns(facts: TableFacts) -> Iterator[str]:
    return (identifier(column.name) for column in facts.columns if column.default_kind not in ("ALIAS", "EPHEMERAL"))
