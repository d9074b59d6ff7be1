"""Write and read which objects a month was loaded from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice, repeat
from typing import NamedTuple

from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.object_history.table import objects_table
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, literals, table
from airflow_provider_chs3.core.values.models import Manifest, Node, S3Object, TableName
from airflow_provider_chs3.core.workflow.operations import QueryNodes, QueryOneOfSeveral, Steps

#: One statement holds so many objects: about 3 MB of text.
_OBJECTS_PER_STATEMENT = 20_000
_OF_OBJECT = ("path", "size_bytes", "etag", "last_modified", "rows")
#: No key of S3 holds this character: XML has no way to write it.
_SEPARATOR = "\0"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def record_objects(
    ledger: TableName,
    keys: Mapping[Node, LedgerKey],
    objects: Sequence[S3Object],
    *,
    base: str,
    attempt: str,
    rows: Sequence[int] | None = None,
    query_id: str,
) -> Steps[None]:
    """Record the objects that an attempt reads, on every node. They count once the ledger says it was published.

    Args:
        ledger: The ledger, beside which they are recorded.
        keys: The month, as each node's ledger knows it.
        objects: The objects.
        base: The attempt that loaded the whole month, to which this one adds; this one itself if it loads the whole
            month.
        attempt: This attempt.
        rows: Rows of each object, in their order; None if files do not give them.
        query_id: Query id of the statements.
    """
    # The last column is text, empty where rows are not known.
    counted = zip(objects, map(str, rows) if rows is not None else repeat(""), strict=rows is not None)
    for batch in _batches(counted):
        # Once for all nodes: of many objects it is megabytes.
        of_months = partial(_of_months, ledger, attempt)
        of_month = _ObjectsOfMonth(keys, _arrays(batch), base)
        yield from QueryOneOfSeveral(
            name=f"Record {len(batch)} objects",
            sql=of_months([of_month]),
            query_id=query_id,
            subject=of_month,
            of_several=of_months,
        )


class _ObjectsOfMonth(NamedTuple):
    keys: Mapping[Node, LedgerKey]
    arrays: str
    base: str


def _of_months(ledger: TableName, attempt: str, several: Sequence[_ObjectsOfMonth]) -> dict[Node, Sql]:
    return {node: _insert(ledger, [(each.keys[node], each) for each in several], attempt) for node in several[0].keys}


def _batches(objects: Iterable[tuple[S3Object, str]]) -> Iterator[list[tuple[S3Object, str]]]:
    remaining = iter(objects)
    while batch := list(islice(remaining, _OBJECTS_PER_STATEMENT)):
        yield batch


def _arrays(objects: Collection[tuple[S3Object, str]]) -> str:
    """Send each column as one text: a literal for each value would make servers slow and reach their limits."""
    columns = (
        [each.path for each, _ in objects],
        [str(each.size_bytes) for each, _ in objects],
        [each.etag for each, _ in objects],
        [str((each.last_modified - _EPOCH) // _MILLISECOND) for each, _ in objects],
        [rows for _, rows in objects],
    )
    return ", ".join(f"splitByChar('\\0', {literal(_SEPARATOR.join(values))})" for values in columns)


def _insert(ledger: TableName, of_months: Sequence[tuple[LedgerKey, _ObjectsOfMonth]], attempt: str) -> Sql:
    key = of_months[0][0]
    same = {
        "target_database": key.target.database,
        "target_table": key.target.table,
        "target_uuid": key.target_uuid,
        "attempt": attempt,
    }
    names = ", ".join(map(identifier, (*same, "month", "partition_id", "base", *_OF_OBJECT)))
    months = ", ".join(
        f"({literals((str(key.month), key.partition_id, each.base))}, arrayZip({each.arrays}))"
        for key, each in of_months
    )
    return Sql(
        f"INSERT INTO {table(objects_table(ledger))} ({names}) "
        f"SELECT {literals(same.values())}, of_month.1, of_month.2, of_month.3, each.1, toUInt64(each.2), each.3, "
        "fromUnixTimestamp64Milli(toInt64(each.4), 'UTC'), toUInt64OrNull(each.5) "
        f"FROM (SELECT arrayJoin([{months}]) AS of_month) ARRAY JOIN of_month.4 AS each"
    )


def recorded_rows(ledger: TableName, node: Node, key: LedgerKey, *, base: str) -> Steps[dict[str, int | None]]:
    """Read the rows of the objects that a month was published from, by their paths; None where files do not give them.

    The arguments are those of `recorded_objects`.
    """
    sql = Sql(f"SELECT path, rows FROM {_published(ledger, key, base)}")
    return dict((yield from QueryNodes(name="Read how many rows each object had", sql={node: sql}))[node])


def recorded_objects(ledger: TableName, node: Node, key: LedgerKey, *, base: str) -> Steps[Manifest]:
    """Read the objects that a month was published from, as one node recorded them.

    What it returns is proof only if its fingerprint is the one in the ledger: rows may be missing or stale.

    Args:
        ledger: The ledger, beside which they are recorded.
        node: The node to ask.
        key: The month, as that node's ledger knows it.
        base: The attempt that loaded the whole month.
    """
    sql = Sql(
        f"SELECT path, size_bytes, etag, toUnixTimestamp64Milli(last_modified) FROM {_published(ledger, key, base)}"
    )
    rows = (yield from QueryNodes(name="Read which objects the month was loaded from", sql={node: sql}))[node]
    return Manifest.of(
        S3Object(path, size_bytes, etag, _EPOCH + milliseconds * _MILLISECOND)
        for path, size_bytes, etag, milliseconds in rows
    )


def _published(ledger: TableName, key: LedgerKey, base: str) -> str:
    """Return the rows of attempts that the ledger has as published."""
    attempts = (
        f"SELECT attempt FROM {table(ledger)} WHERE {key.condition} AND event = 'published' AND base = {literal(base)}"
    )
    return (
        f"{table(objects_table(ledger))} WHERE {key.condition} AND base = {literal(base)} AND attempt IN ({attempts})"
    )
