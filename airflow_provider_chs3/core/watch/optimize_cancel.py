"""Cancel running OPTIMIZEs after a person has killed the task that started them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.sql.quoting import Sql, in_table, literals, table
from airflow_provider_chs3.core.steps.operations import Log, QueryNodes, Sleep, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.watch.observation import inspect_table
from airflow_provider_chs3.core.watch.optimize_request import OptimizeRequest, query_id_of
from airflow_provider_chs3.exceptions import ClickHouseServerError

_ACCESS_DENIED = 497

#: Merges check whether they are stopped after each block of rows; stopping took 0.03 s.
_POLLS, _POLL_SECONDS = 40, 0.5


def stop_merging(request: OptimizeRequest, work: Mapping[str, Mapping[str, Any]]) -> Steps[None]:
    """Stop the OPTIMIZEs of periods, and the merges that they run.

    KILL QUERY alone does not stop an OPTIMIZE whose merge has begun (seen on 26.9: `is_cancelled` is set, but the merge
    finishes). SYSTEM STOP MERGES does, but stops all merges of the table on that node. So it is sent only to nodes
    where no other period of the table merges, and reverted at once. The parts stay as they were before the merge.

    Raises:
        PreflightError: If the table is missing on a node.
    """
    context = yield from inspect_table(request)
    partition_ids = [values["partition_id"] for values in work.values()]
    query_ids = literals(query_id_of(context.target, partition_id) for partition_id in partition_ids)
    if not (busy := (yield from _find_merging(context, query_ids))):
        return
    yield from QueryNodes(
        name="Kill OPTIMIZE", sql=dict.fromkeys(busy, Sql(f"KILL QUERY WHERE query_id IN ({query_ids}) ASYNC"))
    )
    for node, merging in (yield from _find_merging(context, query_ids)).items():
        if others := sorted(set(merging) - set(partition_ids)):
            yield from Log(
                name=f"OPTIMIZE on {node} continues: SYSTEM STOP MERGES would also stop the merges of "
                f"{', '.join(others)}."
            )
        else:
            yield from _stop_on(context, node, query_ids)


def _find_merging(context: Target, query_ids: str) -> Steps[dict[Node, list[str]]]:
    """Find the partitions of the table that are merging, on each node where one of the queries runs."""
    sql = Sql(
        f"SELECT (SELECT count() FROM system.processes WHERE query_id IN ({query_ids})), "
        f"(SELECT groupArray(partition_id) FROM system.merges WHERE {in_table(context.target)})"
    )
    answers = yield from context.on_each(name="Find running OPTIMIZEs", sql=sql)
    return {node: rows[0][1] for node, rows in answers.items() if rows[0][0]}


def _stop_on(context: Target, node: Node, query_ids: str) -> Steps[None]:
    name = table(context.target)
    try:
        yield from _on((node,), "Stop merges", f"SYSTEM STOP MERGES {name}")
    except ClickHouseServerError as error:
        if error.code != _ACCESS_DENIED:
            raise
        yield from Log(name=f"OPTIMIZE on {node} continues, as the user is not allowed to stop merges: {error}")
        return
    try:
        for _ in range(_POLLS):
            if node not in (yield from _find_merging(context, query_ids)):
                break
            yield from Sleep(name="Wait until the merge ends", seconds=_POLL_SECONDS)
    finally:
        yield from _on((node,), "Start merges again", f"SYSTEM START MERGES {name}")


def _on(nodes: Iterable[Node], name: str, sql: str) -> QueryNodes:
    return QueryNodes(name=name, sql=dict.fromkeys(nodes, Sql(sql)))
