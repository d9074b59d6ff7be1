"""Arguments of operators, declared once; their docstrings are made from them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from inspect import cleandoc
from typing import TypeVar

from airflow_provider_chs3.core.arguments.declaration import Argument

Class = TypeVar("Class", bound=type)

#: Class → the arguments of its own `__init__`, in their order; a test compares them.
DECLARED: dict[type, tuple[Argument, ...]] = {}
_WIDTH = 116


def takes(*arguments: Argument) -> Callable[[Class], Class]:
    """Describe arguments in the docstring of the class that takes them, after those of its bases."""

    def describe(taking: Class) -> Class:
        DECLARED[taking] = arguments
        entries = "\n".join(map(_entry, arguments_of(taking).values()))
        text, head, rest = cleandoc(taking.__doc__ or ""), "Args:\n", f"{entries}\n"
        if head in text:
            taking.__doc__ = text.replace(head, head + rest, 1)
        else:
            at = re.search(r"^(?:Returns|Raises):$|\Z", text, re.MULTILINE)
            start = at.start() if at else len(text)
            taking.__doc__ = f"{text[:start].rstrip()}\n\n{head}{rest}\n{text[start:]}".rstrip()
        return taking

    return describe


def arguments_of(taking: type) -> dict[str, Argument]:
    """Return the declared arguments of a class, those of its bases first."""
    return {argument.name: argument for base in reversed(taking.__mro__) for argument in DECLARED.get(base, ())}


def _entry(argument: Argument) -> str:
    text = f"{argument.name}: {argument.described}"
    return textwrap.fill(text, _WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8, break_on_hyphens=False)
