"""Checks of a period's rows before they are published, in the form of Airflow's common-sql operators."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Any

from airflow_provider_chs3.core.arguments.declaration import Group, argument, check_names
from airflow_provider_chs3.exceptions import ConfigurationError

#: The checks of `SQLColumnCheckOperator`: what each computes of a column.
COLUMN_CHECKS: Mapping[str, str] = {
    "null_check": "countIf(isNull({0}))",
    "distinct_check": "uniqExact({0})",
    "unique_check": "count({0}) - uniqExact({0})",
    "min": "minOrNull({0})",
    "max": "maxOrNull({0})",
}
#: Its bounds: how each is written in SQL and in messages, and whether `tolerance` lowers (-1) or raises (1) it.
_BOUNDS = {
    "equal_to": ("=", "equal to", 0),
    "greater_than": (">", "greater than", -1),
    "geq_to": (">=", "at least", -1),
    "less_than": ("<", "less than", 1),
    "leq_to": ("<=", "at most", 1),
}
_TOLERANCE, _CLAUSE, _STATEMENT = "tolerance", "partition_clause", "check_statement"


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit of a value: `operator` as in SQL, such as `>=`."""

    operator: str
    value: int | float | str | date | Decimal


@dataclass(frozen=True, kw_only=True)
class ColumnCheck:
    """A value of a column, within bounds."""

    name: str
    wanted: str
    column: str
    kind: str
    bounds: tuple[Bound, ...]
    clause: str = ""


@dataclass(frozen=True, kw_only=True)
class TableCheck:
    """An expression that holds for each row, or, of aggregates, for all of them; arguments as in `ColumnCheck`."""

    name: str
    statement: str
    clause: str = ""
    wanted: str = "true"


@dataclass(frozen=True, kw_only=True)
class StatementCheck:
    """A SELECT from `staged` and `published` whose first row has only true values; arguments as in `ColumnCheck`."""

    name: str
    statement: str
    wanted: str = "true"


Check = ColumnCheck | TableCheck | StatementCheck


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check; `rows` are some that fail it, as JSON."""

    name: str
    wanted: str
    found: str
    has_passed: bool
    rows: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} is {self.found}, wanted {self.wanted}"

    def as_json(self) -> dict[str, object]:
        """Return JSON-safe values, without rows: many people see the results of tasks."""
        return {name: value for name, value in asdict(self).items() if name != "rows"}


def rows_that_fail(results: Iterable[CheckResult]) -> str:
    """Return some of the rows that fail checks, on lines below the name of each check; empty if none are known."""
    return "".join("\n  ".join((f"\n{result.name}:", *result.rows)) for result in results if result.rows)


@dataclass(frozen=True, kw_only=True)
class Checks(Group):
    """Conditions on a period's rows before they are published."""

    group = "checks"

    column_mapping: Mapping[str, Any] | None = argument(
        None,
        'As in `SQLColumnCheckOperator`: `{"fare": {"null_check": {"equal_to": 0}, "min": {"geq_to": 0}}}`.',
        without="none",
    )
    table_checks: Mapping[str, Any] | None = argument(
        None,
        'As the `checks` of `SQLTableCheckOperator`: `{"rows": {"check_statement": "count() > 100"}}`.',
        without="none",
    )
    statements: Mapping[str, Any] | None = argument(
        None,
        "Name → a SELECT whose first row has only true values. It reads the tables `staged`, what is about to be "
        "published, and `published`, the period as it is.",
        without="none",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.requested  # noqa: B018 - it reads each of them

    @cached_property
    def requested(self) -> tuple[Check, ...]:
        """The checks that the user asked for."""
        return (*_of_columns(self.column_mapping or {}), *_of_table(self.table_checks or {}), *self._of_statements())

    def _of_statements(self) -> Iterator[StatementCheck]:
        for name, statement in (self.statements or {}).items():
            yield StatementCheck(name=name, statement=_sql(statement, f"checks['statements'][{name!r}]"))


def _of_columns(mapping: Mapping[str, Any]) -> Iterator[ColumnCheck]:
    for column, checks in mapping.items():
        where = f"checks['column_mapping'][{column!r}]"
        check_names(where, checks, COLUMN_CHECKS)
        for kind, given in (checks or {}).items():
            place = f"{where}[{kind!r}]"
            check_names(place, given, (*_BOUNDS, _TOLERANCE, _CLAUSE))
            bounds = [*_bounds(given or {}, place)]
            if not bounds:
                raise ConfigurationError(f"{place} has no bound: set one of {', '.join(_BOUNDS)}.")
            words = [f"{_BOUNDS[bound][1]} {_written(given[bound])}" for bound in _BOUNDS if bound in given]
            within = f" (tolerance {given[_TOLERANCE]:g})" if _TOLERANCE in given else ""
            yield ColumnCheck(
                name=f"{kind} of {column}",
                wanted=" and ".join(words) + within,
                column=column,
                kind=kind,
                bounds=tuple(bounds),
                clause=_clause(given, place),
            )


def _bounds(given: Mapping[str, Any], where: str) -> Iterator[Bound]:
    tolerance = given.get(_TOLERANCE)
    if tolerance is not None and not _is_number(tolerance):
        raise ConfigurationError(f"{where}[{_TOLERANCE!r}]={tolerance!r} is not a number: set a fraction such as 0.1.")
    for name, (operator, _, direction) in _BOUNDS.items():
        if name not in given:
            continue
        value = given[name]
        if not (_is_number(value) or isinstance(value, str | date | Decimal)):
            raise ConfigurationError(f"{where}[{name!r}]={value!r} is not allowed: use a number, a text or a date.")
        if tolerance is None:
            yield Bound(operator, value)
            continue
        if not _is_number(value):
            raise ConfigurationError(f"{where} has a tolerance, but {name}={value!r} is not a number: leave one out.")
        margin = abs(value) * tolerance
        if direction:
            yield Bound(operator, value + direction * margin)
        else:
            yield from (Bound(">=", value - margin), Bound("<=", value + margin))


def _of_table(checks: Mapping[str, Any]) -> Iterator[TableCheck]:
    for name, given in checks.items():
        where = f"checks['table_checks'][{name!r}]"
        check_names(where, given, (_STATEMENT, _CLAUSE))
        statement = _sql((given or {}).get(_STATEMENT), f"{where}[{_STATEMENT!r}]")
        yield TableCheck(name=name, statement=statement, clause=_clause(given, where))


def _clause(given: Mapping[str, Any], where: str) -> str:
    return _sql(given[_CLAUSE], f"{where}[{_CLAUSE!r}]") if given.get(_CLAUSE) else ""


def _sql(given: Any, where: str) -> str:
    if not isinstance(given, str) or not given.strip():
        raise ConfigurationError(f"{where}={given!r} is not allowed: write SQL as a text.")
    return given.strip().removesuffix(";")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _written(value: Any) -> str:
    return repr(value) if isinstance(value, str) else str(value)


def text_of(results: Sequence[CheckResult]) -> str:
    """Return what checks found that did not pass, in one line."""
    return "; ".join(str(result) for result in results if not result.has_passed)
