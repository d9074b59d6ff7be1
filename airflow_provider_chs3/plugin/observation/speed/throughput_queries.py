"""The queries for the speed of loads: their number does not grow with tables and loads."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime

from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.sql.quoting import Sql, literal, one_of, table
from airflow_provider_chs3.core.target.topology import LOADS_TABLE
from airflow_provider_chs3.plugin.observation.periods_queries import in_tables
from airflow_provider_chs3.sources import kinds

#: The most loads that a node returns, the newest.
MAX_LOADS = 1000
#: The most changes of the number of parts that a node returns, the newest.
MAX_CHANGES = 20_000
#: The most merges and publications of one partition that a node returns.
_MAX_MERGES = 1000
_DAY_SECONDS = 86_400
#: Logs can have billions of rows, and viewers of the page must not slow down loads.
GENTLY = "SETTINGS max_execution_time = 5, max_threads = 2"

#: A query id consists of the staging's name, which ends with the attempt, and the query's purpose.
_ATTEMPT_OF_QUERY = "splitByChar('_', {})[3]"
_PUBLISHES = r"match(query_id, '^chs3_[^_]+_[^_]+_publish_')"
#: Events that create a part, and those that may remove others.
_PART_EVENTS = "'NewPart', 'MergeParts', 'MutatePart', 'DownloadPart', 'RemovePart'"
#: A part is removed so long after a merge of it at the latest: `old_parts_lifetime`, by default 480 s, and some more.
_REMOVAL_SECONDS = 600
#: The log is sorted by the first two, which are of whole seconds.
_LOG_BEGUN_AT = (
    "(SELECT toFloat64(event_time_microseconds) FROM system.part_log "
    "ORDER BY event_date, event_time, event_time_microseconds LIMIT 1)"
)


def loads(databases: Iterable[str], *, days: int) -> Sql:
    """Return the query for the newest recorded loads of a node."""
    loads_of_ledgers = " UNION ALL ".join(_loads(database, days=days) for database in databases)
    return Sql(f"SELECT * FROM ({loads_of_ledgers}) ORDER BY published_at DESC LIMIT {MAX_LOADS}")


def _loads(database: str, *, days: int) -> str:
    def of_load(expression: str) -> str:
        return f"argMaxIf({expression}, sequence, event = 'load')"

    values = (
        "partition_id",
        "(loaded_bytes, loaded_objects, loaded_rows, parts)",
        "insert_seconds",
        "(ifNull(peak_memory_bytes, 0), memory_bytes)",
        "CAST(seconds_by_step AS Array(Tuple(String, Float64)))",
    )
    # A load may have published a day after the record of its insert.
    return (
        "SELECT target_database, target_table, period, attempt, "
        "max(owner), "
        f"toFloat64(maxIf(recorded_at, event = 'load')) AS published_at, {', '.join(map(of_load, values))} "
        f"FROM {table(TableName(database, LOADS_TABLE))} "
        f"WHERE event IN ('load', 'inserting') AND recorded_at >= now() - toIntervalDay({days + 1}) "
        "GROUP BY target_database, target_table, period, attempt "
        f"HAVING published_at >= toUnixTimestamp(now() - toIntervalDay({days}))"
    )


def inserts(attempts: Iterable[str], *, begun_at: float, ended_at: float) -> Sql:
    """Return the query for the time that the inserts of loads waited for the storage.

    The seconds are added up over all threads, which wait in parallel. `ReadBufferFromS3Microseconds` covers the wait
    for an answer and its body; `S3ReadMicroseconds` ends with its first byte. HDFS has no such counter: of a load from
    there it is 0.
    """
    attempt = _ATTEMPT_OF_QUERY.format("initial_query_id")
    events = {kind.time_event for kind in kinds() if kind.time_event}
    waited = " + ".join(f"sum(ProfileEvents[{literal(event)}])" for event in sorted(events))
    return Sql(
        f"SELECT {attempt} AS attempt, ({waited}) / 1e6 "
        f"FROM system.query_log WHERE {_between(begun_at, ended_at)} AND type = 'QueryFinish' "
        f"AND query_kind = 'Insert' AND match(initial_query_id, '^chs3_[^_]+_[^_]+_insert') "
        f"AND {one_of(attempt, attempts)} GROUP BY attempt {GENTLY}"
    )


def _between(begun_at: float, ended_at: float) -> str:
    """Return the condition for events of that time, with tolerance for a clock that is slightly off.

    The log is sorted by date and time.
    """
    first, last = int(begun_at) - 3600, int(ended_at) + 3600
    dates = (f"'{datetime.fromtimestamp(at, UTC):%Y-%m-%d}'" for at in (first - _DAY_SECONDS, last + _DAY_SECONDS))
    return (
        f"event_date BETWEEN {' AND '.join(dates)} "
        f"AND event_time BETWEEN fromUnixTimestamp({first}) AND fromUnixTimestamp({last})"
    )


def merges(tables: Iterable[TableName], *, begun_at: float) -> Sql:
    """Return the query for publications, by attempt, and merges of each partition: begin and end, as Unix time."""
    ended_at = "toFloat64(event_time_microseconds)"
    attempt = f"if(event_type = 'NewPart', {_ATTEMPT_OF_QUERY.format('query_id')}, '')"
    return Sql(
        "SELECT database, table, partition_id, "
        f"groupArray({_MAX_MERGES})(({ended_at} - duration_ms / 1000, {ended_at}, {attempt})) "
        f"FROM system.part_log WHERE {since(begun_at)} AND error = 0 AND {in_tables(tables)} "
        f"AND (event_type = 'MergeParts' OR (event_type = 'NewPart' AND {_PUBLISHES})) "
        f"GROUP BY database, table, partition_id {GENTLY}"
    )


def changes(tables: Iterable[TableName], *, begun_at: float, step_seconds: int, condition: str = "1") -> Sql:
    """Return the query for changes of the number of active parts: partition, time and difference, the newest first.

    A part is active from the event that adds it to the one that removes it: a merge or mutation that names it, a load
    that published its period again, or else its removal, which comes minutes after a partition was dropped. The last
    row is no change: it has the time from which on the log has all of them. Without any rows, the log is empty.
    """
    recent = since(begun_at - _REMOVAL_SECONDS)
    of_log = f"FROM system.part_log WHERE {recent} AND error = 0 AND {in_tables(tables)} AND {condition}"
    partition = "database, table, partition_id"
    changed = (
        "arrayConcat([(part_name, event_type = 'RemovePart' ? 'removed' : 'made')], "
        "arrayMap(name -> (name, 'merged'), merged_from))"
    )
    times = ", ".join(f"minIf(at, change.2 = '{how}') AS {how}" for how in ("made", "merged", "removed"))
    parts = (
        f"SELECT {partition}, change.1 AS name, {times} "
        f"FROM (SELECT {partition}, toFloat64(event_time_microseconds) AS at, arrayJoin({changed}) AS change "
        f"{of_log} AND event_type IN ({_PART_EVENTS})) GROUP BY {partition}, name"
    )
    publications = (
        f"SELECT {partition}, arraySort(groupArray(at)) AS published FROM (SELECT {partition}, "
        f"min(toFloat64(event_time_microseconds)) AS at {of_log} AND event_type = 'NewPart' AND {_PUBLISHES} "
        f"GROUP BY {partition}, query_id) GROUP BY {partition}"
    )
    ends = "arrayFilter(at -> at > 0, [merged, arrayFirst(at -> at > made, published), removed])"
    # Where a log begins, parts are removed that had been merged before.
    was_active = f"made > 0 OR arrayMin({ends}) != removed OR removed > log_begun_at + {_REMOVAL_SECONDS}"
    rounded = f"intDiv(toUInt64(change.1), {step_seconds}) * {step_seconds}"
    return Sql(
        f"WITH ifNull({_LOG_BEGUN_AT}, 0) AS log_begun_at, greatest({begun_at}, log_begun_at) AS known_since "
        f"SELECT * FROM (SELECT {partition}, {rounded} AS at, sum(change.2) AS difference "
        f"FROM (SELECT {partition}, arrayJoin("
        f"arrayConcat(if(made > 0, [(made, 1)], []), if(notEmpty({ends}), [(arrayMin({ends}), -1)], []))) AS change "
        f"FROM ({parts}) AS parts LEFT JOIN ({publications}) AS publications USING ({partition}) WHERE {was_active}) "
        f"WHERE change.1 >= known_since GROUP BY {partition}, at HAVING difference != 0 "
        f"UNION ALL SELECT '', '', '', toUInt64(known_since), 0 WHERE log_begun_at > 0) "
        f"ORDER BY database = '', at DESC LIMIT {MAX_CHANGES} {GENTLY}"
    )


def since(begun_at: float) -> str:
    """Return the condition for the rows of a log from a time on, which are sorted by date and time."""
    date = f"{datetime.fromtimestamp(begun_at - _DAY_SECONDS, UTC):%Y-%m-%d}"
    return f"event_date >= {literal(date)} AND event_time >= fromUnixTimestamp({int(begun_at)})"


def now(tables: Collection[TableName]) -> Sql:
    """Return the query for a node's time, the active parts of each partition, and the partitions that merge."""
    of_tables = in_tables(tables)
    return Sql(
        "SELECT toFloat64(now64(3)), (SELECT groupArray((database, table, partition_id, parts)) FROM "
        "(SELECT database, table, partition_id, count() AS parts FROM system.parts "
        f"WHERE active AND rows > 0 AND {of_tables} GROUP BY database, table, partition_id)), "
        f"(SELECT groupArray((database, table, partition_id)) FROM system.merges WHERE {of_tables})"
    )
