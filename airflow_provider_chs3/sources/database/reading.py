"""A table of a database as a source: a period of it is one object, whose version changes with its rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from airflow_provider_chs3.core.files.row_source import RowSource, period_of, rows_and_keys, rows_of
from airflow_provider_chs3.core.files.source import AccessTrial, Checksum
from airflow_provider_chs3.core.model.error_codes import UNKNOWN_FUNCTION
from airflow_provider_chs3.core.model.models import Manifest, PeriodObjects, SettingValues, Unit
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Grain, Period
from airflow_provider_chs3.core.model.store_kind import StoreKind
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, literals, one_of
from airflow_provider_chs3.core.steps.operations import ListObjects, Query, Steps
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError, PreflightError, SourceError
from airflow_provider_chs3.sources.database.dialect import Dialect, SqlColumn, SqlTable, own_prefix

#: The identity of a server among all others of a cluster.
_SERVER = "toString((serverUUID(), hostName(), tcpPort()))"
_ANY_PERIOD = Period.of_month(2000, 1)


@dataclass(frozen=True, kw_only=True)
class SqlAccess:
    """The access of the ClickHouse servers to the database."""

    host: str = ""
    database: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    tls: tuple[tuple[str, str], ...] = ()
    named_collection: str | None = None


@dataclass(frozen=True, kw_only=True)
class SqlSource(RowSource):
    """A table in a database."""

    dialect: Dialect
    table: SqlTable
    columns: tuple[SqlColumn, ...]
    full_name: str
    access: SqlAccess
    shards: tuple[tuple[str, ...], ...] = ()

    @property
    def kind(self) -> StoreKind:  # type: ignore[override]
        """The kind of database."""
        return self.dialect.kind

    @property
    def place(self) -> str:
        """Database, schema and table."""
        return self.full_name

    @property
    def pattern(self) -> str:
        """The column that decides the period, for messages."""
        return self.table.time_column

    @property
    def named_collection(self) -> str | None:
        """The named collection through which the servers read; None if they use other credentials."""
        return self.access.named_collection

    @property
    def server_url(self) -> str:
        """Host and port at which the servers look for the database; empty if a named collection says it."""
        return self.access.host

    def access_trial(self, period: Period | None) -> AccessTrial:
        """Return a try to get at a period's rows, or at the table's columns."""
        return RowsTrial(self, period)

    @property
    def known_columns(self) -> tuple[SqlColumn, ...]:
        """The table's columns."""
        return self.columns

    @property
    def why_one_by_one(self) -> str:
        """The reason to load periods one by one: a statement to the database reads one."""
        return f"{self.place} has rows, which are read period by period"

    @property
    def server_identity(self) -> str:
        """SQL of what distinguishes a server from all others: each reads a slice of its own."""
        return _SERVER

    def read_by(self, shards: Sequence[Sequence[str]]) -> Self:
        """Return the source as the servers of these shards read it together."""
        return replace(self, shards=tuple(map(tuple, shards)))

    def list_periods(self, periods: Collection[Period]) -> Steps[tuple[Self, dict[Period, Manifest]]]:
        """Ask the database for the versions of periods; a period without rows has no object."""
        listed = {}
        for period in periods:
            name = f"Look at {self.place}, {period}"
            pages = yield from ListObjects(name=name, bucket=self.place, prefix=str(period))
            listed[period] = Manifest.of(unit for page in pages for unit in page.objects())
        return self, listed

    def summarize_periods(self, periods: Collection[Period] | Grain) -> Steps[dict[Period, PeriodObjects]]:
        """Ask the database for the versions of periods for a comparison alone; see `Source.summarize_periods`."""
        if periods is Grain.ALL:
            periods = [WHOLE_TABLE]
        if isinstance(periods, Grain):
            pages = yield from ListObjects(name=f"Look for periods in {self.place}", bucket=self.place, prefix=periods)
            manifests = {period_of(unit.path): Manifest((unit,)) for page in pages for unit in page.objects()}
        else:
            _, manifests = yield from self.list_periods(periods)
        return {
            period: PeriodObjects.of(manifest, rows=self.known_rows(manifest)) for period, manifest in manifests.items()
        }

    def describe(self, period: Period) -> Sql:
        """Return the statement for the columns that a server gets of a period."""
        return self.table_function(str(period), file_format="").between("DESCRIBE TABLE ")

    def check_access(self, manifest: Manifest, *, settings: SettingValues) -> Steps[None]:
        """Check that the servers get in, and read each column as the type that its values are sent for."""
        sql = self.describe(period_of(manifest.objects[0].path))
        try:
            rows = yield from Query(name=f"Read the columns of {self.place}", sql=sql, settings=settings)
        except ClickHouseServerError as error:
            raise self.explained(error) from None
        types = {name: column_type for name, column_type, *_ in rows}
        for column in self.columns:
            if types.get(column.name) != column.clickhouse_type:
                raise SourceError(
                    f"ClickHouse reads column {column.name!r} of {self.place} ({column.type}) as "
                    f"{types.get(column.name)} and not as {column.clickhouse_type}: leave it out with a view."
                )

    def explained(self, error: ClickHouseServerError) -> Chs3Error:
        """Return an error of a server in words of rows: one that is too old takes the query for a function."""
        if error.code != UNKNOWN_FUNCTION or "`query`" not in error.message:
            return error
        return PreflightError(
            f"The servers are too old to read {self.place}: 26.9 passes queries to a database, 25.8 does not. "
            "Upgrade them, or export the period as files and load those."
        )

    def known_rows(self, manifest: Manifest) -> int:
        """Return the rows of all periods of a manifest."""
        return rows_of(manifest)

    def checksum_of(self, manifest: Manifest) -> Checksum | None:
        """Return what the keys of all rows add up to, if the table has a key of whole numbers."""
        if not any(column.is_integer and column.name == self.table.key_column for column in self.columns):
            return None
        total = sum(rows_and_keys(unit.version)[1] for unit in manifest.objects)
        return Checksum(column=str(self.table.key_column), total=total)

    def table_function(
        self,
        glob: str,
        *,
        file_format: str,
        cluster: str | None = None,
        structure: str = "auto",
        compression: str = "auto",
    ) -> Sql:
        """Return a sub-query of the period's rows: all of them on this server, or on each server its slice.

        The glob is the period. The database knows the rest: format, structure and compression are not needed.
        """
        shards = self.shards if cluster else ()
        readers = shards if self.table.key_column else shards[:1]
        period, count = Period.parse(glob), max(1, len(readers))
        parts = [self._rows(period, (number, count), readers[number] if readers else ()) for number in range(count)]
        return Sql(f"({' UNION ALL '.join(parts)})", (self.access.password,) if self.access.password else ())

    def _rows(self, period: Period, part: tuple[int, int], servers: Sequence[str]) -> str:
        query, prefix = (
            self.dialect.rows_of_period(self.table, self.columns, period, part=part),
            own_prefix(self.columns),
        )
        # A column that cannot be NULL is sent as such by some databases only.
        is_other = f"{prefix}is_other"
        values = [
            f"toNullable({column.read.format(f'{prefix}{number}', is_other=is_other)}) AS {identifier(column.name)}"
            for number, column in enumerate(self.columns)
        ]
        path = f"{literal(f'{self.place}/{period}')} AS _path"
        # A constant condition: the other servers do not ask for these rows at all.
        where = f" WHERE {one_of(_SERVER, servers)}" if servers else ""
        return f"SELECT {', '.join([*values, path])} FROM {self._function(query)}{where}"

    def _function(self, query: str) -> str:
        given, name = self.access, self.kind.function
        if given.named_collection:
            return f"{name}({identifier(given.named_collection)}, query = {literal(query)})"
        where = f"{literals([given.host, given.database])}, query({literal(query)})"
        tls = "".join(f", {argument} = {literal(value)}" for argument, value in given.tls)
        return f"{name}({where}, {literals([given.user, given.password])}{tls})"

    def select(self, values: Sequence[str], *, function: Sql, condition: str, cluster: str | None) -> Sql:
        """Return the SELECT of an insert; see `Source.select`.

        All of it is in the view: from a view, the servers' own INSERTs leave out expressions and conditions of the
        statement around it.
        """
        if not cluster:
            return super().select(values, function=function, condition=condition, cluster=None)
        names = [f"{own_prefix(self.columns)}value_{number}" for number in range(len(values))]
        made = ", ".join(f"{value} AS {name}" for value, name in zip(values, names, strict=True))
        view = f"SELECT {', '.join(names)} FROM cluster({literal(cluster)}, view(SELECT {made} FROM "
        return function.between(view, f" WHERE {condition}))")


@dataclass(frozen=True)
class RowsTrial(AccessTrial):
    """A try to ask the database for a period's version, and for the table's columns."""

    source: SqlSource
    period: Period | None

    @property
    def where(self) -> str:
        """The table, for messages."""
        return self.source.place

    def list_from_worker(self) -> Steps[Sequence[Unit]] | None:
        """Ask the database for the period's version; None without a period, as the worker knows the columns already."""
        return None if self.period is None else self._version(self.period)

    def _version(self, period: Period) -> Steps[Sequence[Unit]]:
        _, manifest = yield from self.source.list_period(period)
        return manifest.objects

    def read_on_server(self, listed: Sequence[Unit]) -> Sql | None:
        """Return the statement that reads the columns; None if the period has no rows."""
        return None if self.period and not listed else self.source.describe(self.period or _ANY_PERIOD)
