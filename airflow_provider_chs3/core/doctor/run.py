"""`doctor`: check everything that a load depends on, and report the problems. It writes nothing.

Nodes that do not answer are reported, and everything else is still checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.doctor.disks import check_replication, check_room
from airflow_provider_chs3.core.doctor.load_trial import (
    DoctorRequest,
    check_period,
    check_settings,
    check_table,
    choose_period,
)
from airflow_provider_chs3.core.doctor.merges import check_backlog, check_merges_of
from airflow_provider_chs3.core.doctor.node_capacity import Sizes, check_specs, find_sizes
from airflow_provider_chs3.core.doctor.nodes import (
    NodeProbe,
    check_clocks,
    check_connection,
    check_versions,
    failing_hosts,
    probe_nodes,
)
from airflow_provider_chs3.core.doctor.privileges import check_rights, privileges_by_purpose
from airflow_provider_chs3.core.doctor.report import Check, Diagnosis, NodeReport, describe_error, in_a_line
from airflow_provider_chs3.core.doctor.storage import StorageProbe, check_storage, look_at_storage
from airflow_provider_chs3.core.model.error_codes import SETTING_CONSTRAINT
from airflow_provider_chs3.core.model.models import Node, Setting, SettingValues
from airflow_provider_chs3.core.model.store_kind import StoreKind
from airflow_provider_chs3.core.sql.complete_answers import neutral_settings
from airflow_provider_chs3.core.steps.fan_out import tolerating_errors
from airflow_provider_chs3.core.steps.operations import CheckHosts, Log, Steps, TimedAnswer
from airflow_provider_chs3.core.target.node_capacity import NodeNow, ask_nodes_now
from airflow_provider_chs3.core.target.node_facts import Target, look_at
from airflow_provider_chs3.core.target.privileges import OF_A_LOAD, find_filtered
from airflow_provider_chs3.core.target.profile_constraints import check_passed_on, explain_refusal, find_constraints
from airflow_provider_chs3.core.target.topology import TableLocation, resolve_table
from airflow_provider_chs3.core.tuning.insert_settings import names_to_look_up, needed_settings
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError, PreflightError

_FIX_FIRST = "fix the findings above first"
#: The checks of a diagnosis.
_CHECKS = 12


@dataclass(frozen=True, kw_only=True)
class _Servers:
    """The nodes that answer, and their answers; `context` has only those that answered everything."""

    location: TableLocation
    probes: Mapping[Node, NodeProbe]
    context: Target
    states: Mapping[Node, NodeNow]
    sizes: Sizes
    errors: Mapping[Node, Chs3Error]


def examine(request: DoctorRequest) -> Steps[Diagnosis]:
    """Run all checks."""
    hosts = yield from CheckHosts(name="Test the hosts of the connection")
    try:
        location = yield from resolve_table(request)
    except Chs3Error as error:
        # The errors of hosts that do not answer are more precise.
        findings = yield from _explain(error, hosts, request.store)
        return (yield from _without_servers(request, Check(name="connection", findings=findings)))
    probes, down = yield from probe_nodes(location.nodes)
    connection = check_connection(hosts, probes, down, cluster=location.cluster)
    if not probes:
        return (yield from _without_servers(request, connection))
    servers = yield from _ask_servers(request, location, probes)
    yield from _checked(4)
    rights = yield from _check_rights(request, servers)
    yield from _checked(5)
    room, free = yield from check_room(probes)
    yield from _checked(6)
    replication = yield from check_replication(probes)
    yield from _checked(7)
    request = replace(request, period=(yield from choose_period(request, servers.context)))
    storage, look = yield from _check_storage(request, tuple(probes))
    yield from _checked(8)
    load, settings = yield from _check_load(request, servers, storage)
    yield from _checked(11)
    merges = (
        (yield from check_merges_of(servers.context))
        if request.has_table and load[0].summary
        else (yield from check_backlog(probes))
    )
    checks = (connection, check_versions(probes), check_clocks(probes), rights, _check_specs(request, servers))
    return Diagnosis(
        checks=(*checks, room, replication, storage, *load[:-1], merges, load[-1]),
        nodes=tuple(_node_report(node, servers, look, free) for node in location.nodes),
        settings=tuple(settings),
    )


def _checked(count: int) -> Log:
    return Log(name=f"Checked {count} of {_CHECKS}.", done=count, total=_CHECKS, unit="checks")


def _explain(error: Chs3Error, hosts: Sequence[tuple[bool, str]], store: StoreKind) -> Steps[tuple[str, ...]]:
    if isinstance(error, ClickHouseServerError) and error.code == SETTING_CONSTRAINT:
        try:
            yield from explain_refusal(error, _needed_by_loads(store), user_settings={})
        except Chs3Error as explained:
            return (in_a_line(str(explained)),)
    return failing_hosts(hosts) if not any(works for works, _ in hosts) else (describe_error(error),)


def _without_servers(request: DoctorRequest, connection: Check) -> Steps[Diagnosis]:
    storage, _ = yield from _check_storage(request, ())
    rest = ("versions", "clocks", "privileges", "node specs", "disks", "replication", "merges", "settings")
    return Diagnosis(checks=(connection, *(Check(name=name, skipped=_FIX_FIRST) for name in rest), storage))


def _ask_servers(request: DoctorRequest, location: TableLocation, probes: Mapping[Node, NodeProbe]) -> Steps[_Servers]:
    errors: dict[Node, Chs3Error] = {}
    up = replace(location, nodes=tuple(probes))
    context = yield from tolerating_errors(
        look_at(up, settings=names_to_look_up(request.settings, request.store)), errors
    )
    states = yield from tolerating_errors(ask_nodes_now(context), errors)
    # That privileges for it are missing is another check's to report.
    filtered = yield from tolerating_errors(find_filtered(states, OF_A_LOAD), {})
    nodes = {node: replace(context.nodes[node], filtered=filtered.get(node, ())) for node in states}
    context = replace(context, nodes=nodes)
    sizes = find_sizes(context, states, request.declared)
    return _Servers(location=location, probes=probes, context=context, states=states, sizes=sizes, errors=errors)


def _check_rights(request: DoctorRequest, servers: _Servers) -> Steps[Check]:
    targets = [facts.target for facts in servers.context.nodes.values() if facts.target]
    location = servers.location
    if not request.has_table:
        # Privileges on tables are not checked then.
        location = replace(location, target=location.target._replace(table="any"))
    needed = privileges_by_purpose(
        location,
        named_collection=request.source.named_collection if request.source else None,
        store=request.store,
        is_replicated=any(target.is_replicated for target in targets),
        is_shared=bool(servers.context.shared),
    )
    users = {node: probe.user for node, probe in servers.probes.items()}
    return (yield from check_rights(users, needed, purposes=request.purposes, has_table=request.has_table))


def _check_specs(request: DoctorRequest, servers: _Servers) -> Check:
    check = check_specs(
        servers.sizes,
        servers.context,
        cluster_nodes=servers.location.nodes,
        declared=request.declared,
        addresses=request.addresses,
    )
    return check.with_errors(servers.errors)


def _check_storage(request: DoctorRequest, nodes: tuple[Node, ...]) -> Steps[tuple[Check, StorageProbe]]:
    if request.source_error:
        return Check(name="storage", findings=(in_a_line(request.source_error),)), StorageProbe("")
    if request.source is None:
        return Check(name="storage", skipped="pass --bucket (or --named-collection) and --key"), StorageProbe("")
    look = yield from look_at_storage(request.source, request.period, nodes)
    return check_storage(look, request.source, period=request.period), look


def _missing_arguments(request: DoctorRequest) -> Iterator[str]:
    """Name the arguments that a check of a period still needs."""
    if not request.has_table:
        yield "--table"
    if request.source is None and not request.source_error:
        yield from ("--bucket (or --named-collection)", "--key")
    if request.period is None:
        yield "--period"


def _check_load(
    request: DoctorRequest, servers: _Servers, storage: Check
) -> Steps[tuple[tuple[Check, Check, Check], list[Setting]]]:
    """Check table, period and settings, and also return the settings."""
    context = servers.context
    is_created = request.creates_table and any(facts.target is None for facts in context.nodes.values())
    if not request.has_table:
        table = Check(name="table", skipped="pass --table")
    elif not context.nodes:
        table = Check(name="table", skipped="no node reported its table")
    elif is_created:
        table = Check(name="table", skipped=f"{request.target} does not exist on all nodes: its load creates it")
    else:
        table = yield from check_table(context, servers.location.nodes, user_settings=request.settings)
    settings = list[Setting]()
    if missing := list(_missing_arguments(request)):
        period = Check(name="period", skipped=f"pass {', '.join(missing)}")
    elif is_created:
        period = Check(name="period", skipped="its table does not exist yet")
    elif (
        request.source is None or request.period is None or not table.summary or servers.sizes.wrong or storage.findings
    ):
        period = Check(name="period", skipped=_FIX_FIRST)
    else:
        period, settings = yield from check_period(request, request.source, request.period, context)
    specs = {node: size.spec for node, size in servers.sizes.nodes.items()}
    sent, settings = check_settings(request, context, servers.states, specs, settings)
    forbidden = yield from _find_forbidden(request, context)
    sent = replace(sent, findings=(*sent.findings, *forbidden))
    if len(servers.context.nodes) < len(servers.location.nodes):
        sent = replace(sent, remarks=(f"by {len(context.nodes)} of {len(servers.location.nodes)} nodes",))
    return (table, period, sent), settings


def _node_report(node: Node, servers: _Servers, look: StorageProbe, free: Mapping[Node, int]) -> NodeReport:
    probe, sized, facts = servers.probes.get(node), servers.sizes.nodes.get(node), servers.context.nodes.get(node)
    if probe is None:
        return NodeReport(node=str(node))
    return NodeReport(
        node=str(node),
        version=probe.version,
        answer_seconds=probe.seconds,
        clock_ahead_seconds=probe.clock.middle,
        cores=sized.spec.cores if sized else None,
        memory_bytes=sized.spec.memory_bytes if sized else None,
        source=sized.source if sized else None,
        measured_cores=facts.measured.cores if facts else None,
        measured_memory_bytes=facts.measured.memory_bytes if facts else None,
        disk_free_bytes=free.get(node),
        list_seconds=_seconds_of(look.lists.get(node), probe),
        read_seconds=_seconds_of(look.reads.get(node), probe),
    )


def _seconds_of(timed: TimedAnswer | None, probe: NodeProbe) -> float | None:
    """Return its duration without the round trip."""
    if timed is None or isinstance(timed.answer, Chs3Error):
        return None
    return max(0.0, timed.seconds - probe.seconds)


def _needed_by_loads(store: StoreKind) -> SettingValues:
    """Return the settings that every load with the usual arguments needs."""
    return needed_settings(null_as_default=False, by_sharding_key=False, store=store)


def _find_forbidden(request: DoctorRequest, context: Target) -> Steps[tuple[str, ...]]:
    """Return a sentence for each setting that loads need and a profile forbids."""
    needed, findings = _needed_by_loads(request.store), list[str]()
    if not context.nodes:
        return ()
    try:
        findings += yield from find_constraints(context.nodes, needed, user_settings=request.settings)
        yield from check_passed_on(context, {**neutral_settings(context.reading_defaults, {}), **needed})
    except PreflightError as error:
        findings += error.findings
    except Chs3Error:
        # Other checks report a node that does not answer, and refused settings are found already.
        pass
    return tuple(findings)
