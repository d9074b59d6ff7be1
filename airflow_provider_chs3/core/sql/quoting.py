"""Every quoted identifier and literal, and SQL text that knows which of its words are secret."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from airflow_provider_chs3.core.values.models import SettingValues, TableName
from airflow_provider_chs3.exceptions import ConfigurationError

HIDDEN = "'[HIDDEN]'"

#: Goes with every statement that may hold secrets: one that a server cannot parse is in its logs as it came. The
#: server's defaults, but for the size: there is room for tens of thousands of keys, where the default ends near 2,600.
PARSED: SettingValues = {
    "max_query_size": 256 * 1024**2,
    "max_parser_depth": 1_000,
    "max_parser_backtracks": 1_000_000,
    "dialect": "clickhouse",
}

_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"})
_BACKTICK_ESCAPES = str.maketrans({"\\": "\\\\", "`": "\\`", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"})


def literal(text: str) -> str:
    """A string literal."""
    return f"'{text.translate(_ESCAPES)}'"


def identifier(name: str) -> str:
    """A quoted identifier; any name but the empty one is fine.

    Raises:
        ConfigurationError: If the name is empty.
    """
    if not name:
        raise ConfigurationError("A database, table or column has an empty name: give its name.")
    return f"`{name.translate(_BACKTICK_ESCAPES)}`"


def unquoted(name: str) -> str:
    """The name that `identifier` quoted, or the server did; one without quotes stays as it is."""
    return re.sub(r"\\(.)", r"\1", name[1:-1]) if name.startswith("`") else name


def table(name: TableName) -> str:
    """A quoted table in its quoted database."""
    return f"{identifier(name.database)}.{identifier(name.table)}"


def literals(texts: Iterable[str]) -> str:
    """String literals with commas between them."""
    return ", ".join(literal(text) for text in texts)


def one_of(expression: str, values: Iterable[str]) -> str:
    """A condition: whether an expression is one of some strings. Servers of 25.8 refuse an empty list (1).

    Args:
        expression: A column, or what else is text.
        values: The strings; with none the condition is never true.
    """
    given = literals(values)
    return f"{expression} IN ({given})" if given else "0"


def settings_clause(values: SettingValues) -> str:
    """What a SELECT, or an INSERT of one, ends with to have these settings; empty for none.

    Args:
        values: Name → value; each name is one that a server knows.
    """
    # Numbers as numbers: 25.8 refuses a text for limit and offset (170).
    given = (f"{name} = {value if isinstance(value, int) else literal(str(value))}" for name, value in values.items())
    text = ", ".join(given)
    return text and f" SETTINGS {text}"


@dataclass(frozen=True)
class Sql:
    """A statement, or a part of one.

    `text` is for the server alone. What prints it, by accident too, sees `[HIDDEN]` in the place of each secret.

    Args:
        text: As the server gets it.
        secrets: The secret strings within it, as they were before quoting.
        unshown: How it ends for the server alone, because people need not read that.
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
        return text

    def __str__(self) -> str:
        return self.masked

    def __repr__(self) -> str:
        return f"Sql({self.masked!r})"
