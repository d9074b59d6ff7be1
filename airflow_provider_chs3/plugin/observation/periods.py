"""The state of each period of each table, from its ledgers, its parts and the running inserts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

from pydantic import ConfigDict

from airflow_provider_chs3.core.arguments.merge_arguments import Thresholds
from airflow_provider_chs3.core.ledger.period_comparison import (
    Comparison,
    ComparisonStatus,
    ExpectedPeriod,
    compare,
    count_shards,
    held_version,
)
from airflow_provider_chs3.core.ledger.records import Held, records_of_replicas
from airflow_provider_chs3.core.load.staging_tables import Attempt
from airflow_provider_chs3.core.model.freshness import Freshness
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.target.table_facts import TableFacts
from airflow_provider_chs3.core.watch.health import Health, Verdict, judge, overall
from airflow_provider_chs3.plugin.observation.joined_periods import JoinedPeriod, gone_periods, joined_periods
from airflow_provider_chs3.plugin.observation.merge_reasons import (
    have_to_wait,
    reasons_by_node,
    unchanged_since,
    utc_text,
    way_out,
)
from airflow_provider_chs3.plugin.observation.period_state import LastLoad, PeriodState, state_of
from airflow_provider_chs3.plugin.observation.periods_records import LoadRecord, changed
from airflow_provider_chs3.plugin.observation.running_inserts import (
    RunningInsert,
    RunningStep,
    TaskAtWork,
    TasksOfLoads,
    is_running,
    running_insert,
    running_step,
)
from airflow_provider_chs3.plugin.observation.snapshots import ClusterSnapshot
from airflow_provider_chs3.plugin.observation.unchanged_periods import parsed

#: More periods without rows in a row are left out: an hour of 2099 would make 600,000 of them.
LONGEST_GAP_PERIODS = 24

_ANY_OBJECTS = ExpectedPeriod()
_AS_PUBLISHED = (PeriodState.PUBLISHED, PeriodState.MERGING, PeriodState.PINNED)
_DOING = {
    RunningStep.INSERT: "a load is inserting it",
    RunningStep.VERIFY: "a load is proving that it has staged the objects' rows",
    RunningStep.PUBLISH: "a load is publishing it",
}
_ORPHANED = "its task has failed, but one of its queries still runs: the next load ends it"
_WITHOUT_LEDGER = "loads published it, but the ledger that recorded that was dropped or emptied, so for the next load"
_HIDDEN = "its rows include those that a lightweight DELETE has hidden, until merges remove them"


@dataclass(frozen=True, slots=True)
class Task:
    """A task instance."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int


@dataclass(frozen=True, slots=True)
class Together:
    """Periods that one insert loaded."""

    periods: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Seal:
    """A proof that a period holds its objects' rows, still valid, as the period has not changed since."""

    proved_at: str
    found: str


# Not frozen, as these take half the time to make, and an answer has thousands.
@dataclass(slots=True, kw_only=True)
class PeriodRow:
    """One period of one table, as the page gets it."""

    #: Fields with defaults are always serialized.
    __pydantic_config__: ClassVar = ConfigDict(json_schema_serialization_defaults_required=True)

    period: str
    state: PeriodState
    why: str
    since: str = ""
    statement: str = ""
    hint: str = ""
    rows: int = 0
    size_bytes: int = 0
    parts: int = 0
    objects: int = 0
    source_bytes: int = 0
    published_at: str = ""
    insert_seconds: float | None = None
    rows_per_second: int | None = None
    together: Together | None = None
    step: RunningStep | None = None
    insert: RunningInsert | None = None
    ledger_database: str = ""
    task: Task | None = None
    seal: Seal | None = None
    #: The one whose rows are all held; empty if the period is held by itself, or not.
    arrival: str = ""
    #: The rows that an approval publishes.
    held_rows: int = 0
    #: Some of the rows that failed the checks of a held period, below the name of each check.
    failing_rows: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class PeriodOverview(PeriodRow):
    """The same, with what not every user may see.

    Args:
        why_with_values: The reason with the error of the load, which may quote values; empty if there is none.
        owner: The task of its newest load, as JSON: DAG, run, task, map index; empty if not known.
    """

    why_with_values: str = ""
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadPeriods:
    """The periods of a table that are not shown one by one: the servers found nothing wrong with them.

    Args:
        newest: The newest of these; empty if there are none.
        never_loaded: How many between them were never loaded.
        rows: Rows of the former, on all shards.
    """

    #: Fields with defaults are always serialized.
    __pydantic_config__: ClassVar = ConfigDict(json_schema_serialization_defaults_required=True)

    published: int = 0
    newest: str = ""
    never_loaded: int = 0
    rows: int = 0
    published_at: str = ""
    dag_ids: list[str] = field(default_factory=list)


class TableOverview(NamedTuple):
    """The periods of a table."""

    periods: tuple[PeriodOverview, ...]
    unread: UnreadPeriods = UnreadPeriods()
    freshness: Freshness | None = None


def owners_to_ask_for(seen: ClusterSnapshot) -> set[str]:
    """Return the tasks of loads without publication: Airflow knows whether they continue."""
    records = [
        record for node in seen.nodes.values() for rows in node.records.values() for record in changed(rows.values())
    ]
    failed = {record.failure.owner for record in records if record.failure}
    inserts = (record.unpublished for record in records if not record.failure)
    return {owner for owner in failed if owner} | {insert.owner for insert in inserts if insert and insert.owner}


def overview(
    seen: ClusterSnapshot,
    *,
    tasks: TasksOfLoads,
    thresholds: Thresholds,
    only: Collection[TableName] | None = None,
) -> dict[TableName, TableOverview]:
    """Return the periods of each table in order, including a few unknown ones between two others."""
    tables = {}
    for table, periods in joined_periods(seen, only):
        table_facts = next(node.tables[table] for node in seen.nodes.values() if table in node.tables)
        periods_by_name = {
            str(period.period): _period_overview(seen, period, table_facts, tasks, thresholds) for period in periods
        }
        # A forgotten period without rows is as one that was never loaded.
        known = {
            name: period for name, period in periods_by_name.items() if period.state is not PeriodState.NEVER_LOADED
        }
        if known or seen.choices.tables[table].unread:
            tables[table] = _table_overview(seen, table, known)
    present = {table for node in seen.nodes.values() for table in node.tables}
    for table in {table for node in seen.nodes.values() for table in node.gone} - present:
        if only is None and (gone := {str(period.period): _gone(seen, period) for period in gone_periods(seen, table)}):
            tables[table] = _table_overview(seen, table, gone)
    return dict(sorted(tables.items()))


def _table_overview(seen: ClusterSnapshot, table: TableName, known: Mapping[str, PeriodOverview]) -> TableOverview:
    """Return all that is known about a table; of periods that were never loaded those that are shown."""
    unread = seen.choices.tables[table].unread
    # Rows that no load has recorded may be between those that were read alone.
    missing = [] if seen.choices.are_some else _gaps({*known, *unread})
    never, why = PeriodState.NEVER_LOADED, ComparisonStatus.NEW.value
    shown = {
        period: PeriodOverview(period=period, state=never, why=why)
        for period in missing
        if not unread or seen.choices.shows(period)
    }
    rows = {node.shard_num: of_tables[table].rows for node, of_tables in seen.summaries.items() if table in of_tables}
    summaries = [of_tables[table] for of_tables in seen.summaries.values() if table in of_tables]
    return TableOverview(
        tuple(period for _, period in sorted({**known, **shown}.items(), key=lambda item: parsed(item[0]))),
        UnreadPeriods(
            published=len(unread),
            newest=max(unread, key=parsed, default=""),
            never_loaded=len(missing) - len(shown),
            rows=sum(rows.values()) - sum(period.rows for period in known.values()) if unread else 0,
            published_at=max((summary.published_at for summary in summaries), default="") if unread else "",
            dag_ids=sorted({dag_id for summary in summaries for dag_id in summary.dag_ids}) if unread else [],
        ),
    )


def _gone(seen: ClusterSnapshot, period: JoinedPeriod) -> PeriodOverview:
    """Return a period of a table that is not there: nothing but its records is left."""
    renamed = next((name for node in seen.nodes.values() if (name := node.renamed.get(period.table))), None)
    what = (
        f"is now called {renamed}; the ledger lists its periods under the name {period.table}"
        if renamed
        else "was dropped or renamed, or the connection's user cannot see it"
    )
    return PeriodOverview(
        period=str(period.period),
        state=PeriodState.GONE,
        why=f"the table {what}",
        owner=period.owner,
        **_publication(period),
    )


def _gaps(names: Collection[str]) -> list[str]:
    """Return the periods between others of a table."""
    is_of_one_length = len({parsed(name).grain for name in names}) < 2
    ordered = sorted(names) if is_of_one_length else sorted(names, key=parsed)
    return [name for before, after in pairwise(ordered) for name in _between(before, after)]


# There are few periods, and each is one of many tables.
@lru_cache(maxsize=100_000)
def _between(before: str, after: str) -> tuple[str, ...]:
    """Return the periods between two; none if there are many, or a table has had another key since."""
    between: list[str] = []
    period, end = parsed(before).shifted(1), parsed(after)
    while period < end and period.grain is end.grain and len(between) <= LONGEST_GAP_PERIODS:
        between.append(str(period))
        period = period.shifted(1)
    return () if len(between) > LONGEST_GAP_PERIODS else tuple(between)


def _period_overview(
    seen: ClusterSnapshot, period: JoinedPeriod, table_facts: TableFacts, tasks: TasksOfLoads, thresholds: Thresholds
) -> PeriodOverview:
    comparison, held = _standing(seen, period, table_facts)
    verdicts = _verdicts(seen, period, thresholds)
    has_query = bool(period.unpublished and is_running(seen, period.unpublished))
    load = _load(period, tasks, has_query=has_query)
    state = _state(comparison, load, verdicts, thresholds, held)
    task = None if has_query else tasks.at_work.get(period.owner)
    running = period.unpublished if load is LastLoad.RUNNING and not period.failure else None
    step = running_step(seen, running, is_publishing=period.is_publishing, task=task) if running else None
    held = held if state is PeriodState.HELD else None

    def why(*, with_values: bool) -> str:
        if load is LastLoad.RUNNING:
            return _explain_loading(period, step, task, with_values=with_values)
        if held:
            return (held if with_values else held.without_values).reason
        text = _explain_state(state, comparison, verdicts, period, with_values=with_values)
        parts = (part for on_node in period.nodes.values() for part in on_node.state.each_part or ())
        hides = any(part.hides_rows for part in parts)
        return "; ".join(filter(None, (text, _HIDDEN if hides else "", _ORPHANED if has_query else "")))

    publication = _publication(period)
    return PeriodOverview(
        period=str(period.period),
        state=state,
        why=why(with_values=False),
        why_with_values=why(with_values=True) if period.failure or held else "",
        **_held_values(period, held),
        since=_since(state, period, verdicts, held)
        or (publication.get("published_at", "") if state in _AS_PUBLISHED else ""),
        statement=way_out(verdicts, period.table) if state is PeriodState.STUCK else "",
        hint=period.failure.hint if period.failure and state is PeriodState.FAILED else "",
        **_contents(period),
        owner=period.owner,
        step=step,
        insert=running_insert(running.query_id, seen.processes, seen.cluster, total_rows=running.total_rows)
        if running
        else None,
        **publication,
    )


def _contents(period: JoinedPeriod) -> dict[str, Any]:
    partitions = [on_node.state for on_node in period.nodes.values()]
    return {
        # One replica of a shard counts.
        "rows": sum({node.shard_num: on_node.state.rows for node, on_node in period.nodes.items()}.values()),
        "size_bytes": sum([partition.size_bytes for partition in partitions]),
        "parts": sum([partition.parts for partition in partitions]),
    }


def _held_values(period: JoinedPeriod, held: Held | None) -> dict[str, Any]:
    if not held:
        return {}
    rows = {
        node.shard_num: sum(claim.rows for claim in on_node.held.records)
        for node, on_node in period.nodes.items()
        if on_node.held
    }
    return {"arrival": held.arrival, "held_rows": sum(rows.values()), "failing_rows": held.rows}


def _state(
    comparison: Comparison, load: LastLoad, verdicts: Sequence[Verdict], thresholds: Thresholds, held: Held | None
) -> PeriodState:
    state = state_of(comparison, load, overall(verdicts) if verdicts else Health.HEALTHY, held)
    has_to_wait = state is PeriodState.MERGING and have_to_wait(verdicts, thresholds)
    return PeriodState.MERGES_WAIT if has_to_wait else state


def _since(state: PeriodState, period: JoinedPeriod, verdicts: Sequence[Verdict], held: Held | None) -> str:
    """Return since when it is so, unless that is its publication; empty where nobody knows, as of others' changes."""
    if held and state is PeriodState.HELD:
        return held.since
    if state in (PeriodState.STUCK, PeriodState.TOO_MANY_PARTS):
        return unchanged_since(verdicts)
    if state is PeriodState.UNFINISHED and period.unpublished:
        return utc_text(period.unpublished.recorded_at)
    return period.failure.recorded_at if period.failure and state is not PeriodState.LOADING else ""


def _publication(period: JoinedPeriod) -> dict[str, Any]:
    """Return the fields of `PeriodOverview` about its publication; none if it is not published."""
    published = [
        (on_node, on_node.record)
        for on_node in period.records.values()
        if on_node.record and on_node.record.event == "published"
    ]
    if not published:
        # A held version is discarded there.
        return {
            "ledger_database": next(
                (on_node.ledger_database for on_node in period.records.values() if on_node.held), ""
            )
        }
    attempts = {record.attempt for _, record in published}
    loads = (on_node.load for on_node in period.records.values())
    load = next((load for load in loads if load.attempt in attempts), LoadRecord())
    return {
        "objects": published[0][0].objects,
        "source_bytes": max(record.source_bytes for _, record in published),
        "published_at": max(on_node.recorded_at for on_node, _ in published),
        "insert_seconds": load.insert_seconds or None,
        "rows_per_second": round(load.rows / load.insert_seconds) if load.insert_seconds else None,
        "together": Together(load.together, load.together_seconds) if load.together else None,
        "ledger_database": published[0][0].ledger_database,
    }


def _load(period: JoinedPeriod, tasks: TasksOfLoads, *, has_query: bool) -> LastLoad:
    if period.failure is None and period.unpublished is None:
        return LastLoad.NONE
    # Queries of a worker that was killed run on, but nobody will publish what they insert.
    if period.owner in tasks.at_work or (has_query and period.owner not in tasks.failed):
        return LastLoad.RUNNING
    return LastLoad.FAILED if period.failure else LastLoad.GONE


def _standing(seen: ClusterSnapshot, period: JoinedPeriod, table_facts: TableFacts) -> tuple[Comparison, Held | None]:
    nodes = records_of_replicas(period.nodes) if table_facts.is_replicated else dict(period.nodes)
    if seen.down:
        # Nodes that do not answer do not count against the period: the others decide.
        unseen = count_shards((*nodes, *seen.down), table_facts) - count_shards(nodes, table_facts)
        nodes = {node: on_node.on_fewer(unseen) for node, on_node in nodes.items()}
    held, _ = held_version(nodes, _ANY_OBJECTS, table_facts)
    if held and not held.arrival:
        # As with loads, nothing is held if its table is gone from a node, or the target was altered since.
        name = Attempt(period.table, (period.period,), held.record.attempt, hold_limit_days=1).name
        held = held if all(snapshot.may_publish(name, period.table) for snapshot in seen.nodes.values()) else None
    return compare(nodes, _ANY_OBJECTS, table_facts), held


def _verdicts(seen: ClusterSnapshot, period: JoinedPeriod, thresholds: Thresholds) -> list[Verdict]:
    """Return the verdicts on the nodes where the period's merges are not healthy at first sight."""
    return [
        judge(seen.nodes[node].merge_state(node, period.table, period.period, partition), thresholds)
        for node, partition in period.partitions
        if not seen.nodes[node].is_quiet(period.table, partition, spare_parts=thresholds.spare_parts)
    ]


def _explain_loading(
    period: JoinedPeriod, step: RunningStep | None, task: TaskAtWork | None, *, with_values: bool
) -> str:
    if period.failure:
        return f"its task is retrying; its last attempt failed: {period.error(with_values=with_values)}"
    if step:
        return _DOING[step]
    if task is None:
        return "a load is working on it"
    text = f"none of its queries runs right now; its task is {task.state}"
    if not task.silent_since:
        return text
    silent = f"its worker has been silent since {task.silent_since} UTC"
    return f"{text}, but {silent}: if it is dead, Airflow fails the task soon"


def _explain_state(
    state: PeriodState, comparison: Comparison, verdicts: Sequence[Verdict], period: JoinedPeriod, *, with_values: bool
) -> str:
    error = period.error(with_values=with_values)
    if state in (PeriodState.STUCK, PeriodState.MERGING, PeriodState.MERGES_WAIT, PeriodState.TOO_MANY_PARTS):
        return reasons_by_node(verdicts)
    if state is PeriodState.FAILED and error:
        return f"its newest load failed: {error}"
    if state is PeriodState.UNFINISHED and comparison.status in (ComparisonStatus.UNCHANGED, ComparisonStatus.NEW):
        verb = "was" if comparison.status is ComparisonStatus.NEW else "is"
        return f"its newest load ended without publishing; the partition {verb} {comparison.reason}"
    if comparison.status is ComparisonStatus.ROWS_UNKNOWN and period.is_forgotten:
        return "forgotten in the ledger; its rows are still there"
    if comparison.status is ComparisonStatus.ROWS_UNKNOWN and period.has_lost_ledger:
        return f"{_WITHOUT_LEDGER}: {comparison.reason}"
    nowhere_else = (
        "" if len(comparison.nodes) in (0, len(period.nodes)) else f" ({', '.join(map(str, comparison.nodes))})"
    )
    return comparison.reason + nowhere_else
