"""Parse what a server writes: its errors, and SQL with lists and clauses outside quotes and parentheses."""

from __future__ import annotations

import re
from functools import lru_cache

from airflow_provider_chs3.core.sql.quoting import literal

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


def after(keyword: str, text: str) -> str:
    """Return the text after the last clause with this keyword; empty if there is none."""
    at = top_level(text).rfind(f" {keyword} ")
    return text[at + len(keyword) + 2 :] if at >= 0 else ""


def strings(text: str) -> tuple[str, ...]:
    """Return the distinct string literals of an expression, without quotes; escapes are kept."""
    return tuple(dict.fromkeys(_STRING.findall(text)))


def _blanked(match: re.Match[str]) -> str:
    return _BLANK * len(match[0])
