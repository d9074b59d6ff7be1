"""The tables of materialized views that follow the table of a load: which they are, and the load of each.

A period of such a table is *derived*: its source is what the view's SELECT makes of the published periods of the view's
own table, its base, so it is planned, staged, proved, published and recorded as any other, and is behind until it is
loaded. All that would stop such a load is looked for before the base is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from airflow_provider_chs3.core.arguments.check_arguments import Checks
from airflow_provider_chs3.core.files.loaded_columns import Selection
from airflow_provider_chs3.core.load.decision import LoadResult
from airflow_provider_chs3.core.load.discovery import NAME, VIEW_TO, inspect_target_for_load
from airflow_provider_chs3.core.load.load_request import LoadRequest, Policies
from airflow_provider_chs3.core.load.protocol import LoadsOutcome, load_periods
from airflow_provider_chs3.core.load.retry_policy import Reload
from airflow_provider_chs3.core.load.staging_tables import Attempt, make_nonce
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Grain, Period, range_text
from airflow_provider_chs3.core.periods.plan import PlannedPeriod, PlanRequest, compare_periods
from airflow_provider_chs3.core.periods.query_tree import QueryTree
from airflow_provider_chs3.core.periods.select_source import SelectSource
from airflow_provider_chs3.core.sql.quoting import Sql, is_table, literal, one_of, unquoted
from airflow_provider_chs3.core.steps.operations import Log, Query, Row, Sleep, Steps
from airflow_provider_chs3.core.target.node_facts import Target, inspect_target
from airflow_provider_chs3.core.target.period_partitions import grain_of_key
from airflow_provider_chs3.core.target.target_checks import check_target
from airflow_provider_chs3.core.target.topology import TableRequest
from airflow_provider_chs3.core.tuning.insert_settings import REQUIRED_SETTINGS
from airflow_provider_chs3.exceptions import Chs3Error, PreflightError, SupersededError

#: Fields about the table of a view in the result of a load.
OF_VIEWS = ("target", "period", "status", "reason", "rows", "attempt")
#: Policies of the base's load that the loads of its views' tables share; the others are about files.
_SHARED = ("replace_unknown", "on_target_changed", "reload_whole_table", "keep_versions", "hold_limit_days")

#: How often a load of a view's table waits for another one that took over, how long each time, and between two looks.
_MOST_RIVALS, _LONGEST_WAIT_SECONDS, _POLL_SECONDS = 20, 1_800, 2

#: Merges of these remove rows; those of Summing and Aggregating tables keep their sums.
_LOSES_ROWS = re.compile("Replacing|Coalescing|Collapsing|Graphite")


@dataclass(frozen=True, kw_only=True)
class View:
    """A materialized view whose table follows."""

    name: TableName
    base: TableName
    table: TableRequest
    source: SelectSource
    periods: Mapping[Period, Period]
    columns: tuple[str, ...]
    planned: Sequence[PlannedPeriod]

    def __str__(self) -> str:
        return f"{self.table.target}, the table of {self.name}"


def find_views(request: LoadRequest, periods: Iterable[Period]) -> Steps[tuple[View, ...]]:
    """Find the views whose tables follow a table, each after the one that fills its base, and check that each can."""
    context = yield from inspect_target(request)
    if not any(facts.target for facts in context.nodes.values()):
        return ()
    views, bases = list[View](), [(context, {period: period for period in periods})]
    while bases:
        base, of_base = bases.pop(0)
        for row in (yield from _views_over(base)):
            view, of_view = yield from _view(request, base, row, of_base)
            views.append(view)
            bases.append((of_view, dict(view.periods)))
    return tuple(views)


def load_of(
    request: LoadRequest, source: SelectSource, table: TableRequest, period: Period, columns: tuple[str, ...]
) -> LoadRequest:
    """Return the load of a view's table."""
    reload = _reload_of(request.reload, table.target)
    shared = {name: getattr(request.policies, name) for name in _SHARED}
    if request.reload and request.reload.replace_rows_of_others and not reload:
        # A person allowed it for the rows of another table.
        shared |= {"replace_unknown": False, "on_target_changed": "fail"}
    return replace(
        request,
        target=table.target,
        cluster=table.cluster,
        source=source,
        period=period,
        nonce=make_nonce(datetime.now(UTC)),
        format=None,
        compression="auto",
        selection=Selection(columns=columns),
        # That the base may lose rows, or have none, was decided when it was loaded.
        policies=Policies(**shared, on_no_objects="empty", max_shrink_fraction=1.0),
        settings={},
        is_durable=False,
        resumes=None,
        reload=reload,
        new_table=None,
        checks=Checks(),
    )


@dataclass(frozen=True, kw_only=True)
class Followed:
    """Results of the loads of views' tables, by table and period, and why tables are behind."""

    results: dict[tuple[TableName, Period], LoadResult] = field(default_factory=dict)
    errors: dict[TableName, Chs3Error] = field(default_factory=dict)

    @property
    def error(self) -> Chs3Error | None:
        """The first error; None if there is none."""
        return next(iter(self.errors.values()), None)

    def of(self, views: Sequence[View], period: Period) -> list[dict[str, Any]]:
        """Return the results of views' tables for a period, as JSON-safe values."""
        pairs = [(view, self.results.get((view.table.target, view.periods[period]))) for view in views]
        return [
            {"view": str(view.name), **{name: value for name, value in outcome.as_json().items() if name in OF_VIEWS}}
            for view, outcome in pairs
            if outcome
        ]


def follow(
    request: LoadRequest,
    views: Sequence[View],
    results: Iterable[LoadResult],
    *,
    begin: Callable[[LoadRequest, Sequence[Period]], None],
) -> Steps[Followed]:
    """Load the tables of views, each after the one that fills its base.

    Published periods stay published: a retry finds the tables that are behind. If a base failed, its views stay.
    """
    followed, several = Followed(), [result for result in results if not result.has_no_objects]
    for view in views:
        periods = _periods_of(view, several, request.reload)
        if not periods or view.base in followed.errors:
            continue
        view_load = load_of(request, view.source, view.table, periods[0], view.columns)
        outcome = yield from _load(view_load, periods, begin)
        for period, result in outcome.results.items():
            followed.results[view_load.target, period] = result
            yield from Log(name=f"{result.summary()} It follows {view.base} through {view.name}.")
        if outcome.error:
            yield from Log(name=f"{view} is behind {view.base}, which is published; a retry loads it.")
            followed.errors[view_load.target] = outcome.error
    return followed


def _load(
    request: LoadRequest, periods: Sequence[Period], begin: Callable[[LoadRequest, Sequence[Period]], None]
) -> Steps[LoadsOutcome]:
    """Load periods of a view's table; again, once another load of them has ended that took over.

    Loads of different days of a base fill one month of a view's table. The one that began last has not always seen
    what all others had published.
    """
    begin(request, periods)
    outcome = yield from load_periods(request, periods)
    for _ in range(_MOST_RIVALS):
        over = [period for period, error in outcome.errors.items() if isinstance(error, SupersededError)]
        if not over:
            break
        yield from Log(name=f"{request.target}: another load of {range_text(over)} took over: waiting until it ends.")
        yield from _await_others(request, over)
        attempt = replace(request, nonce=make_nonce(datetime.now(UTC)), period=over[0])
        begin(attempt, over)
        again = yield from load_periods(attempt, over)
        for period in over:
            del outcome.errors[period]
        outcome.results.update(again.results)
        outcome.errors.update(again.errors)
    return outcome


def _await_others(request: LoadRequest, periods: Sequence[Period]) -> Steps[None]:
    """Wait until no load has staged anything of periods, for a bounded time: a load that died leaves its staging."""
    attempts = (Attempt(request.target, (period,), request.nonce) for period in periods)
    staged = " OR ".join(f"startsWith(name, {literal(attempt.prefix)})" for attempt in attempts)
    sql = Sql(f"SELECT count() FROM system.tables WHERE {staged}")
    for _ in range(_LONGEST_WAIT_SECONDS // _POLL_SECONDS):
        rows = yield from Query(name=f"Look for other loads of {request.target}", sql=sql)
        if not rows[0][0]:
            return
        yield from Sleep(name=f"Wait for other loads of {request.target}", seconds=_POLL_SECONDS)


def _periods_of(view: View, results: Iterable[LoadResult], reload: Reload | None) -> list[Period]:
    if view_reload := _reload_of(reload, view.table.target):
        return sorted({view.periods[result.period] for result in results} & set(view_reload.periods))
    # A period took no step if the run reloads something else.
    return sorted(
        {view.periods[result.period] for result in results if result.status != "skipped" or result.seconds_by_step}
    )


def plan_with_views(
    planned: Sequence[PlannedPeriod], load_of_period: Callable[[Period], LoadRequest], reload: Reload | None
) -> Steps[list[PlannedPeriod]]:
    """Return a plan with those periods to load, too, for which the table of a view is behind, or is reloaded."""
    if not planned:
        return []
    periods = [period.period for period in planned]
    request = replace(load_of_period(periods[0]), reload=reload, follows_views=True)
    views = yield from find_views(request, periods)
    reasons, periods_with_views = behind(views, reload), list[PlannedPeriod]()
    for period in planned:
        if not period.is_to_load and period.period in reasons:
            yield from Log(name=f"{period.period} to load: {reasons[period.period]}.")
            period = replace(period, is_to_load=True, reason=reasons[period.period])
        periods_with_views.append(period)
    return periods_with_views


def behind(views: Iterable[View], reload: Reload | None) -> dict[Period, str]:
    """Return the periods of the table that is loaded first for which a view's table is behind, each with the reason."""
    reasons = dict[Period, str]()
    for view in views:
        if reload and not _reload_of(reload, view.table.target):
            continue
        to_load = {period.period: period.reason for period in view.planned if period.is_to_load}
        for period, of_view in view.periods.items():
            if of_view in to_load:
                reasons.setdefault(period, f"{view} is behind: {to_load[of_view]}")
    return reasons


def _reload_of(reload: Reload | None, target: TableName) -> Reload | None:
    return reload if reload and reload.target == target else None


def _views_over(context: Target) -> Steps[Sequence[Row]]:
    """Return database, name, SELECT and target of each view over a table, which must be the same on every node."""
    feeds = (
        "SELECT arrayJoin(arrayZip(dependencies_database, dependencies_table)) AS view FROM system.tables "
        f"WHERE {is_table(context.target)}"
    )
    views = (
        f"SELECT (database, name) AS view, as_select, extract(create_table_query, {literal(VIEW_TO.pattern)}) AS "
        "writes_to FROM system.tables WHERE engine = 'MaterializedView'"
    )
    answers = yield from context.on_each(
        name=f"Look at the views over {context.target}",
        sql=Sql(
            f"SELECT fed.view.1, fed.view.2, as_select, writes_to FROM ({feeds}) AS fed LEFT JOIN ({views}) AS views "
            "ON fed.view = views.view ORDER BY ALL"
        ),
    )
    (node, rows), *others = answers.items()
    for other, answer in others:
        if answer != rows:
            raise PreflightError(
                f"The materialized views over {context.target} differ between {node} and {other}: create the same on "
                f"every node, or set views='warn'."
            )
    return rows


def _view(request: LoadRequest, base: Target, row: Row, of_base: Mapping[Period, Period]) -> Steps[tuple[View, Target]]:
    """Return a view whose table can follow, and what is known about its table."""
    name, select = TableName(*row[:2]), row[2]
    try:
        target = yield from _target_of(base, row)
        yield from _check_select(base, name, select)
        table = _named(request, target, base.cluster)
        source = SelectSource(sql="", base=_named(request, name, base.cluster))
        context = yield from inspect_target_for_load(load_of(request, source, table, next(iter(of_base.values())), ()))
        check_target(context, required_settings=REQUIRED_SETTINGS)
        grain = yield from grain_of_key(context)
        if grain is Grain.ALL and not request.policies.reload_whole_table:
            raise PreflightError(
                f"{target} has no partitions by time, so each load would read all of {base.target}: partition it by "
                "period, or allow this with policies={'reload_whole_table': True}."
            )
        periods = {period: Period.of(of_base_period.begin, grain) for period, of_base_period in of_base.items()}
        in_order = sorted(set(periods.values()))
        listed, _ = yield from source.list_periods(in_order)
        columns = _columns(context, [column.name for column in listed.known_columns])
        planned = yield from _planned(load_of(request, source, table, in_order[0], columns), source, in_order)
        for period in planned:
            if period.is_blocked:
                raise PreflightError(
                    f"for {period.period} of {target}, {period.reason}. To replace what others have done there, set "
                    "policies={'on_target_changed': 'reload', 'replace_unknown': True}."
                )
    except PreflightError as error:
        raise PreflightError(
            f"The table of the materialized view {name} cannot follow {base.target}, so nothing was loaded: {error} Or "
            "set views='warn', which leaves the tables of views as they are."
        ) from error
    view = View(
        name=name, base=base.target, table=table, source=source, periods=periods, columns=columns, planned=planned
    )
    return view, context


def _named(request: LoadRequest, target: TableName, cluster: str | None) -> TableRequest:
    return TableRequest(
        target=target,
        cluster=cluster,
        default_cluster=request.default_cluster,
        staging_database=request.staging_database,
    )


def _target_of(base: Target, row: Row) -> Steps[TableName]:
    _, _, select, writes_to = row
    if not select:
        raise PreflightError("it is not a materialized view that the user may see: grant SHOW TABLES on it.")
    if not writes_to:
        raise PreflightError("it has a table of its own, which has another name on each node: create it with TO.")
    target = TableName(*map(unquoted, re.findall(NAME, writes_to)))
    sql = Sql(f"SELECT engine FROM system.tables WHERE {is_table(target)}")
    engine = "".join(row[0] for row in (yield from base.on_coordinator(name=f"Look at {target}", sql=sql)))
    if not engine.endswith("MergeTree"):
        kind = f"of engine {engine}" if engine else "which is missing, or which the user may not see"
        raise PreflightError(f"it writes to {target}, {kind}: let it write to a MergeTree table.")
    return target


def _check_select(base: Target, view: TableName, select: str) -> Steps[None]:
    if _LOSES_ROWS.search(base.table_facts.engine):
        raise PreflightError(
            f"merges remove rows of {base.target} ({base.table_facts.engine}), and so change what the SELECT makes. "
            "Load its table by a task of its own, and read with FINAL."
        )
    rows = yield from base.on_coordinator(
        name=f"Look at what {view} does", sql=Sql(f"EXPLAIN QUERY TREE run_passes = 1 {select}")
    )
    tree = QueryTree.of(str(row[0]) for row in rows)
    if reason := tree.explain_difference(base.target):
        raise PreflightError(f"{reason}. Load its table by a task of its own.")
    if others := tree.others(base.target):
        yield from _check_others(base, others)
        yield from Log(
            name=f"{view} also reads {', '.join(others)}: as it is when a period is loaded, and a change of it loads "
            "nothing again."
        )


def _check_others(base: Target, others: Sequence[str]) -> Steps[None]:
    """Check that what a SELECT reads besides the base has rows of its own: a load restricts the base within it, too."""
    names = one_of("concat(database, '.', name)", others)
    rows = yield from base.on_coordinator(
        name=f"Look at {', '.join(others)}",
        sql=Sql(
            f"SELECT database, name, engine FROM system.tables WHERE {names} AND "
            "(engine LIKE '%View' OR engine IN ('Buffer', 'Distributed', 'Merge')) ORDER BY ALL LIMIT 1"
        ),
    )
    for database, name, engine in rows:
        raise PreflightError(
            f"its SELECT reads {TableName(database, name)}, of engine {engine}, which may read {base.target} in its "
            "turn. Load its table by a task of its own."
        )


def _columns(context: Target, made: Sequence[str]) -> tuple[str, ...]:
    """Return the columns to load; none if the SELECT makes all that have no default, so that these are loaded."""
    accepted = [column for column in context.table_facts.columns if column.is_loaded]
    if all(column.name in made or column.default_kind for column in accepted):
        return ()
    return tuple(column.name for column in accepted if column.name in made)


def _planned(view_load: LoadRequest, source: SelectSource, periods: Sequence[Period]) -> Steps[list[PlannedPeriod]]:
    """Compare the periods of a view's table with their base as it is now."""
    plan = PlanRequest(
        **vars(_named(view_load, view_load.target, view_load.cluster)),
        source=source,
        periods=tuple(periods),
        leave_out_empty=True,
        definition=view_load.definition or None,
        policies=view_load.policies,
        reload=view_load.reload,
        now=view_load.now,
    )
    planned, _ = yield from compare_periods(plan)
    return planned
