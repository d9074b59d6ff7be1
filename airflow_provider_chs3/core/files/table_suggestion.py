"""Suggest a table for the files of a period."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_provider_chs3.core.files.file_set import Files
from airflow_provider_chs3.core.files.guessed_columns import FileColumn, columns_of
from airflow_provider_chs3.core.files.sample import Sample, read_sample
from airflow_provider_chs3.core.files.source import Source
from airflow_provider_chs3.core.files.text_fields import Dialect
from airflow_provider_chs3.core.model.models import Manifest, TableName
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Grain, Period
from airflow_provider_chs3.core.model.quantities import quantity
from airflow_provider_chs3.core.model.store_kind import Format, format_of_key
from airflow_provider_chs3.core.sql.column_types import ColumnType
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal
from airflow_provider_chs3.core.sql.quoting import table as quoted
from airflow_provider_chs3.core.steps.operations import Query, Steps
from airflow_provider_chs3.core.target.period_partitions import KEYS
from airflow_provider_chs3.core.target.topology import have_one_replica, nodes_of
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError

#: Texts with at most so many values, each of them ten times, are stored as numbers of a dictionary. ClickHouse's
#: documentation puts the limit at 10,000 values.
_FEW_VALUES = 10_000
_LEAST_REPEATED = 10
#: A column of fewer values at the front of the sorting key lets queries that filter by it skip most granules.
_FRONT_VALUES = 1_000
_FRONT_COLUMNS = 2


@dataclass(frozen=True, kw_only=True)
class NewTableRequest:
    """A table to create."""

    source: Source
    table: TableName
    cluster: str | None = None
    file_format: Format | None = None
    compression: str = "auto"
    csv: Dialect = field(default_factory=Dialect)

    def __post_init__(self) -> None:
        if not self.source.has_files:
            raise ConfigurationError(
                f"A new table gets its columns from files, but {self.source.place} has no files: create {self.table} "
                "yourself, and load without create_table='if_missing'."
            )

    @classmethod
    def of(cls, loaded: Mapping[str, Any]) -> NewTableRequest:
        """Create the request from the fields of a `LoadRequest` that say what is read, and where it goes."""
        return cls(
            source=loaded["source"],
            table=loaded["target"],
            cluster=loaded["cluster"] or loaded["default_cluster"],
            file_format=loaded["format"],
            compression=loaded["compression"],
            csv=loaded["selection"].csv,
        )


@dataclass(frozen=True, slots=True)
class NewColumn:
    """A column of the suggested table."""

    name: str
    type: str
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class NewTable:
    """A suggested table."""

    table: TableName
    columns: tuple[NewColumn, ...]
    grain: Grain
    partition_column: str
    partition_reason: str
    sorting_columns: tuple[str, ...]
    cluster: str | None = None
    is_replicated: bool = False
    database_engine: str = ""

    @property
    def statements(self) -> tuple[str, ...]:
        """CREATE TABLE for every node, and for a Distributed table over them where there is a cluster."""
        if not self.cluster:
            return (self._local,)
        over_all = table_over_all(self.table)
        engine = distributed_engine(self.table, self.cluster)
        return self._local, f"CREATE TABLE {quoted(over_all)} AS {quoted(self.table)}\nENGINE = {engine}"

    @property
    def _local(self) -> str:
        lines = [f"    {identifier(column.name)} {column.type}" for column in self.columns]
        commas = [","] * (len(lines) - 1) + [""]
        noted = (
            f"{line}{comma}{f'  -- {column.reason}' if column.reason else ''}"
            for line, comma, column in zip(lines, commas, self.columns, strict=True)
        )
        key, partition = ", ".join(map(identifier, self.sorting_columns)), list[str]()
        if self.grain is not Grain.ALL:
            of_time = f"{KEYS[self.grain]}({identifier(self.partition_column)})"
            partition = [f"-- {self.partition_reason}", f"PARTITION BY {of_time}"]
        return "\n".join(
            (
                f"CREATE TABLE {quoted(self.table)}",
                "(",
                *noted,
                ")",
                f"ENGINE = {self._engine}",
                *partition,
                "-- Columns with few values, then the time. Put the columns first that your queries filter by.",
                f"ORDER BY ({key})" if key else "ORDER BY tuple()",
            )
        )

    @property
    def _engine(self) -> str:
        if not self.is_replicated:
            return "MergeTree"
        if self.database_engine == "Replicated":
            # It refuses a path, and gives all of its servers one UUID.
            return "ReplicatedMergeTree"
        # The default path has a UUID, which differs if the statement is not run ON CLUSTER.
        return "ReplicatedMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')"

    @property
    def as_text(self) -> str:
        """The statements as a script."""
        local, *others = self.statements
        if not others:
            return f"{local};"
        return f"-- On every node of the cluster:\n{local};\n\n-- The rows of all nodes:\n{others[0]};"

    def as_json(self) -> dict[str, Any]:
        """Return JSON-safe values."""
        return {
            "statements": list(self.statements),
            "columns": [asdict(column) for column in self.columns],
            "partition_column": self.partition_column,
            "sorting_columns": list(self.sorting_columns),
        }


def table_over_all(table: TableName) -> TableName:
    """Return the name of the Distributed table over the tables of all nodes."""
    return TableName(table.database, f"{table.table}_all")


def distributed_engine(table: TableName, cluster: str) -> str:
    """Return the engine of the Distributed table over the tables of all nodes."""
    return f"Distributed({', '.join(map(literal, (cluster, table.database, table.table)))}, rand())"


def suggest_table(request: NewTableRequest, period: Period) -> Steps[NewTable]:
    """Suggest a table for a period's files: columns from every file, contents from a sample of rows."""
    source, manifest = yield from request.source.list_period(period)
    if not manifest.objects:
        raise SourceError(f"No objects for {period} under {source.place}/{source.pattern}: check key and period.")
    return (yield from suggest_table_of(request, period, source, manifest))


def suggest_table_of(request: NewTableRequest, period: Period, source: Source, manifest: Manifest) -> Steps[NewTable]:
    """Suggest a table for files that are listed already; see `suggest_table`."""
    file_format = request.file_format or format_of_key(manifest.objects[0].path)
    if request.csv.changes and not file_format.is_csv:
        raise ConfigurationError(f"The dialect of CSV has no effect on {file_format.name}: leave it out.")
    files = Files(
        source=source,
        manifest=manifest,
        format=file_format,
        compression=request.compression,
        cluster=None,
        settings=request.csv.settings,
        # Columns are made for this zone: a sample must not depend on the zone of the server that reads it.
        neutral={"session_timezone": "UTC"},
    )
    columns = yield from columns_of(files)
    sample = yield from read_sample(files, columns, period)
    nodes = (yield from nodes_of(request.cluster)) if request.cluster else ()
    is_replicated = bool(nodes) and not have_one_replica(nodes)
    time_column = _period_column(columns, sample, period)
    new_columns = tuple(new_column(column, sample, is_key=column.name == time_column) for column in columns)
    return NewTable(
        table=request.table,
        columns=new_columns,
        grain=period.grain,
        partition_column=time_column,
        partition_reason=f"{sample.period_rows.get(time_column, 0):,} of {sample.rows:,} rows read are of {period}.",
        sorting_columns=(*_front(new_columns, sample), *([time_column] if time_column else [])),
        cluster=request.cluster,
        is_replicated=is_replicated,
        database_engine=(yield from _engine_of(request.table.database)) if is_replicated else "",
    )


def _engine_of(database: str) -> Steps[str]:
    sql = Sql(f"SELECT engine FROM system.databases WHERE name = {literal(database)}")
    rows = yield from Query(name=f"Look up database {database}", sql=sql)
    return rows[0][0] if rows else ""


def _period_column(columns: Sequence[FileColumn], sample: Sample, period: Period) -> str:
    best = max(sample.period_rows, key=lambda name: sample.period_rows[name], default="")
    if period is WHOLE_TABLE:
        return best if best and sample.period_rows[best] == sample.rows else ""
    if not best or not sample.period_rows[best]:
        times = ", ".join(map(repr, sample.period_rows)) or "none"
        raise SourceError(
            f"No column has dates in {period}, and the table needs one to be partitioned by period: of {len(columns)} "
            f"columns, those with dates or times are: {times}."
        )
    return best


def new_column(column: FileColumn, sample: Sample, *, is_key: bool = False) -> NewColumn:
    """Suggest a column of a table."""
    widest, reasons = _with_zone(column.type)
    if len(column.types) > 1:
        reasons.append(f"files have {' and '.join(sorted(column.types))}")
    if texts := sample.text_rows.get(column.name):
        widest = "String"
        reasons.append(f"a number would not keep the zeros or digits of {quantity(texts, 'row')}")
    distinct = sample.distinct_values.get(column.name)
    if distinct is not None and distinct <= _FEW_VALUES and distinct * _LEAST_REPEATED <= sample.rows:
        reasons.append(f"{quantity(distinct, 'value')} in {sample.rows:,} rows")
        wrapped = "LowCardinality({})"
    else:
        wrapped = "{}"
    nulls = sample.null_rows[column.name]
    has_none = ColumnType(widest).name in ("Array", "Map", "Tuple", "Nullable")
    if (nulls or column.lacking_files) and not is_key and not has_none:
        lacking = f"missing in {column.lacking_files:,} of the files" if column.lacking_files else ""
        reasons.append(lacking or f"NULL in {nulls:,} rows")
        widest = f"Nullable({widest})"
    return NewColumn(column.name, wrapped.format(widest), "; ".join(reasons))


def _with_zone(of: str) -> tuple[str, list[str]]:
    """Return a type whose values are the same on every server."""
    parsed = ColumnType(of)
    if parsed.name == "DateTime64" and not parsed.time_zone:
        return f"DateTime64({parsed.scale}, 'UTC')", ["the files name no zone"]
    if parsed.name == "DateTime" and not parsed.time_zone:
        return "DateTime('UTC')", ["the files name no zone"]
    return of, []


def _front(columns: Sequence[NewColumn], sample: Sample) -> list[str]:
    few = {
        column.name: sample.distinct_values[column.name]
        for column in columns
        if column.type == "LowCardinality(String)" and 1 < sample.distinct_values[column.name] <= _FRONT_VALUES
    }
    return sorted(few, key=lambda name: few[name])[:_FRONT_COLUMNS]
