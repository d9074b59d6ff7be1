"""Declare an argument once: its name, type, default, help and check. DAG files import it: it imports only errors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self, TypeVar

from airflow_provider_chs3.exceptions import ConfigurationError

T = TypeVar("T")

#: The default of an argument that must be given.
REQUIRED: Any = MISSING
#: The default of a connection's id: the one that Airflow's configuration names.
CONFIGURED = "[chs3]"
_KIND = re.compile(r"\w+(?:\[[^\]]*\])?")
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One argument, wherever it is set: on an operator, in a group, on the command line."""

    name: str = ""
    help: str
    type: str = "str | None"
    default: Any = None
    without: str = ""
    option: str = ""
    choices: tuple[str, ...] = ()
    least: float | None = None
    above: float | None = None
    most: float | None = None
    is_template: bool = True
    group: str = ""

    @property
    def written(self) -> str:
        """The argument as messages name it."""
        return f"{self.group}[{self.name!r}]" if self.group else self.name

    @property
    def default_text(self) -> str:
        """The default in words; empty if there is none."""
        if self.without or self.default in (None, REQUIRED):
            return self.without
        return str(self.default) if isinstance(self.default, bool | int | float) else f"`{self.default}`"

    @property
    def described(self) -> str:
        """The help, with the default."""
        return f"{self.help} Default: {self.default_text}." if self.default_text else self.help

    def checked(self, value: Any) -> Any:
        """Return an allowed value as its type has it: what a template rendered may be the text of a number."""
        if "None" in self.kinds and value in (None, ""):
            return None
        read = _KINDS.get(self._kind, _ANY_KIND)[0](value)
        if read is None or not self._is_allowed(read):
            raise ConfigurationError(f"{self.written}={value!r} is not allowed: use {self.wanted}.")
        return read

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The alternatives in the type, such as `Mapping[str, str]`, `str` and `None`."""
        return tuple(_KIND.findall(self.type))

    @cached_property
    def _kind(self) -> str:
        return self.kinds[0].partition("[")[0]

    @property
    def wanted(self) -> str:
        """The values that are allowed, in words."""
        if self.choices:
            return f"one of {', '.join(choice or repr(choice) for choice in self.choices)}"
        limits = {"above {:g}": self.above, "at least {:g}": self.least, "at most {:g}": self.most}
        given = [text.format(limit) for text, limit in limits.items() if limit is not None]
        return " ".join([_KINDS.get(self._kind, _ANY_KIND)[1], " and ".join(given)]).rstrip()

    @property
    def may_be_a_file(self) -> bool:
        """Whether the argument is a dict that a JSON file may hold."""
        return self.type.startswith("Mapping") and " | str" in self.type

    def _is_allowed(self, value: Any) -> bool:
        if self.choices and value not in self.choices:
            return False
        return (
            (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
        )


def _number(value: Any, of: Callable[[Any], float]) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = of(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and (isinstance(value, str) or number == value) else None


def _names(value: Any) -> tuple[str, ...] | None:
    is_list = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
    names = tuple(value) if is_list else (None,)
    return names if all(isinstance(name, str) for name in names) else None


#: Kind of a value → how it is read, to None if it is of another kind; and what it is, in words.
_KINDS: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "bool": (lambda value: _BOOLEANS.get(str(value).lower()), "True or False"),
    "int": (lambda value: _number(value, int), "a whole number"),
    "float": (lambda value: _number(value, float), "a number"),
    "str": (lambda value: value if isinstance(value, str) else None, "a text"),
    "Sequence": (_names, "a list of texts"),
    "tuple": (_names, "a list of texts"),
    "Mapping": (lambda value: value if isinstance(value, Mapping) else None, "a dict"),
}
_ANY_KIND: tuple[Callable[[Any], Any], str] = (lambda value: value, "another value")


def flag(name: str, help: str, *, default: bool = False, option: str = "") -> Argument:
    """Declare an argument that is true or false, by default perhaps as an option of Airflow's configuration says."""
    without = f"Airflow's `[{option.replace('.', '] ')}`" if option else ""
    return Argument(
        name=name, help=help, type="bool", default=default, is_template=False, option=option, without=without
    )


def argument(default: T, help: str, **declared: Any) -> T:
    """Declare a field of a group."""
    return field_of(Argument(help=help, default=default, **declared))  # type: ignore[no-any-return]  # for its value


def field_of(declaration: Argument) -> Any:
    """Return the field of a group that is declared elsewhere."""
    return field(default=declaration.default, metadata={"argument": declaration})


class Group:
    """Arguments that belong together, and are set as one dict. Its fields are declared with `argument`."""

    #: The argument that has the dict; empty for fields that are arguments of their own.
    group: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for name, argument in declared(type(self)).items():
            object.__setattr__(self, name, argument.checked(getattr(self, name)))

    @property
    def changes(self) -> dict[str, Any]:
        """The arguments that differ from their defaults."""
        arguments = declared(type(self)).items()
        return {name: value for name, argument in arguments if (value := getattr(self, name)) != argument.default}

    @classmethod
    def of(cls, given: Any) -> Self:
        """Create the group from a user's dict."""
        check_names(cls.group, given, declared(cls))
        return cls(**(given or {}))

    @classmethod
    def merged(cls, *groups: Group, **further: Any) -> Self:
        """Create the group from others that have its fields."""
        names = declared(cls)
        values = {name: getattr(group, name) for group in groups for name in declared(type(group)) if name in names}
        return cls(**values, **further)


_DECLARED: dict[type, Mapping[str, Argument]] = {}


def declared(group: type[Group]) -> Mapping[str, Argument]:
    """Return the arguments of a group, by name."""
    if group in _DECLARED:
        return _DECLARED[group]
    arguments = dict[str, Argument]()
    for declaring in fields(group):  # type: ignore[arg-type]  # a dataclass
        if declaration := declaring.metadata.get("argument"):
            name, kind = declaring.name, str(declaring.type)
            owner = next(base for base in group.__mro__ if name in vars(base).get("__annotations__", ()))
            arguments[name] = replace(declaration, name=name, type=kind, group=getattr(owner, "group", ""))
    _DECLARED[group] = arguments
    return arguments


def elements_of(kind: str) -> tuple[str, ...]:
    """Return the alternatives of what a list or a mapping of a kind contains; see `Argument.kinds`."""
    inner = kind.partition("[")[2].removesuffix("]").removesuffix(", ...")
    return tuple((inner.removeprefix("str, ") if kind.startswith("Mapping") else inner).split(" | "))


def check_names(where: str, given: Any, names: Iterable[str]) -> None:
    """Check that this is a dict of arguments with known names."""
    if not isinstance(given, Mapping | None):
        raise ConfigurationError(f"{where}={given!r} is not a dict: pass one, with any of {', '.join(names)}.")
    if unknown := sorted(str(name) for name in given or () if name not in names):
        raise ConfigurationError(f"{where} has {', '.join(unknown)}: it takes {', '.join(names)}.")


def check_once(columns: Sequence[str]) -> None:
    """Check that no column is named twice."""
    if len(set(columns)) < len(columns):
        raise ConfigurationError(f"columns={list(columns)} names a column twice.")


def check_destination(key: Any, bucket: str | None) -> None:
    """Check that a task knows where it writes objects."""
    # A template may become a URL.
    is_without_bucket = isinstance(key, str) and not any(sign in key for sign in ("://", "{{"))
    if bucket is None and is_without_bucket:
        raise ConfigurationError("Set the objects' destination: key=… and bucket=…, or key='s3://my-bucket/…'.")


def is_of_a_run(value: Any) -> bool:
    """Check whether only a run knows a value: a template of Jinja, the output of another task, or a dict with one."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, Mapping):
        return any(map(is_of_a_run, value.values()))
    if isinstance(value, list | tuple):
        return any(map(is_of_a_run, value))
    # What tasks return.
    return hasattr(value, "operator")
