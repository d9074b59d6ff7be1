"""Read the columns of single files, if nothing else names or types them, and estimate how much data a load moves."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_chs3.core.files.file_set import Files, Reading
from airflow_provider_chs3.core.files.loaded_columns import LoadedColumn, structure_of
from airflow_provider_chs3.core.files.parse_errors import unreadable
from airflow_provider_chs3.core.files.text_fields import TEXT_TYPE
from airflow_provider_chs3.core.model.models import SettingValues
from airflow_provider_chs3.core.model.store_kind import Format
from airflow_provider_chs3.core.sql.column_types import ColumnType
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal
from airflow_provider_chs3.core.steps.operations import Gather, Log, Steps
from airflow_provider_chs3.exceptions import ClickHouseServerError, SourceError

#: How the names of formats end whose files begin with a line of names.
_WITH_NAMES = "WithNames"
#: Files that are looked into at the same time: each look waits for the storage nearly all of its time.
_AT_A_TIME = 16
#: Only the line of names is read: nothing is guessed, and the rest need not fit.
_AS_TEXT: SettingValues = {
    "schema_inference_make_columns_nullable": 0,
    "input_format_max_rows_to_read_for_schema_inference": 1,
    **{
        f"input_format_{prefix}_{setting}": value
        for prefix in ("csv", "tsv")
        for setting, value in (
            ("detect_header", 0),
            ("use_best_effort_in_schema_inference", 0),
            ("allow_variable_number_of_columns", 1),
        )
    },
}
#: So that each column that cannot be read, or is not there, is an error.
_ALL: SettingValues = {
    "input_format_arrow_skip_columns_with_unsupported_types_in_schema_inference": 0,
    "input_format_arrow_allow_missing_columns": 0,
}
_NO_SUCH_COLUMN = 8
#: The type of a column that is NULL throughout a file.
OF_NULLS = "Nullable(Nothing)"
#: A key of JSON may have values of any types, -1 and 18446744073709551615 for example, as all are read as texts. No
#: type is guessed for an integer, since 25.8 fails where one has more than 64 bits.
_OF_NAMES: SettingValues = {
    "input_format_json_try_infer_named_tuples_from_objects": 0,
    "input_format_try_infer_variants": 1,
    "input_format_try_infer_integers": 0,
}
_ONE_THREAD: SettingValues = {"max_threads": 1, "input_format_parallel_parsing": 0}
#: As many lines of a text as servers read by default to guess types.
_LINES = 25_000
_SHOWN_BYTES = 100
_SKIPPED_LINES = "input_format_csv_skip_first_lines"
#: The first bytes of compressed data → ClickHouse's name of the compression.
_MAGIC = {"1F8B": "gzip", "28B52FFD": "zstd", "04224D18": "lz4", "FD377A585A00": "xz", "425A68": "bz2"}


def describe(files: Files, paths: Sequence[str], *, is_of_names: bool = True) -> Steps[dict[str, dict[str, str]]]:
    """Read the columns of single files: path → name → type. Text without even its line of names is left out."""
    if len(paths) > _AT_A_TIME:
        yield from Log(name=f"Read the columns of {len(paths)} files, {_AT_A_TIME} at a time")
    lanes = tuple(
        _describe_each(files, lane, is_of_names=is_of_names)
        for first in range(_AT_A_TIME)
        if (lane := paths[first::_AT_A_TIME])
    )
    by_path: dict[str, dict[str, str]] = {}
    if lanes:
        for described in (yield from Gather(name=f"Read the columns of {len(paths)} files", workflows=lanes)):
            by_path |= described
    may_be_empty = files.format.name.endswith(_WITH_NAMES)
    return {path: by_path[path] for path in paths if by_path[path] or not may_be_empty}


def with_left_out(
    files: Files, by_file: Mapping[str, Mapping[str, str]], names: Sequence[str]
) -> Steps[dict[str, dict[str, str]]]:
    """Return the columns of files of Arrow, with those of nothing but NULL, which newer servers leave out.

    Servers leave out the columns that they cannot read, too: one of these is an error, and no default stands for it.
    """
    by_path = {path: dict(types) for path, types in by_file.items()}
    for path, types in by_path.items():
        lacking = [name for name in names if name not in types]
        if lacking and (yield from _leaves_out(files, path)):
            for name in lacking:
                if (yield from _is_of_nulls(files, path, name)):
                    types[name] = OF_NULLS
    return by_path


def _leaves_out(files: Files, path: str) -> Steps[bool]:
    """Check whether servers leave out columns of a file of Arrow."""
    sql = files.read(files.source.glob_of(path), on_cluster=False).between("DESCRIBE TABLE ")
    answer = yield from files.try_look(f"Look for further columns of {path}", sql, _ALL, on_cluster=False)
    return isinstance(answer, ClickHouseServerError)


def _is_of_nulls(files: Files, path: str, name: str) -> Steps[bool]:
    """Check whether a file of Arrow has a column of nothing but NULL; an error where it has one of another type."""
    sql = files.select_one(path, "*", structure=structure_of({name: OF_NULLS}), after=" LIMIT 1")
    answer = yield from files.try_look(f"Look for column {name} of {path}", sql, _ALL, on_cluster=False)
    if not isinstance(answer, ClickHouseServerError):
        return True
    if answer.code == _NO_SUCH_COLUMN:
        return False
    raise SourceError(unreadable(path, files.format, answer)) from answer


def _describe_each(files: Files, paths: Sequence[str], *, is_of_names: bool) -> Steps[dict[str, dict[str, str]]]:
    by_file = {}
    for path in paths:
        by_file[path] = yield from _describe(files, path, is_of_names=is_of_names)
    return by_file


def _describe(files: Files, path: str, *, is_of_names: bool) -> Steps[dict[str, str]]:
    glob, has_line_of_names = files.source.glob_of(path), files.format.name.endswith(_WITH_NAMES)
    function, of_names = files.read(glob, on_cluster=False), _OF_NAMES if is_of_names else {}
    if not path.endswith(glob) and (yield from _matches_others(files, glob, path)):
        function, of_names = _contents(files, path), {**of_names, **_ONE_THREAD}
    sql = function.between("DESCRIBE TABLE ")
    if has_line_of_names and is_of_names:
        # Only that line counts; by default 25,000 lines are read to guess types.
        of_names = {**of_names, "input_format_max_rows_to_read_for_schema_inference": 1}
    rows = yield from files.try_look(f"Read the columns of {path}", sql, of_names, on_cluster=False)
    if isinstance(rows, ClickHouseServerError):
        if not has_line_of_names:
            yield from check_beginning(files, path)
            if not files.format.has_footer and (yield from is_empty(files, path)):
                return {}
            raise SourceError(unreadable(path, files.format, rows, is_guessed=not is_of_names)) from rows
        names: dict[Any, str] = yield from _names_alone(files, path)
    else:
        names = {row[0]: row[1] for row in rows}
    # The driver returns texts that are not UTF-8 as bytes.
    if (no_text := next((name for name in names if isinstance(name, bytes)), None)) is not None:
        yield from check_beginning(files, path)
        raise SourceError(
            f"The column names of {path} are not UTF-8: {no_text[:_SHOWN_BYTES]!r}. Write the file as UTF-8, or "
            "set files={'compression': …} or files={'file_format': …}."
        )
    return names


def _names_alone(files: Files, path: str) -> Steps[dict[str, str]]:
    """Read the columns from the line of names alone: no rows follow, or the first ones do not fit it."""
    sql = files.select_one(path, "*", file_format=files.format.name.removesuffix(_WITH_NAMES), after=" LIMIT 1")
    rows = yield from files.try_look(f"Read the names of {path}", sql, _AS_TEXT, on_cluster=False)
    if isinstance(rows, ClickHouseServerError):
        yield from check_beginning(files, path)
        if (yield from is_empty(files, path)):
            return {}
        raise SourceError(unreadable(path, files.format, rows, names_lines=1)) from rows
    if rows and not any(rows[0]):
        raise SourceError(
            f"{path} begins with an empty line where the names of its columns should be. Write the file again, or set "
            "the number of lines before them as csv={'skip_lines': …}."
        )
    return {name: TEXT_TYPE for name in rows[0] if name} if rows else {}


def is_empty(files: Files, path: str) -> Steps[bool]:
    """Check whether nothing is in a file: of those without a byte, only compressed ones are listed."""
    may_be_blank = files.format.name == "JSONEachRow"
    if files.compression_of(path) == "none" and not may_be_blank:
        return False
    sql = _first_line("1", files, path, r" AND match(line, '\\S')" if may_be_blank else "")
    # If it cannot be read, it has something, too.
    return (yield from files.try_look(f"Look whether {path} is empty", sql, on_cluster=False)) == []


def _first_line(value: str, files: Files, path: str, further: str = "") -> Sql:
    """Return the SELECT of a value of the first line of a file, which it calls `line`."""
    return files.select_one(
        path, value, file_format="LineAsString", structure="line String", after=f"{further} LIMIT 1"
    )


def check_servers_read(path: str, compression: str) -> None:
    """Refuse bzip2: the servers that this was tried on are built without it."""
    if compression == "bz2":
        raise SourceError(
            f"{path} is compressed with bzip2, which ClickHouse (25.8, 26.9) does not read: compress it with gzip or "
            "zstd."
        )


def check_beginning(files: Files, path: str) -> Steps[None]:
    """Check that a file which cannot be read does not begin with the reason.

    It may be compressed without its key saying so, or have a byte order mark before a field in quotes.
    """
    is_plain, is_skipped = files.compression_of(path) == "none", int(files.look_settings.get(_SKIPPED_LINES, 0))
    sql = _first_line("hex(substring(line, 1, 6))", files, path)
    rows = yield from files.try_look(f"Read the first bytes of {path}", sql, on_cluster=False)
    if isinstance(rows, ClickHouseServerError):
        if is_plain:
            raise rows
        return
    for (beginning,) in rows:
        if files.format.name == "CSV" and not is_skipped and beginning.startswith(_MARK_AND_QUOTE):
            raise SourceError(mark_message(path))
        codec = next((name for magic, name in _MAGIC.items() if beginning.startswith(magic)), "")
        if is_plain and codec:
            check_servers_read(path, codec)
            raise SourceError(
                f"{path} is compressed with {codec}, but its key does not say so: set "
                f"files={{'compression': {codec!r}}}, or rename the object to match."
            )


def _matches_others(files: Files, glob: str, path: str) -> Steps[bool]:
    """Check whether a file's glob matches others: with their columns or types, values could change without an error."""
    sql = files.read(glob, file_format="One", on_cluster=False).between(
        f"SELECT DISTINCT {files.source.kind.path} FROM "
    )
    rows = yield from files.look(f"Look for files with names like {path}", sql, on_cluster=False)
    return any(row[0] != path for row in rows)


def _contents(files: Files, path: str) -> Sql:
    """Return what stands behind FROM to read the beginning of a text file, or a whole one of another format."""
    name, column, whole = ("RawBLOB", "raw_blob", "any(raw_blob)")
    if not files.format.is_typed:
        name, column, whole = ("LineAsString", "line", "arrayStringConcat(groupArray(line), '\\n')")
    lines = files.select_one(path, column, file_format=name, structure=f"{column} String", after=f" LIMIT {_LINES}")
    # In the subquery itself, a DESCRIBE does not resolve `_path`.
    return lines.between(f"format({literal(files.format.name)}, (SELECT {whole} FROM (", ")))")


#: In hexadecimal digits, before a quote of CSV.
_MARK_AND_QUOTE = ("EFBBBF22", "EFBBBF27")


def refuse_mark(read: Sequence[LoadedColumn], file_format: Format) -> tuple[LoadedColumn, ...]:
    """Refuse a byte order mark, which ClickHouse removes only from a file with a header; a container never has one."""
    first, *others = read
    if not file_format.names_columns and first.source_type in ("String", TEXT_TYPE):
        unmarked = without_mark(first.column.name)
        first = replace(first, kept=f"{first.kept} AND {unmarked}" if first.kept else unmarked)
    return (first, *others)


def without_mark(field: str) -> str:
    """Return the condition that a field does not begin with a byte order mark, as the first one of a file may."""
    return f"NOT startsWith({identifier(field)}, '\\xef\\xbb\\xbf')"


def has_mark(value: str | bytes | None) -> bool:
    """Return whether a value begins with a mark."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    return bool(text and text.startswith("\ufeff"))


def mark_message(where: str) -> str:
    """Return the message about a byte order mark, which servers remove only before a header."""
    return (
        f"{where} begins with a byte order mark, which ClickHouse removes only before a line of column names: write "
        "the file without it (in Python as 'utf-8', not 'utf-8-sig'), or with such a line."
    )


#: How many times larger than its file text is at least; a guess that is too high would leave cores without work.
_RATIOS = {"gzip": 3.0, "zstd": 3.0, "xz": 4.0, "lz4": 2.0}
#: JSON repeats the names of its columns in every line.
_JSON_RATIO = 0.5

_WIDTHS = {"Date": 2, "Date32": 4, "DateTime": 4, "DateTime64": 8, "UUID": 16, "IPv4": 4, "IPv6": 16, "Bool": 1}
_SIZED = re.compile(r"(?:U?Int|Float|BFloat|Enum|Decimal)(\d+)")
#: Bytes of a value of all other types, and of the length of a string.
_LEAST_WIDTH = 8


@dataclass(frozen=True, kw_only=True)
class DataVolume:
    """The data of a load, as each node gets it."""

    #: As how many periods of the size of the largest one the load is; 1 if it loads a single one.
    periods: int = 1
    #: A node's share in memory, uncompressed; None if not known.
    share_bytes: int | None = None
    share_rows: int | None = None
    files_per_node: int = 1
    largest_file_bytes: int = 0
    is_parquet: bool = False
    #: Whether a node writes to anything but a local disk, such as S3.
    is_on_remote_disk: bool = False


def shape_of(
    files: Files, reading: Reading, *, nodes: int, is_on_remote_disk: bool, largest_period_bytes: int | None = None
) -> DataVolume:
    """Estimate the volume of a load's files."""
    objects = files.manifest.objects
    return DataVolume(
        periods=files.manifest.size_bytes // largest_period_bytes if largest_period_bytes else 1,
        share_bytes=_memory_bytes(files, reading) // nodes if objects else None,
        share_rows=reading.rows // nodes if objects and reading.rows is not None else None,
        files_per_node=max(1, len(objects) // nodes),
        largest_file_bytes=max((unit.size_bytes for unit in objects), default=0),
        is_parquet=files.format.name == "Parquet",
        is_on_remote_disk=is_on_remote_disk,
    )


def _memory_bytes(files: Files, reading: Reading) -> int:
    if reading.rows is not None and reading.uncompressed_bytes is not None:
        # Footers count values as they are encoded: a repeated one, a time or a number may take more in memory.
        return max(reading.uncompressed_bytes, reading.rows * row_width_bytes(reading.types))
    ratio = _JSON_RATIO if files.format.name == "JSONEachRow" else 1.0
    ratios: Mapping[str, float] = {} if files.format.is_typed else _RATIOS
    sizes = (unit.size_bytes * ratios.get(files.compression_of(unit.key), 1.0) for unit in files.manifest.objects)
    return int(ratio * sum(sizes))


def row_width_bytes(types: Mapping[str, str]) -> int:
    """Return the least memory of a row in bytes: strings count as their lengths alone."""
    return sum(_width(column_type) for column_type in types.values())


def _width(column_type: str) -> int:
    name = ColumnType(column_type).bare.name
    sized = _SIZED.fullmatch(name)
    return int(sized[1]) // 8 if sized else _WIDTHS.get(name, _LEAST_WIDTH)
