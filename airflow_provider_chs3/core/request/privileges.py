"""The privileges that the user of a load needs."""

from __future__ import annotations

from airflow_provider_chs3.core.cluster.topology import TableLocation
from airflow_provider_chs3.core.preflight.privileges import (
    privilege_of_filling,
    privileges_of_appending,
    privileges_of_attaching,
    privileges_of_detaching,
    privileges_of_replacing,
)
from airflow_provider_chs3.core.request.load_request import LoadRequest
from airflow_provider_chs3.core.sql.quoting import table


def privileges_of_load(request: LoadRequest, location: TableLocation) -> tuple[str, ...]:
    """Return the privileges that a load needs on every node, as written in a GRANT.

    Args:
        request: The load.
        location: The table, and the nodes that hold it.
    """
    named_collection, store = request.source.named_collection, request.source.kind
    further = privileges_of_detaching(location.cluster) if request.is_durable else ()
    if request.policies.on_new_columns == "add":
        further = (*further, f"ALTER ADD COLUMN ON {table(location.target)}")
    if request.policies.keep_versions:
        further = (*further, *privileges_of_attaching(location.target, location.ledger))
    if request.policies.may_hold or request.is_approval:
        further = (*further, privilege_of_filling(location.ledger))
    if request.policies.write_mode == "append":
        return (*privileges_of_appending(location, named_collection=named_collection, store=store), *further)
    return (*privileges_of_replacing(location, named_collection=named_collection, store=store).every, *further)
