"""Explain a failed insert by repeating it: find the place where parsing or converting fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from airflow_provider_chs3.core.files.describe_files import check_beginning
from airflow_provider_chs3.core.files.file_set import Files, Reading
from airflow_provider_chs3.core.files.loaded_columns import DOES_NOT_FIT, VIRTUAL_COLUMNS, FileGroup, LoadedColumn
from airflow_provider_chs3.core.files.parse_errors import file_of, reason_of, unreadable
from airflow_provider_chs3.core.files.source import Batch
from airflow_provider_chs3.core.model.models import SettingValues
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal
from airflow_provider_chs3.core.steps.operations import Log, Steps
from airflow_provider_chs3.exceptions import ClickHouseServerError

#: Read in order, so that row numbers count from the start of the file.
IN_ORDER: SettingValues = {
    "max_threads": 1,
    "max_parsing_threads": 1,
    "input_format_parquet_preserve_order": 1,
}
SHOWN_CHARACTERS = 200
#: "cannot be safely converted" names an intermediate type, and gives no reason.
_WITHOUT_REASON = 70


def explain_parsing(files: Files, reading: Reading, error: ClickHouseServerError) -> Steps[str | None]:
    """Describe where a file could not be parsed, by reading it alone and in order; None if it can, or is unknown."""
    path = files.source.path_in_error(file_of(error))
    group = next((group for group, batch in reading.batches(files) if path in batch.paths), None)
    if group is None:
        return None
    columns = ", ".join(map(identifier, group.types))
    sql = files.select_one(path, "count()", structure=group.structure, after=f" AND NOT ignore({columns})")
    again = yield from _error_of(files, f"Look where {path} cannot be read", sql)
    if again:
        yield from check_beginning(files, path)
    return unreadable(path, files.format, again) if again else None


def explain_conversion(files: Files, reading: Reading) -> Steps[str | None]:
    """Return where a value cannot be converted, by halving objects, rows and columns; None if nothing fails."""
    yield from Log(name="Looking for the value that does not fit: the period is read again, in ever fewer rows.")
    for group, batch in reading.batches(files):
        hunt = _Hunt(files, group)
        if (yield from hunt.convert_files(batch, batch.paths)):
            return (yield from hunt.find(batch))
    return None


def explain_sample(files: Files, reading: Reading, *, rows: int) -> Steps[str | None]:
    """Describe the failure that the first rows of files would cause; None if nothing fails."""
    for group, batch in reading.batches(files):
        hunt = _Hunt(files, group)
        for path in batch.paths:
            if error := (yield from hunt.convert_rows(path, rows, group.loaded)):
                sentence = yield from explain_parsing(files, reading, error)
                return sentence or (yield from hunt.find_in(path, rows)) or f"{path}: {reason_of(error)}."
    return None


def _error_of(
    files: Files, name: str, sql: Sql, settings: SettingValues = IN_ORDER
) -> Steps[ClickHouseServerError | None]:
    """Return the error of a query, if files caused it."""
    answer = yield from files.try_look(name, sql, settings)
    return answer if isinstance(answer, ClickHouseServerError) else None


def _find_fewest(most: int, fails: Callable[[int], Steps[ClickHouseServerError | None]]) -> Steps[int]:
    """Return the smallest number that fails, by bisection; the largest one does."""
    fewest = 1
    while fewest < most:
        middle = (fewest + most) // 2
        if (yield from fails(middle)):
            most = middle
        else:
            fewest = middle + 1
    return fewest


@dataclass(frozen=True)
class _Hunt:
    """A bisection for the value that fails, in a group of files."""

    files: Files
    group: FileGroup

    def convert_files(self, batch: Batch, paths: Sequence[str]) -> Steps[ClickHouseServerError | None]:
        """Return the error of converting all values of files."""
        function = self.files.read(batch.glob, structure=self.group.structure)
        condition = f" WHERE {self.files.source.condition_of(*paths)}"
        sql = function.between(f"SELECT {self._render_conversions(self.group.loaded)} FROM ", condition)
        return (yield from _error_of(self.files, f"Look for what does not fit in {len(paths)} files", sql, {}))

    def find(self, batch: Batch) -> Steps[str | None]:
        """Return a sentence about the first value that fails; None if it does not fail alone."""
        number = yield from _find_fewest(len(batch.paths), lambda count: self.convert_files(batch, batch.paths[:count]))
        path = batch.paths[number - 1]
        sql = self._select_rows(path).between("SELECT count() FROM (", ")")
        (rows,) = (yield from self.files.look(f"Count the rows of {path}", sql))[0]
        return (yield from self.find_in(path, rows))

    def find_in(self, path: str, rows: int) -> Steps[str | None]:
        """Return a sentence about the first value of a file's first rows that fails; None if it does not fail alone."""
        loaded = self.group.loaded
        # Some conversions fail whatever the rows hold, even without rows.
        row = (yield from _find_fewest(rows, lambda count: self.convert_rows(path, count, loaded))) if rows else 0
        number = yield from _find_fewest(len(loaded), lambda count: self.convert_rows(path, row, loaded[:count]))
        loaded_column = loaded[number - 1]
        error = yield from self.convert_rows(path, row, [loaded_column])
        if error is None:
            return None
        value = (yield from self._read_value(path, row, loaded_column)) if row else None
        where = f"row {row:,} of {path}" if row else path
        return _conversion_sentence(loaded_column, where, value, error, fixed=self.files.source.kind.contents.holder)

    def _select_rows(self, path: str) -> Sql:
        used = [
            name for name in VIRTUAL_COLUMNS if any(name in loaded_column.source for loaded_column in self.group.loaded)
        ]
        columns = ", ".join(map(identifier, dict.fromkeys([*used, *self.group.types])))
        return self.files.select_one(path, columns, structure=self.group.structure)

    def convert_rows(
        self, path: str, rows: int, columns: Sequence[LoadedColumn]
    ) -> Steps[ClickHouseServerError | None]:
        """Return the error of converting columns in the first rows of a file."""
        sql = self._select_rows(path).between(f"SELECT {self._render_conversions(columns)} FROM (", f" LIMIT {rows})")
        return (yield from _error_of(self.files, f"Look at {rows} rows of {path}", sql))

    def _render_conversions(self, columns: Sequence[LoadedColumn]) -> str:
        """Render an expression that fails if any conversion does; AND would skip unused results."""
        values = [column.cast.value for column in columns]
        held = [holds for column in columns if (holds := column.holds)]
        thrown = [f"throwIf(NOT ifNull({holds}, 0), {literal(DOES_NOT_FIT)})" for holds in held]
        return f"any(ignore({', '.join([*values, *thrown])}))"

    def _read_value(self, path: str, row: int, loaded_column: LoadedColumn) -> Steps[str | None]:
        """Return the value that is converted; None if a user's expression fails before."""
        of_source = f"SELECT tuple(toString({loaded_column.source})) FROM ("
        sql = self._select_rows(path).between(of_source, f" LIMIT {row - 1}, 1)")
        rows = yield from self.files.try_look(f"Look at row {row} of {path}", sql, IN_ORDER)
        if isinstance(rows, ClickHouseServerError):
            return None
        value = rows[0][0][0]
        return "NULL" if value is None else str(value)


def _conversion_sentence(
    loaded_column: LoadedColumn, where: str, value: str | None, error: ClickHouseServerError, *, fixed: str
) -> str:
    says_nothing = error.code == _WITHOUT_REASON or DOES_NOT_FIT in error.message
    reason = "" if says_nothing else f": {reason_of(error)}"
    name = loaded_column.column.name
    if value is None:
        return (
            f"Column {name!r} cannot be filled from {where}{reason}. Fix the {fixed}, or the expression in "
            "select={…}."
        )
    return (
        f"Column {name!r} is {loaded_column.column.type}, but {where} has {value[:SHOWN_CHARACTERS]!r} for it{reason}. "
        f"Widen the column, fix the {fixed}, or set an expression with select={{…}}."
    )
