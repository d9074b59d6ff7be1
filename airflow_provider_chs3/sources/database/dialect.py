"""Define what differs between the SQL of databases, so that each value is read as its database writes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import ClassVar

from airflow_provider_chs3.core.files.source import KnownColumn
from airflow_provider_chs3.core.model.models import Setting
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Grain, Period, zone_of
from airflow_provider_chs3.core.model.store_kind import Format, StoreKind
from airflow_provider_chs3.exceptions import ConfigurationError

TEXT = "Nullable(String)"
TYPED = Format("rows", is_typed=True)
NULLS = Setting("external_table_functions_use_nulls", 1, "NULL stays NULL")


class Times(Enum):
    """Kinds of times that a column may hold."""

    DATES = "dates"
    LOCAL = "times without a zone"
    INSTANTS = "instants"


@dataclass(frozen=True, kw_only=True)
class SqlTable:
    """A table whose rows belong to periods.

    Raises:
        ConfigurationError: If a text is empty or has characters that databases do not know, or there is no such zone.
    """

    name: str
    schema: str | None
    time_column: str
    key_column: str | None
    fingerprint: str | None
    timezone: str

    def __post_init__(self) -> None:
        given = {"schema": self.schema, "key_column": self.key_column, "fingerprint": self.fingerprint}
        optional = {name: value for name, value in given.items() if value is not None}
        for name, value in {"table": self.name, "time_column": self.time_column, **optional}.items():
            if not _is_text(value):
                way_out = "set it, or leave it out" if name in optional else "set it"
                raise ConfigurationError(f"{name}={value!r} is empty, or not text that a database can hold: {way_out}.")
        zone_of(self.timezone)

    @property
    def shown(self) -> str:
        """The table with its schema, for messages."""
        return f"{self.schema}.{self.name}" if self.schema else self.name


@dataclass(frozen=True, kw_only=True)
class SqlColumn(KnownColumn):
    """A column of a table."""

    written: str
    other: str = ""
    read: str = "{0}"
    clickhouse_type: str = TEXT
    is_integer: bool = False


class Dialect(ABC):
    """The SQL of a database."""

    kind: ClassVar[StoreKind]
    scheme: ClassVar[str]

    @abstractmethod
    def quoted(self, name: str) -> str:
        """Quote an identifier."""

    @abstractmethod
    def columns(self, table: SqlTable) -> tuple[str, tuple[str, ...]]:
        """Return the statement for the columns of a table, and its parameters; the answer goes to `column`."""

    @abstractmethod
    def column(self, name: str, *described: str) -> SqlColumn:
        """Return how a column is read, from a row of the answer to `columns`."""

    @abstractmethod
    def times_of(self, column: SqlColumn) -> Times | None:
        """Return what a column of times holds; None if it is another one."""

    @abstractmethod
    def moment(self, at: datetime, times: Times) -> str:
        """Return a moment as a literal that a column of such times is compared with."""

    @abstractmethod
    def day_of(self, column: SqlColumn, times: Times, *, with_hour: bool) -> str:
        """Return the text of a row's day, as `YYYY-MM-DD`, or of its hour, as `YYYY-MM-DDTHHZ`; of instants in UTC."""

    @abstractmethod
    def slice_of(self, column: SqlColumn, *, number: int, count: int) -> str:
        """Return the condition of one of so many slices; each row is in exactly one."""

    @abstractmethod
    def digest(self, columns: Sequence[SqlColumn]) -> str:
        """Return the aggregate over all values of these columns."""

    def state(self, table: SqlTable) -> str:
        """Return the expression of a state, NULL if it is not known: in the same one, the table holds the same rows."""
        return "NULL"

    def located(self, table: SqlTable) -> str:
        """Return the quoted table."""
        names = (table.schema, table.name) if table.schema else (table.name,)
        return ".".join(map(self.quoted, names))

    def in_period(self, table: SqlTable, columns: Sequence[SqlColumn], period: Period) -> str:
        """Return the condition of a period's rows: a range, which an index serves."""
        if period is WHOLE_TABLE:
            return "1 = 1"
        column = column_named(table.time_column, columns)
        times = self.times_for(column, period.grain)
        begin, end = (self.moment(at, times) for at in _bounds_of(period, times, table.timezone))
        return f"{self.quoted(column.name)} >= {begin} AND {self.quoted(column.name)} < {end}"

    def times_for(self, column: SqlColumn, grain: Grain) -> Times:
        """Return what the column of times holds."""
        times = self.times_of(column)
        if times is None:
            raise ConfigurationError(
                f"time_column={column.name!r} is of type {column.type}: name the column of a date or a time."
            )
        if times is Times.DATES and grain is Grain.HOUR:
            raise ConfigurationError(
                f"time_column={column.name!r} is of type {column.type}, which has no hours: name a column of times, or "
                "partition the table by day."
            )
        return times

    def rows_of_period(
        self, table: SqlTable, columns: Sequence[SqlColumn], period: Period, *, part: tuple[int, int] = (0, 1)
    ) -> str:
        """Return the statement that reads a period's rows, or one slice of them.

        Each column is sent under `own_prefix` and its number.
        """
        prefix = own_prefix(columns)
        sent = ", ".join(f"{column.written} AS {prefix}{number}" for number, column in enumerate(columns))
        condition = self.in_period(table, columns, period)
        number, count = part
        if count > 1 and table.key_column:
            key = column_named(table.key_column, columns)
            condition += f" AND {self.slice_of(key, number=number, count=count)}"
        return f"SELECT {sent} FROM {self.located(table)} WHERE {condition}"

    def version_of_period(self, table: SqlTable, columns: Sequence[SqlColumn], period: Period) -> str:
        """Return the statement for a period's rows, the sum of their keys, what changes with them, and the state."""
        key = column_named(table.key_column, columns) if table.key_column else None
        keys = f"SUM({self.quoted(key.name)})" if key and key.is_integer else "0"
        condition = self.in_period(table, columns, period)
        # An aggregate of the user's may go by the clock.
        changes = (
            f"({table.fingerprint}), NULL" if table.fingerprint else f"{self.digest(columns)}, {self.state(table)}"
        )
        return f"SELECT COUNT(*), {keys}, {changes} FROM {self.located(table)} WHERE {condition}"

    def days(self, table: SqlTable, columns: Sequence[SqlColumn], grain: Grain) -> str:
        """Return the statement for all days that have rows, or hours if periods are hours; see `day_of`."""
        column = column_named(table.time_column, columns)
        day = self.day_of(column, self.times_for(column, grain), with_hour=grain is Grain.HOUR)
        where = f"{self.quoted(column.name)} IS NOT NULL"
        return f"SELECT DISTINCT {day} FROM {self.located(table)} WHERE {where}"


def column_named(name: str, columns: Iterable[SqlColumn]) -> SqlColumn:
    """Return the column of a name."""
    return next(column for column in columns if column.name == name)


def own_prefix(columns: Sequence[SqlColumn]) -> str:
    """Return how names begin that a load gives to values: ClickHouse quotes not all names well.

    No column's name begins so: ClickHouse would take the one for the other.
    """
    prefixes = (f"chs3{number}_" for number in ("", *range(len(columns))))
    return next(prefix for prefix in prefixes if not any(column.name.startswith(prefix) for column in columns))


def _bounds_of(period: Period, times: Times, timezone: str) -> tuple[datetime, datetime]:
    """Return the first moment of a period and that of the next one, as a column has them."""
    if period.grain is not Grain.HOUR:
        zone = zone_of(timezone) if times is Times.INSTANTS else None
        return period.begin.replace(tzinfo=zone), period.end.replace(tzinfo=zone)
    if times is Times.INSTANTS:
        return period.begin.replace(tzinfo=UTC), period.end.replace(tzinfo=UTC)
    begin, last, end = (
        at.replace(tzinfo=UTC).astimezone(zone_of(timezone)) for at in (period.begin, period.last, period.end)
    )
    for at in (begin, last):
        if at.utcoffset() != at.replace(fold=1 - at.fold).utcoffset():
            raise ConfigurationError(
                f"{period} is an hour that clocks in {timezone!r} show twice, and times without a zone do not say "
                "which is meant: name a time_column of instants, or partition the table by day."
            )
    return begin.replace(tzinfo=None), end.replace(tzinfo=None)


def periods_touched(span: Period, grain: Grain, times: Times, timezone: str) -> set[Period]:
    """Return the periods that rows of a day or an hour may be in; the reverse of `Dialect.in_period`."""
    ends = span.begin, span.last
    if times is Times.LOCAL and grain is Grain.HOUR:
        zone = zone_of(timezone)
        local = [at.replace(tzinfo=zone, fold=fold) for at in ends for fold in (0, 1)]
        return {Period.of(at.astimezone(UTC).replace(tzinfo=None), grain) for at in local}
    if times is Times.INSTANTS and grain is not Grain.HOUR:
        zone = zone_of(timezone)
        return {Period.of(at.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None), grain) for at in ends}
    return {Period.of(at, grain) for at in ends}


def _is_text(value: object) -> bool:
    """Return whether a value, which a template may have rendered, can be sent to a database."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        return False
    # A lone surrogate has no UTF-8.
    return not any("\ud800" <= letter <= "\udfff" for letter in value)
