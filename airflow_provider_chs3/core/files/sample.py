"""Read a sample of the files: where NULL is, how many values differ, which column has the period."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_chs3.core.files.file_set import Files
from airflow_provider_chs3.core.files.guessed_columns import FileColumn
from airflow_provider_chs3.core.files.parse_errors import file_of, unreadable
from airflow_provider_chs3.core.files.source import Batch
from airflow_provider_chs3.core.model.error_codes import is_of_servers
from airflow_provider_chs3.core.model.models import Manifest
from airflow_provider_chs3.core.model.period import WHOLE_TABLE, Grain, Period
from airflow_provider_chs3.core.sql.column_types import ColumnType
from airflow_provider_chs3.core.sql.quoting import identifier, literal
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.partition_key import number_in, number_of
from airflow_provider_chs3.exceptions import ClickHouseServerError, SourceError

#: Rows of the sample, and files that it is from.
SAMPLE_ROWS = 1_000_000
_SAMPLE_FILES = 16
_WITH_HOURS = ("DateTime", "DateTime64")
_TIMES = ("Date", "Date32", *_WITH_HOURS)
#: Type of numbers → the texts that it would not keep: postal codes with their zeros, and ids of more digits.
_NOT_KEPT = {
    "Int64": "^[-+]?0[0-9]",
    "UInt64": "^[-+]?0[0-9]",
    "Float64": "^[-+]?(0[0-9]|[0-9]{16,}$)",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """The facts that a sample of the files shows."""

    rows: int
    null_rows: Mapping[str, int]
    distinct_values: Mapping[str, int]
    period_rows: Mapping[str, int]
    text_rows: Mapping[str, int] = field(default_factory=dict)


def read_sample(files: Files, columns: Sequence[FileColumn], period: Period) -> Steps[Sample]:
    """Read up to a million rows of up to sixteen files."""
    objects = files.manifest.objects
    step = max(1, len(objects) // _SAMPLE_FILES)
    batch, *_ = files.source.batches(Manifest.of(objects[::step][:_SAMPLE_FILES]))
    structure = ", ".join(f"{identifier(column.name)} {_nullable(column.type)}" for column in columns)
    names = [column.name for column in columns]
    texts = [column.name for column in columns if column.type == "String"]
    of_period = _WITH_HOURS if period.grain is Grain.HOUR else _TIMES
    times = [column.name for column in columns if ColumnType(column.type).name in of_period]
    counted = (
        [f"countIf(isNull({identifier(name)}))" for name in names],
        [f"uniq({identifier(name)})" for name in texts],
        [f"countIf({_is_of(period, identifier(name))})" for name in times],
    )
    every = ", ".join(f"[{', '.join(counts)}]" for counts in counted)
    sql = files.read(batch.glob, structure=structure, on_cluster=False).between(
        f"SELECT count(), {every} FROM (SELECT * FROM ", f" WHERE {batch.condition} LIMIT {SAMPLE_ROWS})"
    )
    try:
        ((rows, nulls, distinct, period_rows),) = yield from files.look(
            f"Read a sample of {len(batch.paths)} files", sql, on_cluster=False
        )
    except ClickHouseServerError as error:
        path = files.source.path_in_error(file_of(error))
        if files.format.is_typed or is_of_servers(error) or not path:
            raise
        raise SourceError(unreadable(path, files.format, error, is_guessed=True)) from error
    return Sample(
        rows=rows,
        null_rows=dict(zip(names, nulls, strict=True)),
        distinct_values=dict(zip(texts, distinct, strict=True)),
        period_rows=dict(zip(times, period_rows, strict=True)),
        text_rows=(yield from _count_texts(files, batch, columns)),
    )


def _count_texts(files: Files, batch: Batch, columns: Sequence[FileColumn]) -> Steps[dict[str, int]]:
    """Count the rows of the sample whose text a number would not keep, though servers guess one, as they do in CSV."""
    patterns = {column.name: _NOT_KEPT[column.type] for column in columns if column.type in _NOT_KEPT}
    if not files.format.is_csv or not patterns:
        return {}
    structure = ", ".join(f"{identifier(column.name)} Nullable(String)" for column in columns)
    counted = (f"countIf(match({identifier(name)}, {literal(pattern)}))" for name, pattern in patterns.items())
    sql = files.read(batch.glob, structure=structure, on_cluster=False).between(
        f"SELECT [{', '.join(counted)}] FROM (SELECT * FROM ", f" WHERE {batch.condition} LIMIT {SAMPLE_ROWS})"
    )
    ((rows,),) = yield from files.look("Look for texts that are no numbers in the sample", sql, on_cluster=False)
    return dict(zip(patterns, rows, strict=True))


def _is_of(period: Period, name: str) -> str:
    if period is WHOLE_TABLE:
        return f"isNotNull({name})"
    return f"{number_in(period.grain, name, None)} = {number_of(period)}"


def _nullable(of: str) -> str:
    """Return a type that also holds what a file lacks, where ClickHouse has one."""
    as_is = ("Array", "Map", "Tuple", "Nested", "JSON", "Variant", "Nullable")
    return of if ColumnType(of).name in as_is else f"Nullable({of})"
