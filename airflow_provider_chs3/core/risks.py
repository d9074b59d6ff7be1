"""What may spoil a load that could start: asked once it is due, before anything is written."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_chs3.core.load import Load
from airflow_provider_chs3.core.models import Node
from airflow_provider_chs3.core.sql import Sql, literal
from airflow_provider_chs3.core.steps import Row, Say, Steps
from airflow_provider_chs3.exceptions import PreflightError


def look_for_risks(load: Load) -> Steps[None]:
    """Ask every node for its disks and for what hangs on the target.

    What stands in the way is an error; what the user should know is said.

    Raises:
        PreflightError: If a node has no room for its part of the month.
    """
    answers = yield load.around.on_each(name="Look at disks and at what hangs on the target", sql=_query(load))
    found = {node: rows[0] for node, rows in answers.items()}
    full = list(_without_room(load, found))
    if full:
        raise PreflightError(full)
    for remark in _remarks(load, found):
        yield Say(name=remark)


def _query(load: Load) -> Sql:
    target = load.around.target
    of_target = f"database = {literal(target.database)} AND name = {literal(target.table)}"
    return Sql(f"""
SELECT
    (SELECT groupArray((name, type, unreserved_space)) FROM system.disks WHERE name IN (
        SELECT arrayJoin(disks) FROM system.storage_policies
        WHERE policy_name = (SELECT storage_policy FROM system.tables WHERE {of_target}))),
    (SELECT arraySort(arrayMap((view_database, view) -> concat(view_database, '.', view),
        any(dependencies_database), any(dependencies_table))) FROM system.tables WHERE {of_target})
""")


def _without_room(load: Load, found: dict[Node, Row]) -> Iterator[str]:
    """Nodes whose disks hold less than their part of the objects; staging takes about as much as Parquet does."""
    needed_bytes = load.files.manifest.size_bytes // len(load.around.nodes)
    for node, (disks, _) in found.items():
        free_bytes = sum(free for _, _, free in disks)
        if disks and free_bytes < needed_bytes:
            names = ", ".join(name for name, _, _ in disks)
            yield (
                f"Node {node} has {free_bytes:,} bytes free on {names}, but its part of {load.request.month} is about "
                f"{needed_bytes:,} bytes: make room there. The month before stays until the new one is published."
            )


def _remarks(load: Load, found: dict[Node, Row]) -> Iterator[str]:
    target, month = load.around.target, load.request.month
    views = sorted({view for _, of_node in found.values() for view in of_node})
    if views and load.request.policies.write_mode == "replace":
        yield (
            f"{', '.join(views)} read from {target}, but see no rows of {month}: to a materialized view, a partition "
            "that is put into place is no INSERT. Fill them from the table afterwards."
        )
    if load.around.shape.has_ttl:
        yield f"Rows of {target} expire (TTL): those of {month} go at the first merge after they were published."
    remote = sorted({name for disks, _ in found.values() for name, kind, _ in disks if kind != "Local"})
    if remote:
        yield f"{target} lies on {', '.join(remote)}, which is not a local disk: staging is written there too."
