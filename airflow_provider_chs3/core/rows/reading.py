"""Decide which columns are loaded from the columns of a table in a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_chs3.core.cluster.table_facts import Column
from airflow_provider_chs3.core.conversion.column_types import COMPOUND, ColumnType
from airflow_provider_chs3.core.files.data_volume import row_width_bytes
from airflow_provider_chs3.core.files.file_groups import Reading
from airflow_provider_chs3.core.files.loaded_columns import FileGroup, LoadedColumn, Selection, plain_columns
from airflow_provider_chs3.core.files.row_wise import check_row_wise
from airflow_provider_chs3.core.rows.dialect import SqlColumn
from airflow_provider_chs3.core.rows.sql_source import SqlSource, rows_of
from airflow_provider_chs3.core.source.file_set import Files
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.values.error_codes import UNKNOWN_FUNCTION
from airflow_provider_chs3.core.workflow.operations import Query, Steps
from airflow_provider_chs3.exceptions import ClickHouseServerError, ConfigurationError, PreflightError, SourceError

#: What takes a text of any form.
_TEXTS = ("String", "FixedString")


def read_rows(files: Files, selection: Selection, columns: Sequence[Column]) -> Steps[Reading]:
    """Find what each target column is loaded from.

    Args:
        files: The month of a table.
        selection: The columns and expressions of the user.
        columns: The target's columns.

    Raises:
        SourceError: If the table lacks a column.
        ConfigurationError: If the selection does not fit the target or the table.
    """
    source = files.source
    assert isinstance(source, SqlSource)  # nothing else has rows
    yield from _check_readable(files, source)
    wanted = selection.wanted(columns)
    types = {each.name: each.clickhouse_type for each in source.columns}
    if selection.select:
        loaded = yield from check_row_wise(selection.select, wanted, types)
    else:
        loaded = plain_columns(wanted, types, {source.table.shown: types})
        _check_containers(loaded, {each.name: each for each in source.columns}, source.table.shown)
    lossy = selection.lossy_columns
    group = FileGroup(types, tuple(replace(each, is_lossy=each.column.name in lossy) for each in loaded))
    rows = rows_of(files.manifest)
    return Reading((group,), rows=rows, uncompressed_bytes=rows * row_width_bytes(types), names=tuple(types))


def _check_readable(files: Files, source: SqlSource) -> Steps[None]:
    """Check that the servers get in, and read each column as the type that its values are sent for."""
    function = files.read(source.glob_of(files.manifest.objects[0].path), on_cluster=False)
    sql = Sql(f"DESCRIBE TABLE {function.text}", function.secrets)
    try:
        rows = yield from Query(name=f"Read the columns of {source.place}", sql=sql, settings=files.look_settings)
    except ClickHouseServerError as error:
        if error.code == UNKNOWN_FUNCTION and "`query`" in error.message:
            finding = (
                f"The servers are too old to read {source.place}: 26.9 passes queries to a database, 25.8 does not."
            )
            raise PreflightError([finding]) from error
        raise
    found = {name: column_type for name, column_type, *_ in rows}
    for each in source.columns:
        if found.get(each.name) != each.clickhouse_type:
            raise SourceError(
                f"ClickHouse reads column {each.name!r} of {source.place} ({each.type}) as {found.get(each.name)} and "
                f"not as {each.clickhouse_type}: leave it out with a view."
            )


def _check_containers(loaded: Sequence[LoadedColumn], columns: dict[str, SqlColumn], shown: str) -> None:
    """Check that nothing is read as a container: databases write arrays and rows in ways of their own."""
    for each in loaded:
        bare, of = ColumnType(each.column.type).bare, columns[each.column.name]
        if bare.name in COMPOUND or (of.is_container and bare.name not in _TEXTS):
            raise ConfigurationError(
                f"Column {each.column.name!r} is {each.column.type}, but {of.type} in {shown}: only a String takes its "
                "text. Give an expression with select={…}, or leave the column out with columns=[…]."
            )
