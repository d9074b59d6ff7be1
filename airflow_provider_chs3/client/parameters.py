"""Put parameters into a statement, or beside it: whichever its placeholders ask for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

from airflow_provider_chs3.core.sql.quoting import literal
from airflow_provider_chs3.exceptions import ConfigurationError

Parameters = Mapping[str, Any] | Sequence[Any]

_PERCENT = re.compile(r"%(?:\((?P<name>[^)]+)\)s|(?P<positional>s)|(?P<doubled>%))?")
_OF_SERVER = re.compile(r"\{\s*(\w+)\s*:\s*([A-Za-z][^{}]*?)\s*\}")
#: In a file of tab-separated values.
_ESCAPES = str.maketrans({"\\": r"\\", "\b": r"\b", "\f": r"\f", "\r": r"\r", "\n": r"\n", "\t": r"\t", "\0": r"\0"})
_INSERT_OF_ROWS = re.compile(r"(\s|--[^\n]*\n|/\*.*?\*/)*INSERT\s.*\bVALUES[\s;]*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Bound:
    """A statement with its parameters, as the driver takes both."""

    sql: str
    parameters: Any = None
    is_server_side: bool = False


def bound(sql: str, parameters: Parameters | None) -> Bound:
    """Bind a statement of `ClickHouseHook.execute` to its parameters."""
    if parameters is None:
        return Bound(sql)
    if not isinstance(parameters, Mapping):
        return Bound(sql.rstrip("; \n\t"), _rows(sql, parameters))
    types = {name: kind for name, kind in _OF_SERVER.findall(sql) if name in parameters}
    of_server = list(types)
    if not of_server:
        return Bound(*bind(sql, parameters))
    if of_client := [match["name"] for match in _PERCENT.finditer(sql) if match["name"] in parameters]:
        raise ConfigurationError(
            f"The statement has {{{of_server[0]}:…}} and %({of_client[0]})s: use one kind of placeholder."
        )
    return Bound(sql, {name: _for_server(parameters[name], kind) for name, kind in types.items()}, is_server_side=True)


def _rows(sql: str, rows: Sequence[Any]) -> list[Any]:
    if isinstance(rows, str) or not isinstance(rows, Sequence):
        raise ConfigurationError(f"parameters is a {type(rows).__name__}: pass a mapping, or a list of rows.")
    if not _INSERT_OF_ROWS.fullmatch(sql):
        raise ConfigurationError(
            "parameters is a list, but the statement is not an INSERT … VALUES for rows: pass a mapping for its "
            "placeholders, such as %(name)s or {name:String}."
        )
    return list(rows)


class _Expression:
    """A literal that the driver puts into a statement as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def _for_driver(value: Any) -> Any:
    """Return a value whose bytes are all sent: the driver would write them as Python does."""
    if isinstance(value, list | tuple):
        return type(value)([_for_driver(element) for element in value]) if type(value) in (list, tuple) else value
    return _Expression(f"'{_bytes(value)}'") if isinstance(value, bytes) else value


class _Written(_Expression):
    """A value as in a file of tab-separated values, which parameters are; the driver would write 'NULL' for NULL."""

    def __str__(self) -> str:
        # The driver puts the quotes around it.
        return literal(self.text)[1:-1]


def over_http(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters of a `Bound` that the server puts in, as it takes them over HTTP."""
    return {name: _tab_separated(value) for name, value in parameters.items()}


def _tab_separated(value: Any) -> str:
    if isinstance(value, _Written):
        return value.text
    return str(value.value if isinstance(value, Enum) else value).translate(_ESCAPES)


def _for_server(value: Any, kind: str) -> Any:
    """Return a value so that nothing of it is lost: the driver cuts times to seconds, and knows no maps."""
    if kind == "Identifier":
        # The server takes a name as it is.
        return _Written(str(value))
    if value is None:
        return _Written(r"\N")
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, datetime):
        return _time(value)
    if isinstance(value, bytes):
        return _Written(_bytes(value))
    return _Written(_literal(value)) if isinstance(value, list | tuple | Mapping) else value


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list | tuple):
        inner = ", ".join(_literal(element) for element in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_literal(key)}: {_literal(element)}' for key, element in value.items())}}}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | Decimal):
        return str(value)
    if isinstance(value, bytes):
        return f"'{_bytes(value)}'"
    return literal(_time(value) if isinstance(value, datetime) else str(value))


def _bytes(value: bytes) -> str:
    return "".join(f"\\x{number:02x}" for number in value)


def _time(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat(" ")
    # A number of seconds is the same moment in every time zone that the placeholder's type may name.
    microseconds = (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    seconds, rest = divmod(abs(microseconds), 1_000_000)
    # With fewer digits it would be taken for a year.
    return f"{'-' if microseconds < 0 else ''}{seconds:010}{f'.{rest:06}' if rest else ''}"


def bind(operation: str, parameters: Parameters | None) -> tuple[str, Mapping[str, Any] | None]:
    """Put a statement and its parameters into the one form that the driver takes: `%(name)s` and a mapping."""
    if not parameters:
        return operation, None
    named = isinstance(parameters, Mapping)
    values = dict(parameters) if isinstance(parameters, Mapping) else {str(at): v for at, v in enumerate(parameters)}
    used: list[str] = []

    def replacement(match: re.Match[str]) -> str:
        if match["doubled"]:
            return "%%"
        if match["name" if named else "positional"] is None:
            return "%" + match[0]
        used.append(match["name"] if named else str(len(used)))
        return f"%({used[-1]})s"

    bound_sql = _PERCENT.sub(replacement, operation)
    values = {name: _for_driver(value) for name, value in values.items()}
    missing = [name for name in used if name not in values]
    if named and missing:
        raise ConfigurationError(f"The statement has %({missing[0]})s, but no parameter has that name.")
    if not named and len(used) != len(values):
        raise ConfigurationError(f"The statement has {len(used)} placeholders (%s) for {len(values)} parameters.")
    return bound_sql, values


def half_character(error: UnicodeEncodeError) -> ConfigurationError:
    """Return the error of a text that has no UTF-8."""
    # Not the text around it, which may be a secret.
    half = error.object[error.start]
    return ConfigurationError(f"{half!r} is half a character, which UTF-8 cannot encode: remove it, or send bytes.")
