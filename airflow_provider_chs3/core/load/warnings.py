"""Check for risks before anything is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from airflow_provider_chs3.core.load.period_load import PeriodLoad
from airflow_provider_chs3.core.load.staging_tables import KEPT_BYTES
from airflow_provider_chs3.core.model.models import Manifest, Node, TableName
from airflow_provider_chs3.core.model.quantities import size_text
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, is_table, literal, table
from airflow_provider_chs3.core.steps.operations import Log, QueryNodes, Steps
from airflow_provider_chs3.core.target.node_capacity import NodeNow, OtherParts
from airflow_provider_chs3.exceptions import PreflightError, TransientError

#: The name of a database or table, as servers show it.
NAME = r"(?:`(?:[^`\\]|\\.)*`|\w+)"
#: The target of a view, as servers show it; a view without TO has an inner table.
VIEW_TO = re.compile(rf"CREATE MATERIALIZED VIEW {NAME}\.{NAME} (?:REFRESH .*? )?TO ({NAME}\.{NAME}) ")


def fill_statements(load: PeriodLoad, node: Node) -> Steps[list[str]]:
    """Return an INSERT for every materialized view that adds the period's rows as the view would.

    The view's SELECT is unchanged, but a setting restricts it to the period's partition. Rows go directly to the view's
    table, because the view would not cast differing types.

    Returns:
        The statements, ordered by view, without views that the user may not see.
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
    return [
        _statement(load, TableName(database, name), definition, select, [column for _, column in sorted(columns)])
        for database, name, definition, select, columns in rows
    ]


def _statement(load: PeriodLoad, view: TableName, definition: str, select: str, columns: Sequence[str]) -> str:
    matched = VIEW_TO.match(definition)
    to = matched[1] if matched else table(view)
    period = load.period_partitions.rows_of(load.context.target)
    filters = f"{{{literal(str(load.context.target))}: {literal(period)}}}"
    return (
        f"INSERT INTO {to} ({', '.join(map(identifier, columns))}) SELECT * FROM ({select}) "
        f"SETTINGS additional_table_filters = {filters}"
    )


def warn_of_risks(load: PeriodLoad, capacities: Mapping[Node, NodeNow]) -> Steps[None]:
    """Check disks, parts and materialized views of the target.

    Problems that prevent the load are errors; others are logged.

    Raises:
        PreflightError: If a node lacks disk space for its part of the period.
        TransientError: If the target has too many parts for INSERTs, until merges reduce them.
    """
    without_room, too_full = list(nodes_without_room(load, capacities)), list(_too_full(load, capacities))
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
    statements = [] if load.group else (yield from fill_statements(load, viewed[0]))
    text = (
        f"{', '.join(views)} will not see the rows of {load.periods} in {load.context.target}: a materialized view "
        "sees INSERTs, but no replaced partitions. Fill such views from the table afterwards."
    )
    if statements:
        text += " These statements do so once, on every node; the guide on materialized views has a repeatable way:"
    yield from Log(name="\n  ".join((text, *statements)))


def nodes_without_room(load: PeriodLoad, capacities: Mapping[Node, NodeNow]) -> Iterator[str]:
    """Yield a sentence for every node without enough disk space for its part of the objects.

    Staging takes about as much space as Parquet.
    """
    # Every replica holds all of its shard.
    needed_bytes = _written_objects(load).size_bytes // len(load.context.publishers)
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
    statements = dict.fromkeys(load.context.nodes, Sql(KEPT_BYTES))
    answers = yield from QueryNodes(name="Look at what versions and held rows take", sql=statements)
    kept_bytes = sum(size_bytes for rows in answers.values() for (size_bytes,) in rows)
    if not kept_bytes:
        return []
    return [
        f"Earlier versions and held rows take up to {size_text(kept_bytes)} on the nodes: drop the tables of the "
        "oldest versions first (chs3 versions lists them), and discard what is held."
    ]


def _written_objects(load: PeriodLoad) -> Manifest:
    """Return the objects to write: if objects are removed, all parts may be rewritten."""
    return load.manifest if load.increment and load.increment.removed else load.files.manifest


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
