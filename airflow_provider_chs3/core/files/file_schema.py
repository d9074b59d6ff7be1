"""Find the columns and rows of the period's files, before anything is written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from airflow_provider_chs3.core.files.declared_values import DeclaredValues, NaiveTimestamps
from airflow_provider_chs3.core.files.describe_files import check_servers_read, describe, refuse_mark, row_width_bytes
from airflow_provider_chs3.core.files.field_values import FieldValues, text_fields
from airflow_provider_chs3.core.files.file_kinds import FileKind, kinds_of, split_kinds
from airflow_provider_chs3.core.files.file_set import Files, Reading
from airflow_provider_chs3.core.files.loaded_columns import (
    VIRTUAL_COLUMNS,
    FileGroup,
    LoadedColumn,
    Selection,
    check_apart,
    has_whole_objects,
    plain_columns,
    structure_of,
    with_whole_objects,
)
from airflow_provider_chs3.core.files.parse_errors import file_of, unreadable
from airflow_provider_chs3.core.files.row_wise_select import check_row_wise
from airflow_provider_chs3.core.files.source import Batch
from airflow_provider_chs3.core.files.structs import check_elements, check_no_containers, check_orders
from airflow_provider_chs3.core.files.text_fields import TEXT_TYPE, TextField, read_as
from airflow_provider_chs3.core.sql.quoting import identifier
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.table_facts import Column
from airflow_provider_chs3.exceptions import ClickHouseServerError, SourceError


def read_columns(files: Files, selection: Selection, columns: Sequence[Column]) -> Steps[Reading]:
    """Find what each target column is loaded from."""
    wanted = selection.wanted(columns)
    yield from files.check_restored()
    if files.source.has_files:
        for unit in files.manifest.objects:
            check_servers_read(unit.path, files.compression_of(unit.path))
    yield from files.source.check_access(files.manifest, settings=files.look_settings)
    if files.source.known_columns:
        reading = yield from _read_known(files, selection, wanted)
    else:
        read = _read_typed if files.format.is_typed else _read_text
        reading = yield from read(files, selection, wanted)
    is_parquet = files.format.name == "Parquet"
    groups = tuple(
        replace(group, loaded=_marked(group.loaded, selection, hides_nulls=is_parquet)) for group in reading.groups
    )
    return replace(reading, groups=groups)


def _marked(loaded: Iterable[LoadedColumn], selection: Selection, *, hides_nulls: bool) -> tuple[LoadedColumn, ...]:
    return tuple(
        replace(
            column,
            is_lossy=column.column.name in selection.lossy_columns,
            null_as_default=selection.null_as_default,
            hides_nulls=hides_nulls,
        )
        for column in loaded
    )


def _read_known(files: Files, selection: Selection, wanted: Sequence[Column]) -> Steps[Reading]:
    """Take the source's word for columns and rows."""
    source = files.source
    types = {column.name: column.clickhouse_type for column in source.known_columns}
    if selection.select:
        loaded = yield from check_row_wise(selection.select, wanted, types, settings=files.look_settings)
    else:
        loaded = plain_columns(wanted, types, {source.kind.contents.with_columns(source.place): types})
        check_no_containers(loaded, source)
    rows = source.known_rows(files.manifest)
    size_bytes = None if rows is None else rows * row_width_bytes(types)
    return Reading((FileGroup(types, tuple(loaded)),), rows=rows, uncompressed_bytes=size_bytes, names=tuple(types))


def _read_text(files: Files, selection: Selection, wanted: Sequence[Column]) -> Steps[Reading]:
    # A key that is missing in a line of JSON is NULL, which the cast refuses where the column cannot hold it.
    has_names = files.format.names_columns and files.format.name != "JSONEachRow"
    paths = [unit.path for unit in files.manifest.objects] if selection.select or has_names else []
    by_file = yield from describe(files, paths)
    if selection.select:
        return (yield from _read_expressions(files, selection, wanted, by_file))
    names = list(dict.fromkeys(name for names in by_file.values() for name in names))
    if not by_file and not selection.columns:
        # Nobody says that the files have them.
        wanted = [column for column in wanted if column.default_kind != "EPHEMERAL"]
    fields = {column.name: _field(column, files, selection) for column in wanted if not by_file or column.name in names}
    types = {name: field.type for name, field in fields.items()}
    loaded = plain_columns(wanted, types, by_file)
    _check_any(loaded, names)
    loaded = [
        replace(column, source=(field := fields[column.column.name]).source, kept=field.kept, null=field.null)
        for column in loaded
    ]
    if files.format.name == "JSONEachRow" and has_whole_objects(types):
        types, loaded = with_whole_objects(types, loaded)
    group = FileGroup(
        types=types,
        loaded=refuse_mark(loaded, files.format),
        defaults={name: field.default for name, field in fields.items() if field.default},
    )
    return Reading((group,), names=tuple(names) if by_file else None)


def _read_expressions(
    files: Files, selection: Selection, wanted: Sequence[Column], by_file: Mapping[str, Mapping[str, str]]
) -> Steps[Reading]:
    """Find what the expressions of `select` read from files of text."""
    # A compressed file of no bytes has no columns, and no rows either.
    by_file = {path: of_file for path, of_file in by_file.items() if of_file}
    if not by_file:
        return _read_nothing(wanted)
    names = list(dict.fromkeys(name for of_file in by_file.values() for name in of_file))
    in_each = [name for name in names if all(name in of_file for of_file in by_file.values())]
    # The names of a JSON file are those of a sample of its lines; there a missing key is NULL anyway.
    known = names if files.format.name == "JSONEachRow" else in_each
    types = {name: TEXT_TYPE for name in known if name not in VIRTUAL_COLUMNS}
    loaded = yield from check_row_wise(
        selection.select,
        wanted,
        types,
        settings=files.look_settings,
        by_file=by_file,
        fields=_text_fields(types, names, files, selection),
    )
    if files.format.name == "JSONEachRow":
        types, loaded = with_whole_objects(types, loaded)
    return Reading((FileGroup(types, tuple(loaded)),), names=tuple(names))


def _text_fields(types: Collection[str], names: Sequence[str], files: Files, selection: Selection) -> FieldValues:
    null = selection.csv.null if files.format.is_csv else ""
    return text_fields(types, null=null, first="" if files.format.names_columns else next(iter(names), ""))


def _field(column: Column, files: Files, selection: Selection) -> TextField:
    return read_as(
        column.name,
        column.type,
        file_format=files.format,
        null_marker=selection.csv.null,
        may_be_null=selection.null_as_default,
        has_exact_doubles=str(files.neutral.get("precise_float_parsing")) != "0",
    )


def _read_typed(files: Files, selection: Selection, wanted: Sequence[Column]) -> Steps[Reading]:
    kinds, footers = yield from kinds_of(files, wanted, selection.select)
    # ORC has no columns for a file without rows, and compressed Native may be of no bytes.
    kinds = [kind for kind in kinds if kind.types] or kinds
    every = list(dict.fromkeys(name for kind in kinds for name in kind.types))
    if not every:
        return _read_nothing(wanted)
    needed = [name for name in every if name not in VIRTUAL_COLUMNS]
    by_file = {kind.example: kind.types for kind in kinds}
    if not selection.select:
        types_of_all = {name: kind.types[name] for kind in kinds for name in kind.types}
        columns = plain_columns(wanted, types_of_all, by_file, elsewhere=files.source.columns_elsewhere)
        _check_any(columns, every)
        wanted = [column.column for column in columns]
        check_elements(wanted, by_file)
        needed = [column.name for column in wanted]
    groups, by_example = [], []
    for types, alike in (yield from split_kinds(kinds, needed)):
        loaded = yield from _read_alike(files, selection, wanted, types, alike, by_file)
        if files.format.name in ("ORC", "Parquet"):
            by_kind = {kind.example: kind.types for kind in alike}
            check_apart(by_kind, loaded, is_orc=files.format.name == "ORC")
        groups.append(FileGroup(types, tuple(loaded), frozenset(path for kind in alike for path in kind.paths)))
        by_example.append((alike[0].example, loaded))
    check_orders(by_example)
    yield from _check_int96(files, groups, kinds)
    return Reading(
        _put_largest_first(groups),
        rows=sum(footers.file_rows) if footers else None,
        uncompressed_bytes=footers.size_bytes if footers else None,
        names=tuple(every),
        file_rows=footers.file_rows if footers else None,
    )


def _read_alike(
    files: Files,
    selection: Selection,
    wanted: Sequence[Column],
    types: dict[str, str],
    kinds: Sequence[FileKind],
    by_file: Mapping[str, Mapping[str, str]],
) -> Steps[list[LoadedColumn]]:
    """Find what columns are loaded from in files that are read together."""
    naive = NaiveTimestamps(
        names=frozenset[str]().union(*(kind.naive for kind in kinds)),
        types=types,
        example=kinds[0].example,
        meaning=selection.naive_timestamps,
        zone=files.zone,
    )
    values = DeclaredValues(
        fields=naive.of_expression, types=types, declared=kinds[0].declared, altered=kinds[0].altered
    )
    if not selection.select:
        loaded = plain_columns(wanted, types, {kinds[0].example: types})
        return naive.with_zones(values.of_columns(loaded))
    in_each = {name: of for name, of in types.items() if all(name in kind.types for kind in kinds)}
    loaded = yield from check_row_wise(
        selection.select, wanted, in_each, settings=files.look_settings, by_file=by_file, fields=values.of_expression
    )
    return values.with_doubts(loaded)


def _read_nothing(wanted: Sequence[Column]) -> Reading:
    """Take the table's columns for those of files in which nothing is."""
    types = {column.name: column.type for column in wanted if column.default_kind != "EPHEMERAL"}
    loaded = plain_columns([column for column in wanted if column.name in types], types, {})
    return Reading((FileGroup(types, tuple(loaded)),))


def _check_int96(files: Files, groups: Sequence[FileGroup], kinds: Sequence[FileKind]) -> Steps[None]:
    """Refuse times as INT96 that older readers read as others, by a reader that fails on these, no default as yet."""
    names = frozenset[str]().union(*(kind.int96 for kind in kinds)) if files.has_older_readers else ()
    for group, batch in Reading(_put_largest_first(groups)).batches(files) if names else ():
        read = {
            name: of
            for name, of in group.types.items()
            if name in names and any(column.uses(name) for column in group.loaded)
        }
        if not read:
            continue
        function = files.read(batch.glob, structure=structure_of(read))
        condition = f" WHERE {files.source.rows_of(batch)} AND NOT ignore({', '.join(map(identifier, read))})"
        sql = function.between("SELECT count() FROM ", condition)
        settings = {"input_format_parquet_use_native_reader_v3": 1}
        answer = yield from files.try_look("Check times as INT96", sql, settings)
        if isinstance(answer, ClickHouseServerError):
            path = files.source.path_in_error(file_of(answer)) or batch.paths[0]
            raise SourceError(unreadable(path, files.format, answer)) from answer


def _put_largest_first(groups: Sequence[FileGroup]) -> tuple[FileGroup, ...]:
    """Put the largest group first, without its paths: they may be many, and are all that are in no other group."""
    largest, *others = sorted(groups, key=lambda group: -len(group.paths or ()))
    return (replace(largest, paths=None), *others)


def _check_any(loaded: Sequence[LoadedColumn], names: Iterable[str]) -> None:
    if not loaded:
        raise SourceError(
            f"The files have none of the table's columns. They have {', '.join(names)}: map them to the table's in "
            f"select={{…}}."
        )


def count_rows(files: Files, reading: Reading) -> Steps[int]:
    """Count the rows of all files: Parquet footers have them; other formats are read a second time.

    Rows are counted object by object, without the condition by which the insert chose its objects; where there are no
    files, period by period.
    """
    if reading.rows is not None:
        return reading.rows
    rows: dict[str, int] = {}
    for group, batch in reading.batches(files):
        if not files.source.has_files:
            sql = files.read(batch.glob).between("SELECT count() FROM ")
            answer = yield from files.look(f"Count the rows of {files.source.place}", sql)
            rows[batch.paths[0]] = answer[0][0]
            continue
        counted = f"SELECT {batch.path} AS file, count() FROM "
        sql = files.read(batch.glob, structure=group.structure).between(counted, " GROUP BY file")
        answer = yield from files.look(f"Count the rows of {len(batch.paths)} files", sql)
        beginning = files.source.beginning_of(batch)
        if other := next((path for path, _ in answer if not path.startswith(beginning)), None):
            raise SourceError(f"ClickHouse calls a file {other!r}, but in the listing it begins with {beginning!r}.")
        wanted = set(batch.paths)
        rows |= {path: count for path, count in answer if path in wanted}
        rows |= dict.fromkeys((yield from without_rows(files, batch, rows)), 0)
    files.check_found(rows)
    return sum(rows.values())


def without_rows(files: Files, batch: Batch, answered: Collection[str]) -> Steps[set[str]]:
    """Return the files that servers find, and that are missing in an answer by file, as they have no rows."""
    if set(batch.paths) <= set(answered):
        return set()
    sql = files.read(batch.glob, file_format="One").between(f"SELECT DISTINCT {batch.path} FROM ")
    found_by_servers = {path for (path,) in (yield from files.look(f"Look for {len(batch.paths)} files", sql))}
    return found_by_servers.intersection(batch.paths).difference(answered)
