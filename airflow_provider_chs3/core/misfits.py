"""After an insert failed over a value: which object, row and column it is, and what stands in it."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_chs3.core.columns import FileGroup, LoadedColumn, alike_hint
from airflow_provider_chs3.core.failing import IN_ORDER, SHOWN_CHARACTERS
from airflow_provider_chs3.core.file_groups import Reading
from airflow_provider_chs3.core.models import SettingValues
from airflow_provider_chs3.core.source_files import Files
from airflow_provider_chs3.core.sources import Batch
from airflow_provider_chs3.core.sql import Sql
from airflow_provider_chs3.core.steps import Steps

_LOOK_FOR_MISFITS = "Look for the value that does not fit"

#: An overflow of dates is seen by casting back.
_SATURATE: SettingValues = {"date_time_overflow_behavior": "saturate"}


def find_misfits(files: Files, reading: Reading, *, null_as_default: bool) -> Steps[str | None]:
    """Look for a value that does not fit.

    Args:
        files: The month's files.
        reading: How they are read.
        null_as_default: Whether NULL becomes the column's default.

    Returns:
        What does not fit, and where, in a sentence; None where nothing is found.
    """
    for group, batch in reading.batches(files):
        asked = [(each, bad) for each in group.loaded if (bad := each.misfit(null_as_default=null_as_default))]
        found = (yield from _first_misfit(files, group, batch, asked)) if asked else None
        if found:
            return found
    return None


def _first_misfit(
    files: Files, group: FileGroup, batch: Batch, asked: Sequence[tuple[LoadedColumn, str]]
) -> Steps[str | None]:
    counts = ", ".join(f"countIf({bad}), minIf(_path, {bad})" for _, bad in asked)
    function = files.read(batch.glob, structure=group.structure)
    sql = Sql(f"SELECT {counts} FROM {function.text} WHERE {batch.condition}", function.secrets)
    row = (yield files.look(_LOOK_FOR_MISFITS, sql, _SATURATE))[0]
    for (each, bad), count, path in zip(asked, row[::2], row[1::2], strict=True):
        if count:
            at = yield from _row_of(files, group, path, each, bad)
            hint = (yield from _hint(files, path, at[0], each)) if at and at[1] is None else ""
            # A container that JSON or CSV lacks is not NULL, but a value that stands for it: no default follows.
            may_default = not hint and each.column.name not in group.defaults
            return _sentence(each, path, count, at, hint=hint, may_default=may_default)
    return None


def _hint(files: Files, path: str, row: int, each: LoadedColumn) -> Steps[str]:
    """Whether a line of JSON has nearly the column's name."""
    if files.format.name != "JSONEachRow":
        return ""
    glob = files.source.glob_of(path)
    function = files.read(glob, structure="line String", file_format="JSONAsString", on_cluster=False)
    condition = Batch("", (path,)).condition
    text = f"SELECT JSONExtractKeys(line) FROM {function.text} WHERE {condition} LIMIT {row - 1}, 1"
    rows = yield files.look(f"Look at the keys of row {row} of {path}", Sql(text, function.secrets), IN_ORDER)
    return alike_hint(each.column.name, map(str, rows[0][0])) if rows else ""


def _row_of(
    files: Files, group: FileGroup, path: str, each: LoadedColumn, bad: str
) -> Steps[tuple[int, str | None] | None]:
    function = files.read(files.source.glob_of(path), structure=group.structure, on_cluster=False)
    one = Batch("", (path,)).condition
    default = group.defaults.get(each.column.name)
    lacks = f"isNull({each.source})" + (f" OR {each.source} = {default}" if default else "")
    value = f"if({lacks}, NULL, toString({each.source}))"
    # No WHERE: rows that are left out while the file is read would not be counted.
    text = (
        "SELECT minIf(number, bad), argMinIf(value, number, bad) FROM (SELECT rowNumberInAllBlocks() + 1 AS number, "
        f"tuple({value}) AS value, {bad} AS bad FROM {function.text} WHERE {one})"
    )
    sql = Sql(text, function.secrets)
    rows = yield files.look(f"Look for its row in {path}", sql, {**IN_ORDER, **_SATURATE})
    return (int(rows[0][0]), rows[0][1][0]) if rows and rows[0][0] else None


def _sentence(
    each: LoadedColumn, path: str, count: int, at: tuple[int, str | None] | None, *, hint: str, may_default: bool
) -> str:
    row, value = at or (0, None)
    shown = "NULL, or missing," if value is None else repr(value[:SHOWN_CHARACTERS])
    where = f"row {row:,} of {path}" if row else path
    name = each.column.name
    ways = "Widen the column, mend the file, or give an expression with select={…}"
    if value is None:
        ways += "; null_as_default=True takes the column's default." if may_default else "."
    else:
        ways += f"; lossy_columns=[{name!r}] lets go of what does not fit." if _may_be_lossy(each) else "."
    return (
        f"Column {name!r} is {each.column.type}, but {where} has {shown} for it ({count} such rows in all)."
        f"{hint} {ways}"
    )


def _may_be_lossy(each: LoadedColumn) -> bool:
    return not each.is_lossy and each.cast(null_as_default=False).holds is not None
