"""Quote identifiers and literals, and hide the secrets in SQL text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from airflow_provider_chs3.core.model.models import SettingValues, TableName
from airflow_provider_chs3.exceptions import ConfigurationError

HIDDEN = "'[HIDDEN]'"
#: A secret that is part of a longer literal is of at least so many characters, as signatures are.
_SHORTEST_INSIDE = 16

#: For every statement that may contain secrets: a server logs one that it cannot parse unmasked. These are the server's
#: defaults, except for the size: it fits tens of thousands of keys, where the default ends near 2,600.
PARSED: SettingValues = {
    "max_query_size": 256 * 1024**2,
    "max_parser_depth": 1_000,
    "max_parser_backtracks": 1_000_000,
    "dialect": "clickhouse",
}

_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"})
_BACKTICK_ESCAPES = str.maketrans({"\\": "\\\\", "`": "\\`", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"})


def literal(text: str) -> str:
    """Quote a string literal."""
    return f"'{text.translate(_ESCAPES)}'"


def identifier(name: str) -> str:
    """Quote an identifier; any name but the empty one is fine.

    Raises:
        ConfigurationError: If the name is empty.
    """
    if not name:
        raise ConfigurationError("A database, table or column has an empty name: set its name.")
    return f"`{name.translate(_BACKTICK_ESCAPES)}`"


def unquoted(name: str) -> str:
    """Remove the quotes that `identifier` or the server put around a name, if any."""
    return re.sub(r"\\(.)", r"\1", name[1:-1]) if name.startswith("`") else name


def table(name: TableName) -> str:
    """Quote a table and its database."""
    return f"{identifier(name.database)}.{identifier(name.table)}"


def in_table(name: TableName) -> str:
    """Return the condition that finds what a table has in `system.parts` and others that call it `table`."""
    return f"database = {literal(name.database)} AND table = {literal(name.table)}"


def is_table(name: TableName) -> str:
    """Return the condition that finds a table in `system.tables`."""
    return f"database = {literal(name.database)} AND name = {literal(name.table)}"


def literals(texts: Iterable[str]) -> str:
    """Quote string literals and join them with commas."""
    return ", ".join(literal(text) for text in texts)


def one_of(expression: str, values: Iterable[str]) -> str:
    """Return the condition that an expression is one of some strings. Servers of 25.8 refuse an empty list (1)."""
    given = literals(values)
    return f"{expression} IN ({given})" if given else "0"


def settings_clause(values: SettingValues) -> str:
    """Return the SETTINGS clause for a SELECT or INSERT SELECT; empty for no settings."""
    # Numbers as numbers: 25.8 refuses a text for limit and offset (170).
    given = (f"{name} = {value if isinstance(value, int) else literal(str(value))}" for name, value in values.items())
    text = ", ".join(given)
    return text and f" SETTINGS {text}"


@dataclass(frozen=True)
class Sql:
    """A statement or a part of one.

    `text` is only for the server. Printing, even by accident, shows `[HIDDEN]` in place of each secret.

    """

    text: str = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    unshown: str = field(default="", repr=False)

    @property
    def masked(self) -> str:
        """The text with its secrets hidden."""
        text = self.text.removesuffix(self.unshown)
        for secret in self.secrets:
            text = text.replace(literal(secret), HIDDEN)
            if len(secret) >= _SHORTEST_INSIDE:
                text = text.replace(literal(secret)[1:-1], HIDDEN[1:-1])
        return text

    def between(self, before: str, after: str = "") -> Sql:
        """Return a statement out of this part, what comes before it, and what comes after, with its secrets."""
        return Sql(f"{before}{self.text}{after}", self.secrets)

    def __str__(self) -> str:
        return self.masked

    def __repr__(self) -> str:
        return f"Sql({self.masked!r})"
