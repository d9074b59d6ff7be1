"""Quote identifiers and literals, hide secrets in SQL text, and parse what a server writes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

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
    """Quote an identifier; any name but the empty one is fine."""
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


_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_INNERMOST = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_STRING = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_BLANK = "\0"
#: The stack trace of ClickHouse, also within another error, before more text; and of HDFS. For Python and RE2.
_STACK_TRACE = (
    r"(?s)[.,]?\s*Stack trace(?: \([^)]*\))?:\s*(?:(?:\d+\. [^\n]*\s*)+|.*)"
    r"|(?:\n\s*at [^\n]+\))+"
)
_SPACE_AROUND = r"^\s+|\s+$"
_TUPLE = "tuple"


def without_stack_trace(text: str) -> str:
    """Remove stack traces from a server's error."""
    return re.sub(_STACK_TRACE, " ", text).strip()


def readable(column: str) -> str:
    """Return SQL for a server's error without stack traces, as a text even if it quotes bytes that are no UTF-8."""
    shown = f"replaceRegexpAll(toValidUTF8({column}), {literal(_STACK_TRACE)}, ' ')"
    return f"replaceRegexpAll({shown}, {literal(_SPACE_AROUND)}, '')"


# The page asks for the clauses of one table once for each of its periods.
@lru_cache(maxsize=256)
def top_level(text: str) -> str:
    """Blank everything within quotes or parentheses, character by character."""
    text = without_quoted(text)
    while (shorter := _INNERMOST.sub(_blanked, text)) != text:
        text = shorter
    return text


def without_quoted(text: str) -> str:
    """Blank everything within quotes, character by character."""
    return _QUOTED.sub(_blanked, text)


def items(text: str) -> list[str]:
    """Split a comma-separated list into items; empty for an empty text."""
    seen = top_level(text)
    commas = [at for at, character in enumerate(seen) if character == ","]
    ends = zip([0, *(at + 1 for at in commas)], [*commas, len(text)], strict=True)
    return [text[start:end].strip() for start, end in ends] if text.strip() else []


def without_parentheses(text: str) -> str:
    """Remove the parentheses around a whole text, if any."""
    is_one = text.startswith("(") and set(top_level(text)) == {_BLANK}
    return text[1:-1] if is_one else text


def elements(text: str) -> list[str]:
    """Return the elements of a tuple, in parentheses or of the function `tuple`; otherwise the text itself."""
    values = items(without_parentheses(text))
    name, inner = text[: len(_TUPLE)], text[len(_TUPLE) :]
    if len(values) == 1 and name == _TUPLE and without_parentheses(inner) != inner:
        return items(without_parentheses(inner))
    return values


def arguments_of(definition: str) -> list[str]:
    """Return the arguments of an engine, which its definition begins with, as written."""
    head, name = top_level(definition).partition(" ")[0], definition.partition("(")[0]
    return items(without_parentheses(definition[len(name) : len(head)]))


def after(keyword: str, text: str) -> str:
    """Return the text after the last clause with this keyword; empty if there is none."""
    at = top_level(text).rfind(f" {keyword} ")
    return text[at + len(keyword) + 2 :] if at >= 0 else ""


def strings(text: str) -> tuple[str, ...]:
    """Return the distinct string literals of an expression, without quotes; escapes are kept."""
    return tuple(dict.fromkeys(_STRING.findall(text)))


def _blanked(match: re.Match[str]) -> str:
    return _BLANK * len(match[0])
