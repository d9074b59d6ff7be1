"""Docstrings of what users name in their code leave out no argument and no error.

That those of functions begin with a verb is checked by ruff.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import is_dataclass
from functools import cache
from types import FunctionType
from typing import Any

from airflow_provider_chs3 import exceptions
from tests.packaging import public_api
from tests.support.operator_pages import operators

_METHODS = (FunctionType, classmethod, staticmethod)
#: Airflow calls with these, and describes them.
_OF_AIRFLOW = {"self", "cls", "context", "event", "task_instance", "args", "kwargs"}
_SECTION = re.compile(r"^(\w+):\n(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^    \*{0,2}(\w+): (.*?)(?=^    \S|\Z)", re.MULTILINE | re.DOTALL)


def _members() -> Iterator[tuple[str, Any, type | None]]:
    """Each public class, function and method, with the class that has the method."""
    for module in public_api.modules():
        for name, value in vars(module).items():
            if name[0] == "_" or name.startswith("pytest_") or getattr(value, "__module__", "") != module.__name__:
                continue
            where = f"{module.__name__.partition('.')[2]}.{name}"
            if inspect.isclass(value):
                yield where, value, None
                for member in vars(value):
                    if member[0] != "_" and isinstance(vars(value)[member], _METHODS):
                        yield f"{where}.{member}", inspect.unwrap(getattr(value, member)), value
            elif inspect.isfunction(value):
                yield where, value, None


MEMBERS = {where: (value, owner) for where, value, owner in _members()}


@cache
def _sections(docstring: str) -> dict[str, dict[str, str]]:
    """Section → entry → text, of a docstring in Google's style."""
    return {name: dict(_ENTRY.findall(text)) for name, text in _SECTION.findall(inspect.cleandoc(docstring) + "\n")}


def _documented(where: str, section: str) -> dict[str, str]:
    """The entries of a section, also those of the classes and methods that it extends or replaces."""
    value, owner = MEMBERS[where]
    found: dict[str, str] = {}
    for each in _inherited(value, owner):
        found = {**_sections(each.__doc__ or "").get(section, {}), **found}
    return found


def _inherited(value: Any, owner: type | None) -> list[Any]:
    if inspect.isclass(value):
        return list(value.__mro__)
    name = value.__name__
    return [vars(base)[name] for base in owner.__mro__ if name in vars(base)] if owner else [value]


def _parameters(value: Any) -> dict[str, inspect.Parameter]:
    function = value.__init__ if inspect.isclass(value) else value
    return {name: each for name, each in inspect.signature(function).parameters.items() if name not in _OF_AIRFLOW}


def _is_described_here(value: Any, owner: type | None) -> bool:
    """Whether no library describes what it calls, nor the classes that extend it what they take."""
    return not inspect.isabstract(value) and (owner is None or all(map(_is_ours, _inherited(value, owner))))


def _is_ours(value: Any) -> bool:
    return getattr(inspect.unwrap(value), "__module__", "").startswith("airflow_provider_chs3.")


def _returns_something(where: str) -> bool:
    return inspect.signature(MEMBERS[where][0]).return_annotation not in ("None", None)


DESCRIBED_HERE = [where for where, (value, owner) in MEMBERS.items() if _is_described_here(value, owner)]


def test_of_an_operator_it_begins_with_a_verb() -> None:
    documented = {name: operator.__doc__ or "The" for name, operator in operators().items()}
    assert [name for name, text in documented.items() if re.match(r"(?:An?|The)\b", text)] == []


def test_it_names_each_argument() -> None:
    assert _faults(_unnamed, DESCRIBED_HERE) == []


def test_it_names_no_argument_that_is_not_there() -> None:
    assert _faults(_absent) == []


def test_it_says_what_an_argument_is_that_is_left_out() -> None:
    assert _faults(_without_default) == []


def test_it_names_each_error_that_is_raised_there() -> None:
    assert _faults(_unnamed_errors) == []


def test_it_says_what_is_returned() -> None:
    told = re.compile(r"\b(?:[Rr]eturns?|Yields?|Check|Read)\b")
    callables = [where for where in DESCRIBED_HERE if not inspect.isclass(MEMBERS[where][0])]
    assert len(callables) > 50
    assert [
        where for where in callables if _returns_something(where) and not told.search(MEMBERS[where][0].__doc__ or "")
    ] == []


def _faults(found_in: Callable[[str], Iterable[str]], members: Iterable[str] = MEMBERS) -> list[str]:
    assert len([*members]) > 100
    return [f"{where}: {name}" for where in members for name in sorted(found_in(where))]


def _unnamed(where: str) -> set[str]:
    documented = _documented(where, "Args") | _documented(where, "Attributes")
    return _parameters(MEMBERS[where][0]).keys() - documented.keys()


def _absent(where: str) -> set[str]:
    value, _ = MEMBERS[where]
    named = _sections(value.__doc__ or "").get("Args", {})
    return named.keys() - _parameters(value).keys() - _OF_AIRFLOW - _of_bases(value)


def _of_bases(value: Any) -> set[str]:
    """The arguments that a class passes on to its bases, as operators do with `**kwargs`."""
    bases = value.__mro__[1:] if inspect.isclass(value) else ()
    names = {name for base in bases if base is not object for name in inspect.signature(base.__init__).parameters}
    # common-sql's hooks take the connection under a name of their own.
    return {*names, getattr(value, "conn_name_attr", "")}


def _without_default(where: str) -> list[str]:
    value, _ = MEMBERS[where]
    documented = _sections(value.__doc__ or "").get("Args", {})
    parameters = _parameters(value)
    return [
        name
        for name, text in documented.items()
        if name in parameters and not _tells_default(text, parameters[name].default)
    ]


def _tells_default(text: str, default: object) -> bool:
    if default in (inspect.Parameter.empty, None, "", ()):
        return True
    # "As in `query`" leads to where it is told.
    return bool(re.search(rf"[Dd]efault|\bAs (?:in|for)\b|{re.escape(str(default))}", text))


def _unnamed_errors(where: str) -> set[str]:
    raised = {error for function in _functions(MEMBERS[where][0]) for error in _raised(function)}
    return raised - _documented(where, "Raises").keys()


def _functions(value: Any) -> list[FunctionType]:
    """Return the function of this package that a call runs: dataclasses make their `__init__`."""
    if not inspect.isclass(value):
        return [value]
    made = {"__init__"} if is_dataclass(value) else set()
    return [vars(value)[name] for name in {"__init__", "__post_init__"} - made if name in vars(value)]


def _raised(function: FunctionType) -> set[str]:
    """The errors that a function makes itself; tasks turn those of this package into Airflow's."""
    source = textwrap.dedent(inspect.getsource(function))
    calls = [node.exc for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Raise)]
    names = {call.func.id for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)}
    ours = {name for name in names if hasattr(exceptions, name)}
    return {"AirflowFailException"} if ours and "airflow_errors()" in source else ours
