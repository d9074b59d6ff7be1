"""Reading a connection's extras by name: nothing unknown, nothing of the wrong type."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from airflow_provider_chs3.exceptions import ConfigurationError

T = TypeVar("T")

_TRUE = ("true", "1", "yes", "on")
_FALSE = ("false", "0", "no", "off")


def check_names(given: Iterable[str], known: Collection[str], *, where: str) -> None:
    """Refuse names that nobody would read."""
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}."
            raise ConfigurationError(f"{where} has no {name!r}: {hint}")


class Extras:
    """The extras of one connection.

    None and the empty string, which Airflow's form stores for fields left alone, mean "not given". Text is taken for
    every type, because a connection written as a URI holds nothing else.
    """

    def __init__(self, values: Mapping[str, Any], *, where: str) -> None:
        self._values = {name: value for name, value in values.items() if value is not None and value != ""}
        self._where = where

    def _read(self, name: str, convert: Callable[[Any], T], expected: str, default: T) -> T:
        if name not in self._values:
            return default
        value = self._values[name]
        try:
            return convert(value)
        except (TypeError, ValueError):
            raise ConfigurationError(f"{self._where} {name!r} must be {expected}, not {value!r}.") from None

    def text(self, name: str) -> str | None:
        """Return the text of `name`, or None."""
        return self._read(name, _text, "text", None)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts, given as a JSON list or separated by commas."""
        return self._read(name, _texts, "a list, or text with commas", ())

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        return self._read(name, _flag, "true or false", default)

    def port(self, name: str, *, default: int) -> int:
        """Return a TCP port."""
        return self._read(name, parse_port, "a port from 1 to 65535", default)

    def seconds(self, name: str, *, default: float) -> float:
        """Return a positive number of seconds."""
        return self._read(name, _seconds, "a number of seconds above 0", default)

    def choice(self, name: str, choices: Collection[str], *, default: str) -> str:
        """Read one of a few words."""

        def convert(value: Any) -> str:
            if value not in choices:
                raise ValueError(value)
            return str(value)

        return self._read(name, convert, f"one of {', '.join(choices)}", default)

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Return a JSON object."""
        return self._read(name, _mapping, "a JSON object", {})


def parse_port(value: Any) -> int:
    """Parse a TCP port from a number or from text."""
    if isinstance(value, bool) or not 1 <= int(value) <= 65535 or int(value) != float(value):
        raise ValueError(value)
    return int(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _texts(value: Any) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise TypeError(value)
    return tuple(text for text in (_text(item).strip() for item in items) if text)


def _flag(value: Any) -> bool:
    word = str(value).lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError(value)


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not 0 < float(value) < float("inf"):
        raise ValueError(value)
    return float(value)


def _mapping(value: Any) -> Mapping[str, Any]:
    parsed = json.loads(value) if isinstance(value, str) else value
    if not isinstance(parsed, dict):
        raise TypeError(value)
    return parsed
