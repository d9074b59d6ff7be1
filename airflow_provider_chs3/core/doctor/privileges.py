"""Check that the privileges that each command needs (docs/privileges.md) are granted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from airflow_provider_chs3.core.doctor.report import Check, named
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.model.store_kind import StoreKind
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.steps.fan_out import query_reachable
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.privileges import (
    FORBIDDING,
    RequiredPrivileges,
    forbidden_by,
    privileges_of_adopting,
    privileges_of_detaching,
    privileges_of_increments,
    privileges_of_loading,
    privileges_of_merge_health,
    privileges_of_optimizing,
    privileges_of_page,
    privileges_of_planning,
    privileges_of_proving,
    privileges_of_replication,
    way_to_grant,
)
from airflow_provider_chs3.core.target.topology import TableLocation
from airflow_provider_chs3.exceptions import Chs3Error

#: The purposes of a user, and the commands, operators and sensors that each covers.
PURPOSES: Mapping[str, str] = {
    "load": "loads; also `forget` and `clean`",
    "increments": "loads of only the new objects, and of periods together",
    "deferrable": "loads with deferrable=True or durable=True",
    "plan": "`plan`, `ledger`, PlanLoadsOperator",
    "adopt": "`adopt`",
    "prove": "`prove`, ProvePeriodsOperator",
    "merges": "wait_for_merges, ClickHouseMergeHealthSensor",
    "optimize": "OptimizePartitionOperator",
    "page": "the periods page",
}


#: Privileges that are asked for, but that a user may lack → what that costs.
_COSTS = {
    "SELECT ON system.replication_queue": (
        "merge health then waits for all parts that replicas of the table have yet to fetch or merge, of whatever "
        "period, and names no reason for their delay"
    ),
}


def privileges_by_purpose(
    location: TableLocation, *, named_collection: str | None, is_replicated: bool, is_shared: bool, store: StoreKind
) -> dict[str, RequiredPrivileges]:
    """Return the privileges that each purpose needs on every node."""
    load = privileges_of_loading(location, named_collection=named_collection, store=store)
    if is_replicated:
        load += RequiredPrivileges((), privileges_of_replication(location.target, location.ledger, is_shared=is_shared))
    merges = privileges_of_merge_health(location)
    return {
        "load": load,
        "increments": load + privileges_of_increments(location),
        "deferrable": load + RequiredPrivileges(privileges_of_detaching(location.cluster)),
        "plan": privileges_of_planning(location),
        "adopt": load + privileges_of_adopting(location),
        "prove": privileges_of_proving(location, named_collection=named_collection, store=store),
        "merges": merges,
        "optimize": merges + privileges_of_optimizing(location),
        "page": privileges_of_page(location),
    }


def check_rights(
    users: Mapping[Node, str], needed: Mapping[str, RequiredPrivileges], *, purposes: Collection[str], has_table: bool
) -> Steps[Check]:
    """Check that the needed privileges are granted."""
    errors: dict[Node, Chs3Error] = {}
    asked = {
        purpose: privileges.every if has_table else privileges.on_servers for purpose, privileges in needed.items()
    }
    missing: dict[Node, dict[str, list[str]]] = {node: {} for node in users}
    for privileges in asked.values():
        for node in (yield from _nodes_without(users, ", ".join(privileges), errors)):
            for privilege in privileges:
                missing[node].setdefault(privilege, [])
    for privilege in dict.fromkeys(missing_privilege for of_node in missing.values() for missing_privilege in of_node):
        suspects = [node for node in missing if privilege in missing[node]]
        lacking = set((yield from _nodes_without(suspects, privilege, errors)))
        for node in suspects:
            if node in lacking:
                missing[node][privilege] = [purpose for purpose in asked if privilege in asked[purpose]]
    costs = [
        f"{named([node for node in users if missing[node].pop(privilege, [])])}: the user lacks {privilege}: {cost}."
        for privilege, cost in _COSTS.items()
        if any(of_node.get(privilege) for of_node in missing.values())
    ]
    lacking_any = [node for node, of_node in missing.items() if any(of_node.values())]
    asked_why = {node: Sql(f"SELECT {FORBIDDING}") for node in lacking_any if node not in errors}
    rows = yield from query_reachable("Ask what forbids it", asked_why, errors)
    lines = list(_lines(users, missing, {node: forbidden_by(*answer[0]) for node, answer in rows.items()}))
    granted = [purpose for purpose in asked if not any(purpose in of for of, _ in lines)]
    check = Check(
        name="privileges",
        summary=f"everything {'' if has_table else 'on the servers '}needed for: {', '.join(granted) or 'nothing'}",
        findings=tuple(line for of, line in lines if set(of) & set(purposes)),
        remarks=(*(line for of, line in lines if not set(of) & set(purposes)), *costs),
    )
    return check.with_errors(errors)


def _nodes_without(nodes: Iterable[Node], privileges: str, errors: dict[Node, Chs3Error]) -> Steps[list[Node]]:
    statements = {node: Sql(f"CHECK GRANT {privileges}") for node in nodes if node not in errors}
    rows = yield from query_reachable("Ask for privileges", statements, errors)
    return [node for node, answer in rows.items() if not answer[0][0]]


def _lines(
    users: Mapping[Node, str], missing: Mapping[Node, Mapping[str, Iterable[str]]], forbidden: Mapping[Node, str]
) -> Iterable[tuple[tuple[str, ...], str]]:
    """Return a line for each purpose, or for all purposes and nodes that lack the same privileges."""
    grouped: dict[tuple[str, tuple[str, ...], str], list[Node]] = {}
    for node, of_node in missing.items():
        by_purposes: dict[tuple[str, ...], list[str]] = {}
        for privilege, purposes in of_node.items():
            if purposes:
                by_purposes.setdefault(tuple(purposes), []).append(privilege)
        for purposes, privileges in by_purposes.items():
            way_out = forbidden.get(node) or way_to_grant(privileges, users[node])
            grouped.setdefault((users[node], purposes, way_out), []).append(node)
    for (user, of, way_out), nodes in grouped.items():
        yield of, f"{named(nodes)}: user {user!r} lacks privileges for {', '.join(of)}: {way_out}"
