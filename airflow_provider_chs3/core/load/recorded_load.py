"""The load that made the rows of a table, by its records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow_provider_chs3.core.ledger.recording import Structure
from airflow_provider_chs3.core.ledger.records import NEWEST_FIRST, PeriodOnNode, restored_of
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.load.load_request import LoadRequest, parsed_definition
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.model.period import WHOLE_TABLE
from airflow_provider_chs3.core.sql.quoting import Sql, table
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.node_facts import Target, inspect_target
from airflow_provider_chs3.core.target.privileges import OF_A_PERIOD
from airflow_provider_chs3.core.tuning.insert_settings import names_to_look_up


def structures_of(nodes: Mapping[Node, PeriodOnNode]) -> list[Structure]:
    """Return the recorded structures of a period; empty ones if they do not describe its rows."""
    texts = {partition.record.structure for node in nodes.values() for partition in node.each if partition.record}
    is_restored = restored_of(nodes) is not None
    return [json.loads(text) if text and not is_restored else {} for text in sorted(texts)]


def newest_structures(context: Target) -> Steps[list[Structure]]:
    """Return the structure recorded by the newest load of a table, if any."""
    node = context.coordinator
    if not context.nodes[node].has_ledger:
        return []
    of_table = LedgerKey.on(context, node, WHOLE_TABLE).table_condition
    sql = Sql(
        f"SELECT structure FROM {table(context.ledger)} WHERE {of_table} "
        f"AND event = 'published' AND restored = '' {NEWEST_FIRST} LIMIT 1"
    )
    return [
        json.loads(text) for (text,) in (yield from context.on_coordinator(name="Look for the newest load", sql=sql))
    ]


def is_known(structures: Sequence[Structure]) -> bool:
    """Check whether all records have the same definition."""
    definitions = [structure.get("definition") for structure in structures]
    return bool(definitions) and None not in definitions and definitions[1:] == definitions[:-1]


def as_recorded(request: LoadRequest, structures: Sequence[Structure], context: Target) -> LoadRequest:
    """Return the load that made the rows, by its recorded definition; the request itself without a record."""
    if not is_known(structures):
        return request
    fields, zone = parsed_definition(structures[0]["definition"]), structures[0]["time_zone"]
    settings = {**request.settings, **(structures[0]["settings"] or {})}
    if zone and zone != context.zone_of(settings):
        settings["session_timezone"] = zone
    leaves_out = fields["policies"].on_other_periods == "leave_out"
    source = request.source.leaving_out() if leaves_out else request.source
    return replace(request, **fields, settings=settings, source=source)


def knowing_settings_of(requests: Sequence[LoadRequest], context: Target) -> Steps[Target]:
    """Return the nodes' facts, including settings that only records have."""
    settings = {name: value for request in requests for name, value in request.settings.items()}
    if settings.keys() <= context.known_settings.keys():
        return context
    names = names_to_look_up(settings, requests[0].source.kind)
    return (yield from inspect_target(requests[0], settings=names, policies_on=OF_A_PERIOD))
