"""Read times of ORC beyond nanoseconds: they have any year, and servers read them as nanoseconds of 64 bits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from airflow_provider_chs3.core.files.file_set import Files, Reading
from airflow_provider_chs3.core.files.loaded_columns import FileGroup
from airflow_provider_chs3.core.sql.casts import Casting
from airflow_provider_chs3.core.sql.column_types import ColumnType
from airflow_provider_chs3.core.sql.quoting import identifier
from airflow_provider_chs3.core.sql.server_casts import DATES, TIMES
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.table_facts import Column

#: Up to their zone, if they have one; the second is the finest that holds all years to 9999.
_NANOSECONDS = "DateTime64(9"
_FAR = "DateTime64(7"
_FINEST_OF_COLUMNS = 6


def with_far_times(
    files: Files, by_file: Mapping[str, Mapping[str, str]], wanted: Sequence[Column]
) -> Steps[dict[str, dict[str, str]]]:
    """Return the columns of files of ORC, with times of 100 nanoseconds where a file has some beyond nanoseconds.

    Only where all others of the file have no finer ones, and the column of the table is no finer than microseconds.
    """
    targets = {column.name: ColumnType(column.type) for column in wanted}
    coarse = {name for name, of in targets.items() if _is_coarse(of)}
    alike: dict[tuple[tuple[str, str], ...], list[str]] = defaultdict(list)
    for path, types in by_file.items():
        alike[tuple((name, of) for name, of in types.items() if name in coarse and _NANOSECONDS in of)].append(path)
    by_path = {path: dict(types) for path, types in by_file.items()}
    groups = tuple(FileGroup(dict(times), (), frozenset(paths)) for times, paths in alike.items() if times)
    for group, batch in Reading(groups).batches(files) if groups else ():
        counts = ", ".join(_counts(identifier(name), ColumnType(of)) for name, of in group.types.items())
        sql = files.read(batch.glob, structure=group.structure).between(
            f"SELECT {batch.path} AS file, [{counts}] FROM ", f" WHERE {batch.condition} GROUP BY file"
        )
        looked = yield from files.look(
            "Look for times beyond nanoseconds", sql, {"date_time_overflow_behavior": "saturate"}
        )
        for path, rows in looked:
            far = [name for name, (beyond, finer) in zip(group.types, rows, strict=True) if beyond and not finer]
            by_path[path] |= {name: by_path[path][name].replace(_NANOSECONDS, _FAR) for name in far}
    return by_path


def _is_coarse(of: ColumnType) -> bool:
    times = [*of.parts(*TIMES, *DATES)]
    return bool(times) and all(time.scale <= _FINEST_OF_COLUMNS for time in times)


def _counts(value: str, of: ColumnType) -> str:
    """Count values with a time beyond nanoseconds, and those with one finer than 100 of them."""
    beyond, finer = (Casting(altered=(alteration,)).cast(value, of, of).holds for alteration in ("saturated", "fine"))
    return f"(countIf(NOT ifNull({beyond}, 1)), countIf(NOT ifNull({finer}, 1)))"
