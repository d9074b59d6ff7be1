"""Steps 1 and 2 of a load, in parallel: list the objects, and inspect the nodes; then check for risks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from airflow_provider_chs3.core.files.source import Source
from airflow_provider_chs3.core.files.text_fields import reading_settings
from airflow_provider_chs3.core.load.load_request import LoadRequest
from airflow_provider_chs3.core.load.period_load import PeriodLoad
from airflow_provider_chs3.core.load.staging_tables import KEPT_BYTES
from airflow_provider_chs3.core.model.error_codes import SETTING_CONSTRAINT
from airflow_provider_chs3.core.model.models import Manifest, Node, SettingValue, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.quantities import size_text
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, is_table, literal, table
from airflow_provider_chs3.core.steps.driving import Batch, StepTimer
from airflow_provider_chs3.core.steps.operations import Gather, Log, QueryNodes, Steps
from airflow_provider_chs3.core.target.node_capacity import NodeNow, OtherParts
from airflow_provider_chs3.core.target.node_facts import Target, look_at
from airflow_provider_chs3.core.target.privileges import (
    OF_A_LOAD,
    check_privileges,
    privilege_of_filling,
    privileges_of_attaching,
    privileges_of_detaching,
    privileges_of_loading,
)
from airflow_provider_chs3.core.target.profile_constraints import check_constraints, explain_refusal
from airflow_provider_chs3.core.target.topology import (
    TableLocation,
    check_distribution,
    leave_out_absent,
    resolve_table,
)
from airflow_provider_chs3.core.tuning.insert_settings import names_to_look_up, needed_settings
from airflow_provider_chs3.exceptions import (
    Chs3Error,
    ClickHouseServerError,
    ConfigurationError,
    NotReadyError,
    PreflightError,
    TransientError,
)

#: Workflows that ask the storage at the same time.
_READY_AT_ONCE = 8


class Listed(NamedTuple):
    """The objects of periods that are ready to be loaded."""

    source: Source
    manifests: Mapping[Period, Manifest]
    failed: Mapping[Period, Chs3Error]


def list_ready(request: LoadRequest, periods: Sequence[Period]) -> Steps[Listed]:
    """List the objects of periods; those without their marker, or with an object that is too young, fail."""
    failed = dict[Period, Chs3Error]()
    for first in range(0, len(periods) if request.policies.ready_key else 0, _READY_AT_ONCE):
        batch = periods[first : first + _READY_AT_ONCE]
        asked = tuple(_why_not_ready(request, period) for period in batch)
        errors = yield from Gather(name="Look for ready markers", workflows=asked)
        failed |= {period: error for period, error in zip(batch, errors, strict=True) if error}
    if len(failed) == len(periods):
        return Listed(request.source, {}, failed)
    source, manifests = yield from request.source.list_periods([period for period in periods if period not in failed])
    ready = Batch(manifests)
    ready.apply(lambda manifest: _check_age(request, manifest))
    return Listed(source, ready.items, failed | ready.failed)


def list_ready_period(request: LoadRequest) -> Steps[tuple[Source, Manifest]]:
    """List the period's objects; see `list_ready`."""
    listed = yield from list_ready(request, [request.period])
    for error in listed.failed.values():
        raise error
    return listed.source, listed.manifests[request.period]


def _why_not_ready(request: LoadRequest, period: Period) -> Steps[Chs3Error | None]:
    ready_key = request.policies.ready_key or ""
    try:
        missing = yield from request.source.missing_marker(ready_key, period)
    except ConfigurationError as error:
        return error
    if not missing:
        return None
    return NotReadyError(
        f"The ready marker {missing} does not exist yet, so {period} was not loaded. Retries look again: set enough "
        "retries, or leave out policies['ready_key'] if nothing writes a marker."
    )


def _check_age(request: LoadRequest, manifest: Manifest) -> None:
    policies = request.policies
    youngest = max(manifest.objects, key=lambda unit: unit.last_modified, default=None)
    # Without a minimum age, clocks do not matter: the storage's may be ahead, and objects may come after `now`.
    if policies.min_object_age_seconds <= 0 or youngest is None:
        return
    if (request.now - youngest.last_modified).total_seconds() < policies.min_object_age_seconds:
        raise NotReadyError(
            f"{youngest.path} was written at {youngest.last_modified:%Y-%m-%d %H:%M:%S} UTC, less than "
            f"policies['min_object_age_seconds']={policies.min_object_age_seconds:g} ago: it may not be complete yet. "
            "Retries look again."
        )


def list_and_inspect(
    request: LoadRequest, periods: Sequence[Period], timer: StepTimer, context: Target | None = None
) -> Steps[tuple[Listed, Target, StepTimer]]:
    """List the objects of periods, and ask every node for its facts; the returned timer ends with the listing."""
    listing = _list(request, periods, timer)
    if context is None:
        looks = (listing, inspect_target_for_load(request))
        (listed, timer), context = yield from Gather(name="List and inspect", workflows=looks)
    else:
        listed, timer = yield from listing
    return listed, context, timer


def _list(request: LoadRequest, periods: Sequence[Period], timer: StepTimer) -> Steps[tuple[Listed, StepTimer]]:
    listed = yield from list_ready(request, periods)
    return listed, (yield from timer.end("list"))


def _check_servers(request: LoadRequest, place: TableLocation) -> Steps[None]:
    """Run the cheap checks one after the other, over a single connection to every node."""
    yield from check_constraints(place.nodes, needed_by(request), user_settings=request.settings)
    yield from check_privileges(place.nodes, privileges_of_load(request, place))


def privileges_of_load(request: LoadRequest, location: TableLocation) -> tuple[str, ...]:
    """Return the privileges that a load needs on every node, as written in a GRANT."""
    named_collection, store = request.source.named_collection, request.source.kind
    further = privileges_of_detaching(location.cluster) if request.is_durable else ()
    if request.policies.on_new_columns == "add":
        further = (*further, f"ALTER ADD COLUMN ON {table(location.target)}")
    if request.policies.keep_versions:
        further = (*further, *privileges_of_attaching(location.target, location.ledger))
    if request.policies.may_hold or request.is_approval:
        further = (*further, privilege_of_filling(location.ledger))
    return (*privileges_of_loading(location, named_collection=named_collection, store=store).every, *further)


def needed_by(request: LoadRequest) -> dict[str, SettingValue]:
    """Return the settings that a profile must allow the load to set: name → value."""
    needed = needed_settings(
        null_as_default=request.selection.null_as_default,
        by_sharding_key=request.policies.distribution == "sharding_key",
        store=request.source.kind,
    )
    selection = request.selection
    fields = reading_settings(selection.csv, has_nested_containers=False, has_whole_objects=bool(selection.select))
    return {**fields, **needed}


def inspect_target_for_load(request: LoadRequest) -> Steps[Target]:
    """Ask every node for its facts, and check that a load may start."""
    context: Target
    try:
        place = yield from resolve_table(request)
        place = yield from leave_out_absent(place)
        yield from check_distribution(place, distribution=request.policies.distribution, target=request.target)
        # Old servers, or missing grants, may make the last query fail: the first error is reported.
        names = names_to_look_up(request.settings, request.source.kind)
        looks = (_check_servers(request, place), look_at(place, settings=names, policies_on=OF_A_LOAD))
        _, context = yield from Gather(name=f"Look at {len(place.nodes)} nodes", workflows=looks)
    except ClickHouseServerError as error:
        if error.code == SETTING_CONSTRAINT:
            yield from explain_refusal(error, needed_by(request), user_settings=request.settings)
        raise
    return context


#: The name of a database or table, as servers show it.
NAME = r"(?:`(?:[^`\\]|\\.)*`|\w+)"
#: The target of a view, as servers show it; a view without TO has an inner table.
VIEW_TO = re.compile(rf"CREATE MATERIALIZED VIEW {NAME}\.{NAME} (?:REFRESH .*? )?TO ({NAME}\.{NAME}) ")


def _fill_statements(load: PeriodLoad, node: Node) -> Steps[list[str]]:
    """Return an INSERT for every materialized view that the user may see; it adds the period's rows as the view would.

    The view's SELECT is unchanged, but a setting restricts it to the period's partition. Rows go directly to the view's
    table, because the view would not cast differing types.
    """
    target = load.context.target
    views = (
        "SELECT view.1, view.2 FROM (SELECT arrayJoin(arrayZip(dependencies_database, dependencies_table)) AS view "
        f"FROM system.tables WHERE {is_table(target)})"
    )
    sql = Sql(
        "SELECT database, name, any(create_table_query), any(as_select), groupArray((columns.position, columns.name)) "
        f"FROM (SELECT * FROM system.tables WHERE (database, name) IN ({views})) AS views "
        f"JOIN (SELECT * FROM system.columns WHERE (database, table) IN ({views})) AS columns "
        "ON columns.database = views.database AND columns.table = views.name "
        "WHERE views.engine = 'MaterializedView' GROUP BY database, name ORDER BY database, name"
    )
    rows = (yield from QueryNodes(name=f"Look at the views of {target}", sql={node: sql}))[node]
    filters = f"{{{literal(str(target))}: {literal(load.period_partitions.rows_of(target))}}}"
    statements = list[str]()
    for database, name, definition, select, columns in rows:
        matched = VIEW_TO.match(definition)
        to = matched[1] if matched else table(TableName(database, name))
        names = ", ".join(identifier(column) for _, column in sorted(columns))
        statements.append(
            f"INSERT INTO {to} ({names}) SELECT * FROM ({select}) SETTINGS additional_table_filters = {filters}"
        )
    return statements


def warn_of_risks(load: PeriodLoad, capacities: Mapping[Node, NodeNow]) -> Steps[None]:
    """Check disks, parts and materialized views of the target: raise what prevents the load, and log the rest."""
    without_room, too_full = list(_nodes_without_room(load, capacities)), list(_too_full(load, capacities))
    if without_room:
        raise PreflightError(*without_room, *(yield from _what_may_go(load)), *too_full)
    if too_full:
        raise TransientError("\n".join(too_full))
    for remark in (*_slowed_down(load, capacities), *_remarks(load, capacities)):
        yield from Log(name=remark)
    if not load.request.follows_views:
        yield from _warn_of_views(load, capacities)


def _warn_of_views(load: PeriodLoad, capacities: Mapping[Node, NodeNow]) -> Steps[None]:
    viewed = [node for node, capacity in capacities.items() if capacity.views]
    if not viewed:
        return
    views = sorted({view for node in viewed for view in capacities[node].views})
    # Statements for several periods would fill a page.
    statements = [] if load.group else (yield from _fill_statements(load, viewed[0]))
    text = (
        f"{', '.join(views)} will not see the rows of {load.periods} in {load.context.target}: a materialized view "
        "sees INSERTs, but no replaced partitions. Fill such views from the table afterwards."
    )
    if statements:
        text += " These statements do so once, on every node; the guide on materialized views has a repeatable way:"
    yield from Log(name="\n  ".join((text, *statements)))


def _nodes_without_room(load: PeriodLoad, capacities: Mapping[Node, NodeNow]) -> Iterator[str]:
    """Yield a sentence for every node without enough disk space: staging takes about as much as Parquet."""
    # Every replica holds all of its shard. If objects are removed, all parts may be rewritten.
    written = load.manifest if load.increment and load.increment.removed else load.files.manifest
    needed_bytes = written.size_bytes // len(load.context.publishers)
    for node, capacity in capacities.items():
        free_bytes = sum(disk.free_bytes for disk in capacity.disks)
        if capacity.disks and free_bytes < needed_bytes:
            names = ", ".join(disk.name for disk in capacity.disks)
            yield (
                f"{node} has only {size_text(free_bytes)} free on {names}, and its part of {load.periods} takes about "
                f"{size_text(needed_bytes)}: free some space there. The old rows stay until the new ones are published."
            )


def _what_may_go(load: PeriodLoad) -> Steps[list[str]]:
    # Linking versions or held rows takes no space; they take it once the table loses those parts.
    answers = yield from load.context.on_each(name="Look at what versions and held rows take", sql=Sql(KEPT_BYTES))
    kept_bytes = sum(size_bytes for rows in answers.values() for (size_bytes,) in rows)
    if not kept_bytes:
        return []
    return [
        f"Earlier versions and held rows take up to {size_text(kept_bytes)} on the nodes: drop the tables of the "
        "oldest versions first (chs3 versions lists them), and discard what is held."
    ]


def _too_full(load: PeriodLoad, capacities: Mapping[Node, NodeNow]) -> Iterator[str]:
    """Yield a sentence for every node that refuses INSERTs into the target (252), or would after the load.

    The limits apply to the whole table: a partition with too many parts blocks INSERTs into all of them. They do not
    affect REPLACE PARTITION (seen on 26.9), so a load would make it worse. Replaced parts do not count, and a period
    without objects only removes parts.
    """
    if not load.files.manifest.objects:
        return
    for node, others in _other_parts(capacities):
        limits, fact = others.limits, ""
        if _parts_matter(others) and others.fullest_parts >= (limit := limits.parts_to_throw_insert):
            fact = f"{others.fullest_parts:,} parts in one partition (parts_to_throw_insert={limit:,})"
        elif others.parts + 1 >= (limit := limits.max_parts_in_total):
            fact = f"{others.parts:,} parts (max_parts_in_total={limit:,})"
        if fact:
            yield (
                f"{load.context.target} on {node} refuses INSERTs because it has {fact}: wait for its merges, or find "
                "out why they do not keep up (system.merges, system.mutations). Nothing was loaded."
            )


def _slowed_down(load: PeriodLoad, capacities: Mapping[Node, NodeNow]) -> Iterator[str]:
    for node, others in _other_parts(capacities):
        limit = others.limits.parts_to_delay_insert
        if _parts_matter(others) and others.fullest_parts >= limit:
            yield (
                f"{load.context.target} on {node} slows down INSERTs, as it has {others.fullest_parts:,} parts "
                f"in one partition (parts_to_delay_insert={limit:,}): merges do not keep up."
            )


def _other_parts(capacities: Mapping[Node, NodeNow]) -> Iterator[tuple[Node, OtherParts]]:
    return ((node, capacity.others) for node, capacity in capacities.items() if capacity.others is not None)


def _parts_matter(others: OtherParts) -> bool:
    """Check whether the number of parts matters: large parts do not count."""
    return others.fullest_bytes <= others.fullest_parts * others.limits.max_avg_part_size_for_too_many_parts


def _remarks(load: PeriodLoad, capacities: Mapping[Node, NodeNow]) -> Iterator[str]:
    target, period = load.context.target, load.periods
    if load.context.table_facts.rows_expire:
        yield f"Rows of {target} expire by its TTL: the first merge after publishing may remove rows of {period}."
    remote = sorted({disk.name for capacity in capacities.values() for disk in capacity.disks if disk.kind != "Local"})
    if remote:
        yield f"{target} is stored on {', '.join(remote)}, which is not a local disk: staging is written there, too."
