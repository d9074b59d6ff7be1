"""Conversions in expressions of `select`: text that ClickHouse cannot parse is an error, never NULL.

`toInt32('12abc')` fails, but the same text in a field that may be NULL becomes NULL silently; so do the texts of
`toDate`, `toDecimal64` and the like. So each of these calls is rewritten in place: NULL for NULL, and for everything
else the conversion of a text that cannot be NULL.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

_NAMES = (
    r"to(?:U?Int(?:8|16|32|64|128|256)|Float(?:32|64)|BFloat16|Decimal(?:32|64|128|256)|Date(?:32)?|DateTime(?:32|64)?"
    r"|Time(?:64)?|UUID|IPv[46]|UnixTimestamp|Interval[A-Za-z]+)|(?i:date)"
)
_CALL = re.compile(rf"(?<![\w.`\"])({_NAMES})\s*\(")
_HIDDEN = re.compile(
    r"'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/|#[ !][^\n]*|(\$\w*\$).*?\1", re.DOTALL
)
_LITERAL = re.compile(r"\s*(?:\0+|[-+]?[0-9][0-9.eE]*)\s*")


def strict(expression: str) -> str:
    """Return the same expression, which fails on a text that it cannot parse."""
    return _rewritten(
        expression, lambda argument, call: f"if(isNull({argument}), NULL, {call(f'assumeNotNull({argument})')})"
    )


def is_unparsed(expression: str) -> str:
    """Return the condition, which never fails, that an expression depends on a text that it cannot parse."""
    # A conversion counts only where another value of it makes another one of the whole: not in a branch that is not
    # taken.
    other = _rewritten(
        expression,
        lambda argument, call: (
            f"if(isNotNull({argument}) AND isNull({call(argument)}), "
            f"defaultValueOfArgumentType(assumeNotNull({call(argument)})), {call(argument)})"
        ),
    )
    if other == expression:
        return "0"
    written, other = f"(\n{expression}\n)", f"(\n{other}\n)"
    return f"NOT ifNull({written} = {other}, isNull({written}) AND isNull({other}))"


def _rewritten(text: str, write: Callable[[str, Callable[[str], str]], str]) -> str:
    seen = _HIDDEN.sub(lambda match: "\0" * len(match[0]), text)
    done, at = [], 0
    while call := _CALL.search(seen, at):
        start, (end, comma) = call.end(), _ends(seen, call.end())
        argument = seen[start:comma]
        done.append(text[at : call.start()])
        if not argument.strip() or _LITERAL.fullmatch(argument):
            done.append(text[call.start() : end])
        else:
            first, rest = _rewritten(text[start:comma], write), _rewritten(text[comma:end], write)
            done.append(write(f"\n{first}\n", partial("{0}({2}{1}".format, call[1], rest)))
        at = end
    return "".join((*done, text[at:]))


def _ends(seen: str, start: int) -> tuple[int, int]:
    """Return the position after the parenthesis that closes a call, and the end of its first argument."""
    depth, comma = 1, 0
    for at in range(start, len(seen)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(seen[at], 0)
        if not depth:
            return at + 1, comma or at
        if seen[at] == "," and depth == 1 and not comma:
            comma = at
    return len(seen), comma or len(seen)
