"""Operators take arguments as they are declared: signature, docstring, templates and attributes follow."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from inspect import Parameter, Signature, cleandoc
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import conf

from airflow_provider_chs3 import defaults
from airflow_provider_chs3.core.arguments.declaration import REQUIRED, Argument
from airflow_provider_chs3.core.arguments.load_arguments import LOAD
from airflow_provider_chs3.exceptions import ConfigurationError

if TYPE_CHECKING:
    from airflow_provider_chs3.load import Load
    from airflow_provider_chs3.sources.storage import Storage

#: Class → the arguments that it adds to those of its bases.
DECLARED: dict[type, tuple[Argument, ...]] = {}
_WIDTH = 116
_SELF = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
_KWARGS = Parameter("kwargs", Parameter.VAR_KEYWORD)


class Declared:
    """The base of tasks whose arguments are declared: `class Operator(Declared, BaseOperator, takes=(TABLE, …))`.

    A class that checks its arguments, or derives something from them, does so in `_arguments_taken`.
    """

    template_fields_renderers: ClassVar[dict[str, str]]
    #: Arguments that may be files of the DAG folder.
    file_fields: ClassVar[Sequence[str]] = ()
    #: Whether `load` was given.
    has_load = False

    def __init_subclass__(cls, *, takes: tuple[Argument, ...] | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if takes is None:
            return
        DECLARED[cls] = takes
        cls.__doc__ = _documented(cls, arguments_of(cls).values())
        cls.file_fields = _fields(cls, "file_fields", (argument for argument in takes if argument.may_be_a_file))
        rendered = (argument for argument in takes if argument.is_template)
        cls.template_fields = _fields(cls, "template_fields", rendered)  # type: ignore[attr-defined]  # Airflow's
        cls.template_fields_renderers = {
            **getattr(cls, "template_fields_renderers", {}),
            **dict.fromkeys(cls.file_fields, "json"),
        }
        if arguments_of(cls):
            cls.__init__ = _init_of(cls)  # type: ignore[method-assign]  # wrapped by Airflow's metaclass


def arguments_of(taking: type) -> dict[str, Argument]:
    """Return the declared arguments of a class, those of its bases first."""
    return {argument.name: argument for base in reversed(taking.__mro__) for argument in DECLARED.get(base, ())}


def default_of(argument: Argument) -> Any:
    """Return the default of an argument, which Airflow's configuration may have."""
    section, _, option = argument.option.partition(".")
    if section == "operators":
        return conf.getboolean(section, option, fallback=False)
    return getattr(defaults, option.upper()) if section else argument.default


def _init_of(cls: Any) -> Any:
    """Return what takes all arguments at once: Airflow merges a DAG's defaults anew for each class that takes some."""
    takes, declaring = arguments_of(cls).values(), [base for base in cls.__mro__ if base in DECLARED]
    by_default = {argument.name: default_of(argument) for argument in takes if argument is not LOAD}
    checks = [check for base in reversed(declaring) if (check := vars(base).get("_arguments_taken"))]

    def __init__(self: Any, *, load: Load | None = None, **kwargs: Any) -> None:
        if load is not None:
            self.has_load, kwargs = True, _with_load(type(self), load, kwargs)
        values = {name: kwargs.pop(name, default) for name, default in by_default.items()}
        if missing := [name for name, value in values.items() if value is REQUIRED]:
            instead = f", or load=…, which has {'it' if len(missing) == 1 else 'them'}" if LOAD in takes else ""
            raise ConfigurationError(f"{type(self).__name__} needs {'=…, '.join(missing)}=…{instead}.")
        super(declaring[-1], self).__init__(**kwargs)
        for name, value in values.items():
            setattr(self, name, value)
        for check in checks:
            check(self)

    # Airflow names an argument without a default that is missing before a load could bring it.
    defaults_shown = (None if (value := by_default.get(name)) is REQUIRED else value for name in arguments_of(cls))
    return _signed(cls, __init__, zip(takes, defaults_shown, strict=True))


def take_storage(cls: Any, storage: type[Storage], called: Mapping[str, str]) -> None:
    """Have an operator take the arguments of a storage, some of them by other names, in place of `objects`."""
    takes = {called.get(name, name): argument for name, argument in storage.arguments().items()}

    def __init__(self: Any, **kwargs: Any) -> None:
        given = {argument.name: kwargs.pop(name) for name, argument in takes.items() if name in kwargs}
        super(cls, self).__init__(objects=storage(**given), **kwargs)

    named = [replace(argument, name=name) for name, argument in takes.items()]
    # A storage's help has the defaults.
    cls.__doc__ = _documented(cls, (replace(argument, default=None) for argument in named))
    defaults_shown = (Parameter.empty if argument.default is REQUIRED else argument.default for argument in named)
    cls.__init__ = _signed(cls, __init__, zip(named, defaults_shown, strict=True))


def _signed(cls: type, init: Any, takes: Iterable[tuple[Argument, Any]]) -> Any:
    """Give an `__init__` the signature of what it takes, each with its default."""
    parameters = [
        Parameter(argument.name, Parameter.KEYWORD_ONLY, default=default, annotation=argument.type)
        for argument, default in takes
    ]
    init.__signature__ = Signature([_SELF, *parameters, _KWARGS])
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _with_load(taking: type, load: Load, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with those of a load; they override the `default_args` of a DAG, as what is given does."""
    names, defaults_of_dag = arguments_of(taking), given.get("default_args") or {}
    of_load = {name: value for name, value in load.arguments.items() if name in names}
    if twice := [name for name in of_load if name in given and given[name] is not defaults_of_dag.get(name)]:
        raise said_twice(load, twice)
    return {**given, **of_load}


def said_twice(load: Load, names: Iterable[str]) -> ConfigurationError:
    """Return the error of arguments that a load has, too."""
    first = next(iter(names))
    return ConfigurationError(
        f"{', '.join(names)}: load=… of table {load.table!r} says this. Leave it out, or change the load: "
        f"dataclasses.replace(load, {first}=…)."
    )


def _fields(cls: type, name: str, takes: Iterable[Argument]) -> tuple[str, ...]:
    inherited = (field for base in cls.__bases__ for field in getattr(base, name, ()))
    return tuple(dict.fromkeys((*inherited, *(argument.name for argument in takes), *vars(cls).get(name, ()))))


def _documented(cls: type, takes: Iterable[Argument]) -> str:
    entries = "\n".join(map(_entry, takes))
    text, head, rest = cleandoc(cls.__doc__ or ""), "Args:\n", f"{entries}\n"
    if head in text:
        return text.replace(head, head + rest, 1)
    at = re.search(r"^(?:Returns|Raises):$|\Z", text, re.MULTILINE)
    start = at.start() if at else len(text)
    return f"{text[:start].rstrip()}\n\n{head}{rest}\n{text[start:]}".rstrip()


@cache
def _entry(argument: Argument) -> str:
    text = f"{argument.name}: {argument.described}"
    return textwrap.fill(text, _WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8, break_on_hyphens=False)
