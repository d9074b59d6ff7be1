"""Find the zone in which times without one are read, and what of a table always goes by the server's own.

Seen on 25.8 and 26.9, on servers of two zones: a text is parsed, and `toDateTime` and the like are computed, in the
`session_timezone` of the statement. But a column of a table without a zone has that of its server: so keys, and what
DEFAULT and MATERIALIZED make of such a column, are the server's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from airflow_provider_chs3.core.sql.quoting import identifier, literal
from airflow_provider_chs3.core.sql.server_text import elements, without_quoted
from airflow_provider_chs3.core.target.table_facts import Column, TableFacts

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
    """Yield what of a table may depend on the zone of the server that inserts, whatever the statement sends.

    Not all of these do; everything left out certainly does not. These are columns that name their zone, by themselves
    or in functions that go by it.

    Returns:
        Each key, index, projection and default, with its expression.
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
