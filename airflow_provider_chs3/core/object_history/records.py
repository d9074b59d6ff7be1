"""Write and read which objects a month was loaded from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice, repeat
from operator import itemgetter
from typing import NamedTuple

from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.object_history.table import objects_table
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, literals, table
from airflow_provider_chs3.core.values.models import Manifest, Node, TableName, Unit
from airflow_provider_chs3.core.workflow.operations import QueryNodes, Steps

#: One statement holds so many objects: about 3 MB of text.
_OBJECTS_PER_STATEMENT = 20_000
_OF_OBJECT = ("path", "size_bytes", "etag", "last_modified", "rows")
#: No key of S3 holds this character: XML has no way to write it.
_SEPARATOR = "\0"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class ObjectsOfMonth(NamedTuple):
    """The objects that an attempt at a month reads.

    Args:
        keys: The month, as each node's ledger knows it.
        objects: The objects.
        base: The attempt that loaded the whole month, to which this one adds; this one itself if it loads the whole
            month.
        rows: Rows of each object, in their order; None if files do not give them.
    """

    keys: Mapping[Node, LedgerKey]
    objects: Sequence[Unit]
    base: str
    rows: Sequence[int] | None


def record_objects(ledger: TableName, months: Sequence[ObjectsOfMonth], *, attempt: str, query_id: str) -> Steps[None]:
    """Record the objects that an attempt reads, on every node. They count once the ledger says it was published.

    Args:
        ledger: The ledger, beside which they are recorded.
        months: The objects of each month.
        attempt: The attempt.
        query_id: Query id of the statements.
    """
    # The last column is text, empty where rows are not known.
    counted = ((each, (one, str(rows))) for each in months for one, rows in _with_rows(each))
    for batch in _batches(counted):
        # Once for all nodes: of many objects it is megabytes.
        arrays = [(month, _arrays([one for _, one in some])) for month, some in groupby(batch, key=itemgetter(0))]
        yield from QueryNodes(
            name=f"Record {len(batch)} objects",
            sql={
                node: _insert(ledger, [(month.keys[node], month.base, array) for month, array in arrays], attempt)
                for node in months[0].keys
            },
            query_id=query_id,
        )


def _batches(
    objects: Iterable[tuple[ObjectsOfMonth, tuple[Unit, str]]],
) -> Iterator[list[tuple[ObjectsOfMonth, tuple[Unit, str]]]]:
    remaining = iter(objects)
    while batch := list(islice(remaining, _OBJECTS_PER_STATEMENT)):
        yield batch


def _arrays(objects: Collection[tuple[Unit, str]]) -> str:
    """Send each column as one text: a literal for each value would make servers slow and reach their limits."""
    columns = (
        [each.path for each, _ in objects],
        [str(each.size_bytes) for each, _ in objects],
        [each.version for each, _ in objects],
        [str((each.last_modified - _EPOCH) // _MILLISECOND) for each, _ in objects],
        [rows for _, rows in objects],
    )
    return ", ".join(f"splitByChar('\\0', {literal(_SEPARATOR.join(values))})" for values in columns)


def _insert(ledger: TableName, of_months: Sequence[tuple[LedgerKey, str, str]], attempt: str) -> Sql:
    key = of_months[0][0]
    same = {
        "target_database": key.target.database,
        "target_table": key.target.table,
        "target_uuid": key.target_uuid,
        "attempt": attempt,
    }
    names = ", ".join(map(identifier, (*same, "month", "partition_id", "base", *_OF_OBJECT)))
    months = ", ".join(
        f"({literals((str(key.month), key.partition_id, base))}, arrayZip({arrays}))" for key, base, arrays in of_months
    )
    return Sql(
        f"INSERT INTO {table(objects_table(ledger))} ({names}) "
        f"SELECT {literals(same.values())}, of_month.1, of_month.2, of_month.3, each.1, toUInt64(each.2), each.3, "
        "fromUnixTimestamp64Milli(toInt64(each.4), 'UTC'), toUInt64OrNull(each.5) "
        f"FROM (SELECT arrayJoin([{months}]) AS of_month) ARRAY JOIN of_month.4 AS each"
    )


def _with_rows(month: ObjectsOfMonth) -> Iterator[tuple[Unit, int | str]]:
    return zip(month.objects, month.rows, strict=True) if month.rows is not None else zip(month.objects, repeat(""))


def recorded_rows(ledger: TableName, node: Node, key: LedgerKey, *, base: str) -> Steps[dict[str, int | None]]:
    """Read the rows of the objects that a month was published from, by their paths; None where files do not give them.

    Args:
        ledger: The ledger, beside which they are recorded.
        node: The node to ask.
        key: The month, as that node's ledger knows it.
        base: The attempt that loaded the whole month.
    """
    sql = Sql(f"SELECT path, rows FROM {_published(ledger, [(key, base)])}")
    return dict((yield from QueryNodes(name="Read how many rows each object had", sql={node: sql}))[node])


def recorded_objects(ledger: TableName, node: Node, months: Sequence[tuple[LedgerKey, str]]) -> Steps[list[Manifest]]:
    """Read the objects that months were published from, as one node recorded them.

    What it returns is proof only if its fingerprint is the one in the ledger: rows may be missing or stale.

    Args:
        ledger: The ledger, beside which they are recorded.
        node: The node to ask.
        months: Each month, as that node's ledger knows it, and the attempt that loaded the whole month; at least one.
    """
    sql = Sql(
        f"SELECT month, path, size_bytes, etag, toUnixTimestamp64Milli(last_modified) FROM {_published(ledger, months)}"
    )
    rows = (yield from QueryNodes(name="Read which objects the month was loaded from", sql={node: sql}))[node]
    found = defaultdict[str, list[Unit]](list)
    for month, path, size_bytes, etag, milliseconds in rows:
        found[month].append(Unit(path, size_bytes, etag, _EPOCH + milliseconds * _MILLISECOND))
    return [Manifest.of(found[str(key.month)]) for key, _ in months]


def _published(ledger: TableName, months: Sequence[tuple[LedgerKey, str]]) -> str:
    """Return the rows of attempts that the ledger has as published."""
    key = months[0][0]
    bases = ", ".join(f"({literals((str(key.month), base))})" for key, base in months)
    of_months = f"{key.table_condition} AND (month, base) IN ({bases})"
    attempts = f"SELECT month, attempt FROM {table(ledger)} WHERE {of_months} AND event = 'published'"
    return f"{table(objects_table(ledger))} WHERE {of_months} AND (month, attempt) IN ({attempts})"
