"""Find who changed a period since it was published, when and how, as far as the servers' logs tell."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from operator import attrgetter

from pydantic import BaseModel

from airflow_provider_chs3.core.ledger.partition_state import Mutation
from airflow_provider_chs3.core.ledger.records import IS_STATE, NEWEST_FIRST
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, in_table, literals
from airflow_provider_chs3.core.steps.fan_out import query_reachable
from airflow_provider_chs3.core.steps.operations import Row, Steps
from airflow_provider_chs3.core.target.topology import LEDGER_TABLE
from airflow_provider_chs3.plugin.observation.ledgers import find_ledgers
from airflow_provider_chs3.plugin.observation.period_details import of_period_in, own_parts
from airflow_provider_chs3.plugin.observation.speed.logs import ask_log
from airflow_provider_chs3.plugin.observation.speed.throughput_queries import GENTLY, since

#: Statements of one node that are read, the newest.
_MOST_STATEMENTS = 20
#: A mutation has the time at which its statement began, in seconds.
_MUTATION_SECONDS = 2
#: Logs are read no further back, in days.
_DAYS = 30
_CHANGES = "('Insert', 'AsyncInsertFlush', 'Alter', 'Delete', 'Update', 'Drop', 'Truncate', 'Undrop')"
#: Which of the commands of ALTER it is, without its values.
_COMMAND = r"extract(upper(query), '\\b((?:DROP|DETACH|ATTACH|REPLACE|MOVE|CLEAR|FETCH) (?:PARTITION|PART|COLUMN))\\b')"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that changed a period.

    Args:
        what: What it was, without values: `INSERT`, `ALTER DROP PARTITION`.
        user: Who sent it; empty if the log of queries does not tell.
        at: When, as Unix time by the node's clock.
    """

    what: str
    user: str
    at: float
    rows: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeChange:
    """Changes of a period on one node."""

    rows: int
    published_rows: int | None
    since: float | None
    statements: tuple[Statement, ...]
    silent: tuple[str, ...]

    @property
    def is_change(self) -> bool:
        """Return whether anything is known to have changed."""
        return bool(self.statements) or self.rows != (self.published_rows or 0)


class ChangeOfNode(BaseModel):
    """A node, and what was done to a period there."""

    name: str
    change: NodeChange


class Changes(BaseModel):
    """Changes of a period since it was published."""

    error: str
    nodes: list[ChangeOfNode]


def look_at_changes(cluster: str | None, target: TableName, period: Period) -> Steps[Changes]:
    """Read what was done to a period since it was published, of each node that answers and has changed."""
    ledgers = yield from find_ledgers(cluster)
    of_period = own_parts(target, period, ledgers)
    asked = {
        node: _state_query(target, period, databases, of_period[node]) for node, databases in ledgers.databases.items()
    }
    answers = {
        node: rows[0] for node, rows in (yield from query_reachable(f"Compare {period}", asked, ledgers.down)).items()
    }
    begun = {node: max(answer[1], answer[0] - _DAYS * 86_400) for node, answer in answers.items()}
    parts = yield from ask_log(
        "Read which parts came", {node: _parts(target, of_period[node], at) for node, at in begun.items()}
    )
    queries = yield from ask_log("Read who changed it", {node: _queries(target, at) for node, at in begun.items()})
    changes = ((node, _change(answers[node], parts[node], queries[node])) for node in sorted(answers))
    nodes = [ChangeOfNode(name=str(node), change=change) for node, change in changes if change.is_change]
    return Changes(error="", nodes=nodes)


def _state_query(target: TableName, period: Period, ledgers: Collection[str], of_period: str) -> Sql:
    """Return the query for a node's time, the newest claim, and the parts and mutations since then."""
    of_target = in_table(target)
    # A claim of a period of several partitions is a record of each.
    claims = " UNION ALL ".join(
        f"(SELECT event, toInt64(sum(rows) OVER (PARTITION BY sequence)) AS published, max_block AS block, "
        f"toFloat64(recorded_at) AS at {of_period_in(target, period, TableName(ledger, LEDGER_TABLE))} AND {IS_STATE} "
        f"{NEWEST_FIRST} LIMIT 1)"
        for ledger in ledgers
    )
    newest = f"SELECT * FROM ({claims}) ORDER BY at DESC LIMIT 1"
    claim = f"(SELECT groupArray((event, published, block, at)) FROM ({newest}))"
    nothing = "CAST([], 'Array(Tuple(String, Int64, Int64, Float64))')"
    mutated = f"FROM system.mutations WHERE {of_target} AND toFloat64(create_time) >= floor(claim.4)"
    return Sql(
        f"WITH arrayElement({claim if claims else nothing}, 1) AS claim "
        f"SELECT toFloat64(now64(3)), claim.4, if(claim.1 = 'published', claim.2, -1), sum(rows), "
        f"minIf(toFloat64(modification_time), min_block_number > claim.3), groupUniqArray(partition_id), "
        f"(SELECT groupArray((toFloat64(create_time), `block_numbers.partition_id`, command, is_done)) {mutated}) "
        f"FROM system.parts WHERE active AND rows > 0 AND {of_target} AND {of_period}"
    )


def _parts(target: TableName, of_period: str, begun_at: float) -> Sql:
    """Return the query for the parts that came with statements which are no load's."""
    return Sql(
        f"SELECT query_id, sum(rows) FROM system.part_log WHERE {since(begun_at)} AND error = 0 "
        f"AND {in_table(target)} AND {of_period} "
        f"AND event_type = 'NewPart' AND rows > 0 AND query_id != '' AND NOT startsWith(query_id, 'chs3_') "
        f"GROUP BY query_id {GENTLY}"
    )


def _queries(target: TableName, begun_at: float) -> Sql:
    """Return the query for the statements that changed a table, but for those of loads."""
    # Servers quote what would not be a name otherwise.
    names = literals(
        f"{database}.{name}"
        for database in (target.database, identifier(target.database))
        for name in (target.table, identifier(target.table))
    )
    what = f"if(query_kind = 'Alter', trim(concat('ALTER ', {_COMMAND})), upper(query_kind))"
    return Sql(
        f"SELECT query_id, {what}, initial_user, "
        f"toFloat64(query_start_time_microseconds) AS at FROM system.query_log WHERE {since(begun_at)} "
        f"AND type = 'QueryFinish' AND hasAny(tables, [{names}]) AND query_kind IN {_CHANGES} "
        f"AND NOT startsWith(initial_query_id, 'chs3_') ORDER BY at DESC LIMIT {_MOST_STATEMENTS} {GENTLY}"
    )


def _change(state: Row, parts: list[Row] | str, queries: list[Row] | str) -> NodeChange:
    _, _, published, rows, came_at, partitions, mutations = state
    logs = {"system.part_log": parts, "system.query_log": queries}
    written: dict[str, int] = {} if isinstance(parts, str) else dict(parts)
    known = [] if isinstance(queries, str) else queries
    inserts = (query for query in known if query[0] in written)
    statements = [Statement(what, user, at, written[query_id]) for query_id, what, user, at in inserts]
    for at, keys, command, is_done in mutations:
        mutation = Mutation(0, keys[0] if len(keys) == 1 and keys[0] else "", command, bool(is_done))
        if any(map(mutation.concerns, partitions)) or not partitions:
            user = next((user for _, what, user, begun in known if abs(begun - at) <= _MUTATION_SECONDS), "")
            statements.append(Statement(f"ALTER TABLE … {mutation.shown}", user, at, None))
    if rows < max(published, 0) and not mutations:
        dropped = (query for query in known if query[0] not in written and query[1] not in ("INSERT", "ALTER"))
        statements += [Statement(what, user, at, None) for _, what, user, at in dropped]
    return NodeChange(
        rows=rows,
        published_rows=None if published < 0 else published,
        since=came_at or None,
        statements=tuple(sorted(statements, key=attrgetter("at"))),
        silent=tuple(f"{name}: {log}" for name, log in logs.items() if isinstance(log, str)),
    )
