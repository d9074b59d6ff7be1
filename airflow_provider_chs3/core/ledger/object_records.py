"""Write and read which objects a period was loaded from, and make the table of these records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from airflow_provider_chs3.core.ledger.records import IS_STATE, newest
from airflow_provider_chs3.core.ledger.table import LedgerKey, create_records, make_records
from airflow_provider_chs3.core.model.models import Manifest, Node, TableName, Unit
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Period
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, literals, one_of, table
from airflow_provider_chs3.core.steps.operations import QueryNodes, Row, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.replication import catch_up
from airflow_provider_chs3.core.target.topology import OBJECTS_TABLE

#: One statement holds so many objects: about 3 MB of text.
_OBJECTS_PER_STATEMENT = 20_000
_OF_OBJECT = ("path", "size_bytes", "etag", "last_modified", "rows", "arrival")
#: No key of S3 holds this character: XML has no way to write it.
_SEPARATOR = "\0"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

#: An object, its rows as text, and its arrival.
_Recorded: TypeAlias = tuple[Unit, str, str]


class ObjectsOfPeriod(NamedTuple):
    """The objects that an attempt at a period reads."""

    keys: Mapping[Node, LedgerKey]
    objects: Sequence[Unit]
    base: str
    rows: Sequence[int | None] | None
    arrivals: Sequence[str] | None = None


def record_objects(
    context: Target, periods: Sequence[ObjectsOfPeriod], *, attempt: str, query_id: str | None = None
) -> Steps[None]:
    """Record the objects that an attempt reads, on every node of its keys; they count once the ledger has it."""
    # Rows are sent as text, empty where they are not known.
    counted = ((period, recorded) for period in periods for recorded in _pair_rows(period))
    while batch := list(islice(counted, _OBJECTS_PER_STATEMENT)):
        # Once for all nodes: of many objects it is megabytes.
        arrays = [
            (period, _arrays([recorded for _, recorded in counted_units]))
            for period, counted_units in groupby(batch, key=itemgetter(0))
        ]
        yield from QueryNodes(
            name=f"Record {len(batch)} objects",
            sql={
                node: _insert(
                    context.ledger, [(period.keys[node], period.base, array) for period, array in arrays], attempt
                )
                for node in context.recorders
                if node in periods[0].keys
            },
            settings=context.record_settings,
            query_id=query_id,
        )


def _arrays(objects: Collection[_Recorded]) -> str:
    """Send each column as one text: a literal for each value would make servers slow and reach their limits."""
    columns = (
        [unit.path for unit, *_ in objects],
        [str(unit.size_bytes) for unit, *_ in objects],
        [unit.version for unit, *_ in objects],
        [str((unit.last_modified - _EPOCH) // _MILLISECOND) for unit, *_ in objects],
        [rows for _, rows, _ in objects],
        [arrival for *_, arrival in objects],
    )
    return ", ".join(f"splitByChar('\\0', {literal(_SEPARATOR.join(values))})" for values in columns)


def _insert(ledger: TableName, of_periods: Sequence[tuple[LedgerKey, str, str]], attempt: str) -> Sql:
    key = of_periods[0][0]
    same = {
        "target_database": key.target.database,
        "target_table": key.target.table,
        "target_uuid": key.target_uuid,
        "attempt": attempt,
    }
    names = ", ".join(map(identifier, (*same, "period", "partition_id", "base", *_OF_OBJECT)))
    periods = ", ".join(
        f"({literals((str(key.period), key.partition_id, base))}, arrayZip({arrays}))"
        for key, base, arrays in of_periods
    )
    return Sql(
        f"INSERT INTO {table(objects_table(ledger))} ({names}) "
        f"SELECT {literals(same.values())}, of_period.1, of_period.2, of_period.3, each.1, toUInt64(each.2), each.3, "
        "fromUnixTimestamp64Milli(toInt64(each.4), 'UTC'), toUInt64OrNull(each.5), each.6 "
        f"FROM (SELECT arrayJoin([{periods}]) AS of_period) ARRAY JOIN of_period.4 AS each"
    )


def _pair_rows(period: ObjectsOfPeriod) -> Iterator[_Recorded]:
    nothing = [""] * len(period.objects)
    rows = nothing if period.rows is None else ["" if rows is None else str(rows) for rows in period.rows]
    return zip(period.objects, rows, period.arrivals or nothing, strict=True)


def recorded_rows(context: Target, period: Period, *, base: str) -> Steps[dict[str, int | None]]:
    """Read the rows of the objects that a period was published from, by path; None where files do not give them."""
    sql = {
        node: Sql(f"SELECT path, rows FROM {_published(context, node, [(period, base)])}")
        for node in recorders_of_objects(context)
    }
    answers = yield from QueryNodes(name="Read how many rows each object had", sql=sql)
    return dict(max(answers.values(), key=len, default=()))


def recorded_objects(
    context: Target, periods: Sequence[tuple[Period, str]], *, on: Collection[Node] = (), intended: str = ""
) -> Steps[list[Manifest]]:
    """Read the objects that periods were published from, by their bases, as recorded on any node that may know.

    The result is proof only if its fingerprint is the one in the ledger: rows may be missing or stale.
    """
    columns = "period, path, size_bytes, etag, toUnixTimestamp64Milli(last_modified)"
    sql = {
        node: Sql(f"SELECT {columns} FROM {_published(context, node, periods, intended=intended)}")
        for node in on or recorders_of_objects(context)
    }
    answers = yield from QueryNodes(name="Read which objects the period was loaded from", sql=sql)
    # A replica that was down has fewer of a base.
    longest = {period: max(by_node.values(), key=len) for period, by_node in _by_period(answers).items()}
    return [Manifest.of(_unit_of(*of) for _, *of in longest.get(str(period), ())) for period, _ in periods]


def _by_period(answers: Mapping[Node, Iterable[Row]]) -> dict[str, dict[Node, list[Row]]]:
    """Return rows that begin with a period by it, and by node."""
    on_nodes = defaultdict[str, dict[Node, list[Row]]](dict)
    for node, rows in answers.items():
        for row in rows:
            on_nodes[row[0]].setdefault(node, []).append(row)
    return on_nodes


def recorders_of_objects(context: Target) -> tuple[Node, ...]:
    """Return the nodes to read records of objects from: all replicas, as one that was down lacks some."""
    is_each_alone = context.table_facts.is_replicated and not context.shared
    return _having_records(context, context.nodes if is_each_alone else (context.coordinator,))


def _having_records(context: Target, nodes: Iterable[Node]) -> tuple[Node, ...]:
    return tuple(node for node in nodes if context.nodes[node].objects and context.nodes[node].has_ledger)


class RecordedObject(NamedTuple):
    """An object that a period holds rows of; if a load by period took them, its arrival is empty."""

    period: Period
    unit: Unit
    rows: int | None
    arrival: str


def loaded_objects(context: Target, condition: str) -> Steps[list[RecordedObject]]:
    """Read the objects whose rows the periods of a table hold, as far as a condition on their records is met.

    A period that an attempt was publishing when it died has those of the last one that was published.
    """
    yield from catch_up(context, context.ledger, objects_table(context.ledger))
    # One may have lost records, or been down: rows of objects that are not known would be left out.
    sql = {node: _loaded(context, node, condition) for node in _having_records(context, context.recorders)}
    answers = yield from QueryNodes(name="Read which objects are loaded", sql=sql)
    on_nodes = _by_period(answers)
    differ = len({frozenset(rows) for rows in answers.values()}) > 1
    last = (yield from last_loads(context, one_of("period", sorted(on_nodes)))) if differ else {}
    loaded = list[RecordedObject]()
    for text, by_node in sorted(on_nodes.items()):
        period = Period.parse(text)
        knowing = last[period].nodes if period in last else by_node.keys()
        rows = max((by_node[node] for node in by_node.keys() & knowing), key=len, default=[])
        loaded += [RecordedObject(period, _unit_of(*of), count, arrival) for _, *of, count, arrival in rows]
    return loaded


def _loaded(context: Target, node: Node, condition: str) -> Sql:
    key, ledger = LedgerKey.on(context, node, WHOLE_TABLE), context.ledger
    of_table, objects = key.table_condition, table(objects_table(ledger))
    bases = f"SELECT period, found.1 FROM ({_newest_published(ledger, key)})"
    published = f"FROM {table(ledger)} WHERE {of_table} AND event = 'published'"
    # Somebody deleted the records of a period that was published together with others, which hold the same objects.
    known = f"SELECT period FROM {table(ledger)} WHERE {of_table} AND {IS_STATE}"
    is_lost = f"period NOT IN ({known}) AND attempt IN (SELECT attempt {published})"
    lost = f"SELECT period, argMax(base, loaded_at) FROM {objects} WHERE {of_table} AND {is_lost} GROUP BY period"
    return Sql(
        "SELECT period, path, size_bytes, etag, toUnixTimestamp64Milli(last_modified), rows, arrival "
        f"FROM {objects} WHERE {of_table} AND {condition} AND ("
        f"(period, base) IN ({bases}) AND (period, attempt) IN (SELECT period, attempt {published}) "
        f"OR (period, base) IN ({lost}) AND {is_lost})"
    )


def _unit_of(path: str, size_bytes: int, etag: str, milliseconds: int) -> Unit:
    return Unit(path, size_bytes, etag, _EPOCH + milliseconds * _MILLISECOND)


#: Records of loads that put the rows of the recorded objects there.
_LOADED = "event = 'published' AND restored = '' AND NOT is_adopted"


def _newest_published(ledger: TableName, key: LedgerKey) -> str:
    """Return the SELECT of what was loaded last of each period of a table: base and fingerprint; and of its state."""
    found = newest("base, fingerprint, sequence", condition=_LOADED)
    return (
        f"SELECT period, {found} AS found, {newest('event, is_adopted, sequence')} AS state "
        f"FROM {table(ledger)} WHERE {key.table_condition} GROUP BY period"
    )


class LastLoad(NamedTuple):
    """The last load of a period: the nodes that know it, and its objects' fingerprint; None if others loaded it."""

    nodes: frozenset[Node]
    fingerprint: str | None


def last_loads(context: Target, condition: str = "1") -> Steps[dict[Period, LastLoad]]:
    """Return the last load of each period, as far as a condition on periods is met: a node may have lost its ledger."""
    sql = {
        node: Sql(
            "SELECT (state.3, found.3), period, found.1, if(state.2, NULL, found.2) "
            f"FROM ({_newest_published(context.ledger, LedgerKey.on(context, node, WHOLE_TABLE))}) "
            f"WHERE {condition} AND (found.2 != '' OR state.2)"
        )
        for node in context.recorders
        if context.nodes[node].has_ledger
    }
    answers = yield from QueryNodes(name="Read what was published last", sql=sql)
    rows = sorted(((*row, node) for node, of_node in answers.items() for row in of_node), key=itemgetter(0))
    # The newest record of all replicas comes last; each numbers its own.
    newest_of = {period: (base, fingerprint) for _, period, base, fingerprint, _ in rows}
    nodes = defaultdict[str, set[Node]](set)
    for _, period, base, fingerprint, node in rows:
        if (base, fingerprint) == newest_of[period]:
            nodes[period].add(node)
    return {
        Period.parse(period): LastLoad(frozenset(nodes[period]), fingerprint)
        for period, (_, fingerprint) in newest_of.items()
    }


def unfinished_periods(context: Target) -> Steps[dict[Period, tuple[str, str]]]:
    """Return the periods that an attempt was publishing when it died, with that attempt and the base of its record."""
    # A replica that died amid the publication may have been left out of its completion.
    only_intents = "" if context.table_facts.is_replicated else " WHERE found.1 = 'intent'"
    sql = {
        node: Sql(
            "SELECT found.4, period, found.1, found.2, found.3 "
            f"FROM (SELECT period, {newest('event, attempt, base, sequence')} AS found FROM {table(context.ledger)} "
            f"WHERE {LedgerKey.on(context, node, WHOLE_TABLE).table_condition} GROUP BY period){only_intents}"
        )
        for node, facts in context.nodes.items()
        if facts.has_ledger
    }
    answers = yield from QueryNodes(name="Look for what was being published", sql=sql)
    rows = sorted((number, *row, node.shard_num) for node, of_node in answers.items() for number, *row in of_node)
    newest_on = {(period, shard): (event, attempt, base) for _, period, event, attempt, base, shard in rows}
    return {
        Period.parse(period): (attempt, base)
        for (period, _), (event, attempt, base) in newest_on.items()
        if event == "intent"
    }


def _published(context: Target, node: Node, periods: Sequence[tuple[Period, str]], *, intended: str = "") -> str:
    """Return the rows of attempts that the ledger of a node has as published, and those of an intended one."""
    bases = ", ".join(f"({literals((str(period), base))})" for period, base in periods)
    of_table = LedgerKey.on(context, node, WHOLE_TABLE).table_condition
    of_periods = f"{of_table} AND (period, base) IN ({bases})"
    attempts = f"SELECT period, attempt FROM {table(context.ledger)} WHERE {of_periods} AND event = 'published'"
    or_intended = f" OR attempt = {literal(intended)}" if intended else ""
    of_attempts = f"((period, attempt) IN ({attempts}){or_intended})"
    return f"{table(objects_table(context.ledger))} WHERE {of_periods} AND {of_attempts}"


#: If you change these, raise `RECORDS_SCHEMA`.
OBJECT_COLUMNS = {
    "loaded_at": "DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'by the clock of this node'",
    "target_database": "LowCardinality(String)",
    "target_table": "LowCardinality(String)",
    "target_uuid": "LowCardinality(String)",
    "period": "LowCardinality(String)",
    "partition_id": "LowCardinality(String)",
    "base": "LowCardinality(String) COMMENT 'attempt that loaded the whole period; later ones add to it'",
    "attempt": "LowCardinality(String) COMMENT 'attempt that read the object; published if the ledger says so'",
    "path": "String COMMENT 'bucket/key'",
    "size_bytes": "UInt64",
    "etag": "String",
    "last_modified": "DateTime64(3, 'UTC')",
    "rows": "Nullable(UInt64) COMMENT 'of the period, where the file itself has it (Parquet), or by arrival'",
    "arrival": "LowCardinality(String) COMMENT 'in which the object came, if its rows may be of any period'",
}


def objects_table(ledger: TableName) -> TableName:
    """Return the table of loaded objects beside a ledger."""
    return TableName(ledger.database, OBJECTS_TABLE)


def make_objects_table(context: Target) -> Steps[None]:
    """Create the table on the nodes that lack it."""
    missing = [node for node, facts in context.nodes.items() if not facts.objects]
    key = "(target_database, target_table, period, base, attempt, path)"
    # Rows are added to periods of any age.
    live, name = f"(period = {literal(str(WHOLE_TABLE))} OR arrival != '')", objects_table(context.ledger)
    sql = create_records(name, OBJECT_COLUMNS, key, engine=context.own_engine, time="loaded_at", live=live)
    yield from make_records(context, missing, name, sql)
