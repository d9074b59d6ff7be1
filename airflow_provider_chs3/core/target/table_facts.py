"""The target's structure on one node: engine, keys, columns, indices, projections, and the zone of its times.

Seen on 25.8 and 26.9, on servers of two zones: a text is parsed, and `toDateTime` and the like are computed, in the
`session_timezone` of the statement. But a column of a table without a zone has that of its server: so keys, and what
DEFAULT and MATERIALIZED make of such a column, are the server's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.sql.quoting import (
    Sql,
    after,
    elements,
    identifier,
    in_table,
    is_table,
    items,
    literal,
    table,
    top_level,
    without_quoted,
)
from airflow_provider_chs3.core.steps.operations import Row

_OF_TABLE = (
    "engine",
    "engine_full",
    "partition_key",
    "sorting_key",
    "primary_key",
    "sampling_key",
    "uuid",
    "storage_policy",
)
_ORDER_BY = re.compile(r" ORDER BY (.*?)(?: SAMPLE BY | TTL | SETTINGS |$)", re.DOTALL)
_DISK = "disk = "
_TTL = re.compile(r" TTL (.*?)(?: SETTINGS |$)", re.DOTALL)
#: TTL actions that delete no rows.
_KEEPS_ROWS = re.compile(r" (?:TO DISK|TO VOLUME|RECOMPRESS) ")
#: Columns of these kinds are not stored.
_NOT_STORED = ("ALIAS", "EPHEMERAL")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the target."""

    name: str
    type: str
    default_kind: str = ""
    default_expression: str = ""
    in_partition_key: bool = False

    @property
    def is_loaded(self) -> bool:
        """Return whether an INSERT gives it a value: ordinary columns, those with a DEFAULT, and EPHEMERAL ones."""
        return self.default_kind in ("", "DEFAULT", "EPHEMERAL")

    def __str__(self) -> str:
        return " ".join(filter(None, (self.name, self.type, self.default_kind, self.default_expression)))


@dataclass(frozen=True)
class TableFacts:
    """The target on one node."""

    engine: str
    engine_full: str
    partition_key: str
    sorting_key: str
    primary_key: str
    sampling_key: str
    uuid: str
    columns: tuple[Column, ...]
    indices: tuple[Row, ...]
    projections: tuple[Row, ...]
    storage_policy: str = ""

    @property
    def settings(self) -> str:
        """The table's own settings as text: storage policy, granularity and the like.

        A disk is given by its policy: where the table defines it (`disk(…)`), servers hide its paths and keys, and
        refuse the definition that they show (137; seen on 25.8 and 26.9).
        """
        policy = f"storage_policy = {literal(self.storage_policy)}"
        given = items(after("SETTINGS", self.engine_full))
        return ", ".join(policy if setting.startswith(_DISK) and self.storage_policy else setting for setting in given)

    @property
    def definition(self) -> str:
        """The engine with its keys and its TTL, without settings."""
        return self.engine_full.removesuffix(after("SETTINGS", self.engine_full)).removesuffix(" SETTINGS ")

    @property
    def order_by(self) -> str:
        """The ORDER BY clause; `sorting_key` omits which columns descend."""
        matched = _ORDER_BY.search(self.engine_full)
        return matched[1] if matched and "DESC" in matched[1] else f"({self.sorting_key})"

    @property
    def explicit_primary_key(self) -> str:
        """The primary key if the table names one; 25.8 treats it as different from the same implicit key."""
        head = self.engine_full.partition(" ORDER BY ")[0]
        return f"({self.primary_key})" if " PRIMARY KEY " in head else ""

    @property
    def is_partitioned(self) -> bool:
        """Return whether it has a key. `PARTITION BY tuple()` is none: a table that replaces its rows must have it."""
        return self.partition_key not in ("", "tuple()")

    @property
    def is_replicated(self) -> bool:
        """Return whether its parts are replicated automatically."""
        return self.engine.startswith(("Replicated", "Shared"))

    @property
    def is_plain(self) -> bool:
        """Return whether its engine merges parts without merging rows."""
        return self.engine in ("MergeTree", "ReplicatedMergeTree", "SharedMergeTree")

    @property
    def rows_expire(self) -> bool:
        """Return whether a TTL deletes rows, rather than only moving or recompressing them.

        The time is unknown: parts record it only after a merge, as staging has no TTL, and a deleted partition has no
        parts.
        """
        matched = _TTL.search(top_level(self.engine_full))
        return matched is not None and not all(_KEEPS_ROWS.search(rule) for rule in matched[1].split(","))

    @property
    def may_lose_all(self) -> bool:
        """Return whether merges may remove all rows of a part: rows that expire, sum up to nothing, or cancel out."""
        vanishing = ("SummingMergeTree", "CollapsingMergeTree")
        return self.rows_expire or self.engine.endswith(vanishing) or "replacing_merge_with_cleanup" in self.engine_full

    @property
    def may_be_patched(self) -> bool:
        """Return whether it accepts lightweight updates; merges keep only their version."""
        return "enable_block_number_column = " in self.engine_full

    @property
    def stored(self) -> list[Column]:
        """The columns that its parts may have."""
        return [column for column in self.columns if column.default_kind not in _NOT_STORED]

    @property
    def keeps_every_row(self) -> bool:
        """Return whether no merge removes rows, so that row counts must not change."""
        return self.is_plain and not self.rows_expire


def differences(was: TableFacts, is_now: TableFacts) -> list[str]:
    """Describe the changes of a table that its parts depend on; added columns do not count."""
    types = {column.name: column.type for column in is_now.stored}
    texts = [
        f"its column {column.name} was {column.type}, and is {types.get(column.name, 'gone')}"
        for column in was.stored
        if types.get(column.name) != column.type
    ]
    for part in ("partition_key", "sorting_key", "primary_key", "indices", "projections"):
        before, now_there = getattr(was, part), getattr(is_now, part)
        # Servers keep the parentheses of a key of one column, with which tables beside the target are created.
        if before not in (now_there, f"({now_there})"):
            texts.append(f"its {part.replace('_', ' ')} was {before!r}, and is {now_there!r}")
    return texts


def target_query(target: TableName) -> str:
    """Return the columns of a SELECT for the target's structure; `target_facts` parses the answer."""
    of_target = in_table(target)
    return f"""
    (SELECT groupArray((engine, engine_full, partition_key, sorting_key, primary_key, sampling_key, toString(uuid),
            storage_policy))
        FROM system.tables WHERE {is_table(target)}),
    (SELECT groupArray((position, name, type, default_kind, default_expression, is_in_partition_key))
        FROM system.columns WHERE {of_target}),
    (SELECT groupArray((name, type_full, expr, granularity)) FROM system.data_skipping_indices WHERE {of_target}),
    (SELECT groupArray((name, toString(type), query)) FROM system.projections WHERE {of_target})"""


def target_facts(answer: Sequence[Any]) -> TableFacts | None:
    """Parse the target's structure; None if the node does not have it."""
    tables, columns, indices, projections = answer
    if not tables:
        return None
    of_table: dict[str, str] = dict(zip(_OF_TABLE, tables[0], strict=True))
    return TableFacts(
        **of_table,
        columns=tuple(
            Column(name, column_type, kind, expression, bool(in_partition_key))
            for _, name, column_type, kind, expression, in_partition_key in sorted(columns)
        ),
        indices=tuple(sorted(indices)),
        projections=tuple(sorted(projections)),
    )


#: Prefix of the tables of rehearsals and of their folders in the bucket.
NAME_PREFIX = "rehearsal_chs3_"

#: The event of its record, which belongs to no period.
_REHEARSED = "rehearsed"

#: Prefixes of such engines.
_UNTESTED = ("Shared",)


def family(engine: str) -> str:
    """Return the prefix that marks an engine as untested; empty for tested engines."""
    return next((beginning for beginning in _UNTESTED if engine.startswith(beginning)), "")


def is_rehearsal(target: TableName) -> bool:
    """Check whether a rehearsal created the table."""
    return target.table.startswith(NAME_PREFIX)


def remember(ledger: TableName, like: TableName) -> Sql:
    """Return the statement that records on a node that a rehearsal has passed there."""
    return Sql(
        f"INSERT INTO {table(ledger)} (event, target_database, target_table, structure) SELECT {literal(_REHEARSED)}, "
        f"{literal(like.database)}, {literal(like.table)}, {_circumstances(like)}"
    )


def has_passed(ledger: TableName, target: TableName) -> Sql:
    """Return the query whether a rehearsal has passed on a node with a ledger, under its present conditions."""
    return Sql(
        f"SELECT count() > 0 FROM {table(ledger)} "
        f"WHERE event = {literal(_REHEARSED)} AND structure = {_circumstances(target)}"
    )


def _circumstances(name: TableName) -> str:
    """Return the conditions that a rehearsal is valid for: a new version, engine or storage policy requires another."""
    families = literal(f"^({'|'.join(_UNTESTED)})")
    return (
        "(SELECT any(toJSONString(map('version', version(), 'engine', "
        f"extract(engine, {families}), 'storage_policy', storage_policy))) FROM system.tables WHERE {is_table(name)})"
    )


_UTC = ("UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "UCT", "Universal", "Etc/Universal", "Etc/Zulu", "Etc/UCT")

_WITHOUT_ZONE = re.compile(r"\bDateTime(?:64\(\d\)|(?![\w(]))")
_OF_DAYS = re.compile(r"(?:Nullable\()?(?:Date|Date32|DateTime\('[^']*'\)|DateTime64\(\d, '[^']*'\))\)?")
#: Servers write a space behind a keyword, and none behind a function.
_CALL = re.compile(r"(\w+)\(")

#: Functions of dates and times that use the zone of their argument, and return no time of another zone.
_BY_ARGUMENT = (
    r"toYYYYMM(?:DD)?|toYear|toQuarter|toMonth|toDayOf(?:Year|Period|Week)|toDate(?:32)?|toMonday|toISO(?:Year|Week)"
    r"|toWeek|toStartOf(?:Year|Quarter|Month|Week)|toTimeZone"
)
#: Functions that know no times.
_OF_ANY = (
    r"tuple|cityHash64|farmHash64|sipHash(?:64|128)|xxHash(?:32|64)|murmurHash[23]_64|intHash(?:32|64)|halfMD5|modulo"
    r"|intDiv|negate|abs|(?:lower|upper)(?:UTF8)?|length|substring|concat|count|sum|min|max|any|uniq"
)
_KNOWN, _WITHOUT_TIMES = re.compile(f"{_OF_ANY}|{_BY_ARGUMENT}"), re.compile(_OF_ANY)


def is_utc(zone: str) -> bool:
    """Check whether a zone is UTC by any of its names."""
    return zone in _UTC


def same_name(zone: str) -> str:
    """Return one name for all that mean UTC, and other names as they are."""
    return "UTC" if is_utc(zone) else zone


def with_zone(of: str, zone: str) -> str:
    """Return a type with this zone for each time that has none, at any depth."""
    return _WITHOUT_ZONE.sub(
        lambda match: f"{match[0].rstrip(')')}{', ' if '(' in match[0] else '('}{literal(zone)})", of
    )


def going_by_servers(table: TableFacts) -> Iterator[str]:
    """Yield each key, index, projection and default that may go by the zone of the server that inserts.

    It yields a few that do not depend on it, and leaves out none that does.
    """
    naive = _naive(table.columns)
    for kind in ("partition", "sorting", "primary", "sampling"):
        text = getattr(table, f"{kind}_key")
        if not all(_is_independent(element, table.columns, naive) for element in elements(text)):
            yield f"its {kind} key {text!r}"
    for what, definitions in (("index", table.indices), ("projection", table.projections)):
        for name, _, text, *_ in definitions:
            if not _is_independent(text, table.columns, naive):
                yield f"its {what} {name!r} of {text!r}"
    for column in table.columns:
        text = column.default_expression
        if column.default_kind not in ("", "ALIAS") and (mentions(text, naive) or "serverTimezone" in text):
            yield f"{column.default_kind} {text!r} of column {column.name!r}"


def _naive(columns: Iterable[Column]) -> list[str]:
    """Return the columns without a zone, and the ALIAS columns that are made of them."""
    names = [column.name for column in columns if _WITHOUT_ZONE.search(column.type)]
    aliases = {column.name: column.default_expression for column in columns if column.default_kind == "ALIAS"}
    while mentioning := [name for name, text in aliases.items() if name not in names and mentions(text, names)]:
        names += mentioning
    return names


def _is_independent(text: str, columns: Iterable[Column], naive: list[str]) -> bool:
    """Check whether an expression is a column, or made of columns with a zone by functions that go by it."""
    mentioned = [column for column in columns if mentions(text, [column.name])]
    if any(text in (column.name, identifier(column.name)) for column in mentioned):
        return True
    called = _CALL.findall(without_quoted(text))
    if not all(map(_KNOWN.fullmatch, called)) or mentions(text, naive):
        return False
    return all(map(_WITHOUT_TIMES.fullmatch, called)) or all(_OF_DAYS.fullmatch(column.type) for column in mentioned)


def mentions(text: str, names: Iterable[str]) -> bool:
    """Check whether an expression names one of some columns."""
    words = set(re.findall(r"\w+", text))
    return any(name in words or identifier(name) in text for name in names)
