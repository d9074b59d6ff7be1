"""Explain an insert that failed on a value: find object, row and column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_chs3.core.files.describe_files import check_beginning, has_mark, mark_message
from airflow_provider_chs3.core.files.file_set import Files, Reading
from airflow_provider_chs3.core.files.loaded_columns import FileGroup, LoadedColumn, alike_hint, extract, inner_keys_of
from airflow_provider_chs3.core.files.row_wise_select import are_texts
from airflow_provider_chs3.core.files.source import Batch
from airflow_provider_chs3.core.load.failed_insert import IN_ORDER, SHOWN_CHARACTERS
from airflow_provider_chs3.core.model.models import SettingValues
from airflow_provider_chs3.core.model.quantities import quantity
from airflow_provider_chs3.core.sql.column_types import ColumnType
from airflow_provider_chs3.core.sql.quoting import identifier, literal, literals
from airflow_provider_chs3.core.steps.operations import Steps

#: How a NULL struct is shown, and the advice about it.
_NULL = "NULL"
_OF_NULLS = (
    " Servers read a NULL struct of Parquet as a struct of NULLs: make the column a Tuple that is not "
    "Nullable, or say in select={…} which of the two is meant."
)

#: Casting back shows overflows of dates.
_SATURATE: SettingValues = {"date_time_overflow_behavior": "saturate"}


def find_misfits(files: Files, reading: Reading) -> Steps[str | None]:
    """Return a sentence about a value that does not fit, with its place; None if all values fit."""
    for group, batch in reading.batches(files):
        asked = [(loaded_column, bad) for loaded_column in group.loaded if (bad := loaded_column.misfit)]
        if asked and (sentence := (yield from _first_misfit(files, group, batch, asked))):
            return sentence
    return None


def _first_misfit(
    files: Files, group: FileGroup, batch: Batch, asked: Sequence[tuple[LoadedColumn, str]]
) -> Steps[str | None]:
    counts = ", ".join(f"countIf({bad}), minIf({batch.path}, {bad})" for _, bad in asked)
    function = files.read(batch.glob, structure=group.structure)
    sql = function.between(f"SELECT {counts} FROM ", f" WHERE {files.source.rows_of(batch)}")
    row = (yield from files.look("Look for the value that does not fit", sql, _SATURATE))[0]
    for (loaded_column, bad), count, path in zip(asked, row[::2], row[1::2], strict=True):
        if count:
            lossy = replace(loaded_column, is_lossy=True).misfit
            at = yield from _find_row(files, group, path, loaded_column, bad, lossy or "0")
            if at and (inside := (yield from _find_in_object(files, group, path, at.row, loaded_column))):
                return f"{inside} ({quantity(count, 'such row')} in all)."
            if at and at.row == 1:
                yield from check_beginning(files, path)
            if at and at.has_mark and not files.format.names_columns:
                return mark_message(f"Row {at.row:,} of {path}")
            hint = (yield from _find_hint(files, path, at.row, loaded_column)) if at and at.is_null else ""
            # A container missing in JSON or CSV is read as a value, not NULL, and does not become the default.
            may_default = not hint and loaded_column.column.name not in group.defaults
            if at and loaded_column.hides_struct and _NULL in at.shown:
                hint = _OF_NULLS
            fixed = files.source.kind.contents.holder
            ways = f"Widen the column, fix the {fixed}, or set an expression with select={{…}}"
            if loaded_column.written:
                texts = " (fields are text there)" if are_texts(group.types) else ""
                ways = f"Change its expression in select={{…}}{texts}, widen the column, or fix the {fixed}"
            return _sentence(loaded_column, path, count, at, hint=hint, may_default=may_default, ways=ways)
    return None


def _find_in_object(files: Files, group: FileGroup, path: str, row: int, loaded_column: LoadedColumn) -> Steps[str]:
    """Return a sentence if a line of JSON has the column's key inside an object that is read as a whole."""
    names = inner_keys_of(loaded_column, group.types) if files.format.name == "JSONEachRow" else []
    for name, keys in names:
        if (yield from _read_line(files, path, row, f"JSONHas(line, {literals(keys)})")):
            return _inner_sentence(loaded_column, f"row {row:,} of {path}", name, keys)
    return ""


def _inner_sentence(loaded_column: LoadedColumn, where: str, name: str, keys: tuple[str, ...]) -> str:
    ways = f"select={{…, {loaded_column.column.name!r}: {extract(loaded_column, keys[0], keys[1:])!r}}}"
    return (
        f"Column {loaded_column.column.name!r}: {where} has {name!r} inside the object {keys[0]!r}, which this load "
        f"reads as a whole: read it from there, as in {ways}"
    )


def _find_hint(files: Files, path: str, row: int, loaded_column: LoadedColumn) -> Steps[str]:
    """Return a hint if a line of JSON has a key similar to the column's name."""
    if files.format.name != "JSONEachRow":
        return ""
    keys = yield from _read_line(files, path, row, "JSONExtractKeys(line)")
    return alike_hint(loaded_column.column.name, map(str, keys or ()))


def _read_line(files: Files, path: str, row: int, expression: str) -> Steps[Any]:
    """Evaluate an expression over a `line` of JSON; None if the line is missing."""
    after = f" LIMIT {row - 1}, 1"
    sql = files.select_one(path, expression, structure="line String", file_format="JSONAsString", after=after)
    rows = yield from files.look(f"Look at row {row} of {path}", sql, IN_ORDER)
    return rows[0][0] if rows else None


@dataclass(frozen=True, slots=True)
class _Misfit:
    """A row that does not fit, with the column's value under an empty name, and those of fields in its expression."""

    row: int
    values: dict[str, str | bytes | None]
    is_unparsed: bool
    may_be_lossy: bool
    shows_value: bool

    @property
    def is_null(self) -> bool:
        """Return whether the column has no value."""
        return self.values[""] is None and not self.is_unparsed

    @property
    def has_mark(self) -> bool:
        """Return whether a value begins with a byte order mark."""
        return any(map(has_mark, self.values.values()))

    @property
    def shown(self) -> str:
        """The value, or the fields of its expression."""
        if self.is_unparsed:
            return ", ".join(f"{name}={_shorten(value)}" for name, value in self.values.items() if name)
        return _shorten(self.values[""]) if self.shows_value else str(self.values[""])


def _shorten(value: str | bytes | None) -> str:
    return "NULL" if value is None else repr(value[:SHOWN_CHARACTERS])


def _find_row(
    files: Files, group: FileGroup, path: str, loaded_column: LoadedColumn, bad: str, bad_if_lossy: str
) -> Steps[_Misfit | None]:
    name, looked_at = loaded_column.column.name, loaded_column.looked_at
    # The default of a missing container does not count.
    if default := group.defaults.get(name):
        looked_at = f"nullIf(toNullable(toString({looked_at})), toString({default}))"
    if loaded_column.null:
        looked_at = f"nullIf({looked_at}, {loaded_column.null})"
    if not loaded_column.written and ColumnType(group.types.get(name, "")).bare.name == "DateTime64":
        # The column's zone would shift an hour that clocks skip.
        looked_at = identifier(name)
    names = [field for field in group.types if loaded_column.written and loaded_column.uses(field)]
    shown, is_certain = _render_value(loaded_column, looked_at)
    fields = (f"CAST(if(isNull({of}), NULL, toString({of})), 'Nullable(String)')" for of in map(identifier, names))
    value = ", ".join((shown, *fields))
    # Without WHERE, because filtered rows would not be counted.
    values_of_rows = (
        "rowNumberInAllBlocks() + 1 AS number, "
        f"tuple([{value}], {loaded_column.is_unparsed}, NOT ifNull({bad_if_lossy}, 1), {is_certain}) AS value, "
        f"{bad} AS bad"
    )
    sql = files.select_one(path, values_of_rows, structure=group.structure).between(
        "SELECT minIf(number, bad), argMinIf(value, number, bad) FROM (", ")"
    )
    rows = yield from files.look(f"Look for its row in {path}", sql, {**IN_ORDER, **_SATURATE})
    if not rows or not rows[0][0]:
        return None
    number, (values, is_unparsed, fits, shows_value) = rows[0]
    by_name = dict(zip(("", *names), values, strict=True))
    return _Misfit(int(number), by_name, bool(is_unparsed), bool(fits), shows_value=bool(shows_value))


def _render_value(loaded_column: LoadedColumn, looked_at: str) -> tuple[str, str]:
    """Render a value for a message, and the condition that it is the file's."""
    text = f"CAST(if(isNull({looked_at}), NULL, toString({looked_at})), 'Nullable(String)')"
    conditions = [
        f"ifNull({condition}, 1)"
        for condition in (loaded_column.doubt and loaded_column.kept, loaded_column.certain)
        if condition
    ]
    if not conditions:
        return text, "1"
    is_certain = " AND ".join(conditions)
    if loaded_column.doubt:
        other = literal(loaded_column.doubt)
    elif ColumnType(loaded_column.source_type).bare.name == "DateTime64":
        # The calendar ends before such a time, and its text would show another one.
        other = f"concat(toString(toDecimal128({looked_at}, 9)), ' seconds after 1970')"
    else:
        other = literal("a time that ClickHouse cannot show")
    return f"if({is_certain}, {text}, CAST({other}, 'Nullable(String)'))", is_certain


def _sentence(
    loaded_column: LoadedColumn, path: str, count: int, at: _Misfit | None, *, hint: str, may_default: bool, ways: str
) -> str:
    is_null = at is not None and at.is_null
    # If the source is a table, another shard may have the row.
    shown = f"{'NULL, or missing,' if is_null else at.shown} for it" if at else "values that do not fit it"
    where = f"row {at.row:,} of {path}" if at else path
    name = loaded_column.column.name
    if is_null:
        ways += "; casts={'null_as_default': True} takes the column's default." if may_default else "."
    elif at and at.may_be_lossy:
        ways += f"; casts={{'lossy_columns': [{name!r}]}} truncates or rounds such values."
    else:
        ways += "."
    column_type, rows = loaded_column.column.type, quantity(count, "such row")
    return f"Column {name!r} is {column_type}, but {where} has {shown} ({rows} in all).{hint} {ways}"
