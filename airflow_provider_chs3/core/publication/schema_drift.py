"""Check right before publishing that the target has not been altered since staging was created."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_provider_chs3.core.attempt.load_context import LoadContext
from airflow_provider_chs3.core.cluster.table_facts import TableFacts
from airflow_provider_chs3.core.values.models import Node
from airflow_provider_chs3.exceptions import TransientError

#: A partition goes from one table to another only where these are the same. The others are what rows were made by.
_COMPARED = ("columns", "partition_key", "sorting_key", "primary_key", "indices", "projections", "engine")


def check_schema_drift(load: LoadContext, tables: Mapping[Node, TableFacts | None]) -> None:
    """Compare the target's structure on every node with that at the beginning of the load.

    REPLACE PARTITION refuses a staging table of another structure, but on each node separately: if one node was altered
    and another not yet, it would publish half a period.

    Args:
        load: The load.
        tables: The target on each node now; None where it is gone.

    Raises:
        TransientError: If it was altered or recreated. The next run uses the new table.
    """
    context = load.context
    for node, is_now in tables.items():
        was = context.nodes[node].target
        differences = list(_differences(was, is_now)) if was and is_now else ["it is gone"]
        if differences:
            raise TransientError(
                f"{context.target} on {node} was altered while {load.request.period} was loaded: "
                f"{'; '.join(differences)}. The period was not published. The next run loads into the table as it is "
                "then."
            )


def _differences(was: TableFacts, is_now: TableFacts) -> Iterator[str]:
    if was.uuid != is_now.uuid:
        yield "it was dropped and created again"
    for part in _COMPARED:
        before, now = getattr(was, part), getattr(is_now, part)
        if before != now:
            yield f"its {part.replace('_', ' ')}: {_shown(before, now)} before, {_shown(now, before)} now"


def _shown(value: object, other: object) -> str:
    """Return what the other one lacks."""
    if not isinstance(value, tuple) or not isinstance(other, tuple):
        return repr(value)
    only = [each for each in value if each not in other]
    return ", ".join(map(str, only)) or "none"
