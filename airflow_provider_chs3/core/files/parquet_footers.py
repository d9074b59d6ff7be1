"""Read the footers of Parquet files: schemas, rows and bytes of all files in one statement."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from airflow_provider_chs3.core.files.file_set import Files
from airflow_provider_chs3.core.files.source import Batch
from airflow_provider_chs3.core.model.error_codes import BAD_ARGUMENTS, is_of_servers
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.steps.operations import Query, Row, Steps
from airflow_provider_chs3.exceptions import ClickHouseServerError, SourceError

_SCHEMAS_OF_PARQUET = """
SELECT columns, groupArray((file, num_rows)), sum(total_uncompressed_size),
    argMin(file, (NOT match(file, '^[A-Za-z0-9/_.=-]*$'), file)) FROM (
    SELECT {path} AS file, num_rows, total_uncompressed_size,
        arrayMap(each -> (each.name, each.path, each.physical_type, each.logical_type), columns) AS columns
    FROM {function} WHERE {condition}
) GROUP BY columns
"""
#: To find this out, a server opens the first file, and waits for two further answers of the storage.
_STRUCTURE = (
    "num_rows UInt64, total_uncompressed_size UInt64, columns Array(Tuple(name String, path String, "
    "max_definition_level UInt64, max_repetition_level UInt64, physical_type String, logical_type String, "
    "compression String, total_uncompressed_size UInt64, total_compressed_size UInt64, space_saved String, "
    "encodings Array(String)))"
)
#: So few files are read by one node: to ask all of them for a part of the files takes each longer than to read them.
_FILES_OF_ONE_NODE = 16
#: By default servers fetch the first megabyte of a file that they open, beside its last 64 KB, where the footer is: of
#: 120 files of 740 KB, all of their 89 MB rather than 9.
_NOTHING_BEFORE = {"remote_filesystem_read_prefetch": 0}
_NAIVE = "Timestamp(isAdjustedToUTC=false"
_TIME_OF_DAY = "Time("
_FIXED_LENGTH = ("FIXED_LEN_BYTE_ARRAY", "None")
#: Bytes of a fixed length that are numbers, and no bytes.
_NUMBERS = ("Decimal", "Float16")


@dataclass(frozen=True)
class FooterSchema:
    """Files with the same schema."""

    example: str
    paths: tuple[str, ...]
    naive: frozenset[str]
    times_of_day: frozenset[str]
    fixed: bool
    halves: frozenset[str]
    int96: frozenset[str]
    bytes_as: tuple[str, ...]


@dataclass(frozen=True)
class Footers:
    """The footers of all files."""

    schemas: tuple[FooterSchema, ...]
    file_rows: tuple[int, ...]
    size_bytes: int


def parquet_footers(files: Files) -> Steps[Footers]:
    """Read the schemas, rows and uncompressed bytes of all files."""
    schemas: list[FooterSchema] = []
    size_bytes = 0
    rows: dict[str, int] = {}
    for batch in files.batches():
        try:
            footers = yield from _footers(files, batch)
        except ClickHouseServerError as error:
            yield from _find_unreadable(files, batch, error)
            raise
        for columns, rows_of_files, byte_count, example in footers:
            rows |= rows_of_files
            schemas.append(_schema(columns, [path for path, _ in rows_of_files], example))
            size_bytes += byte_count
    files.check_found(rows)
    file_rows = tuple(rows[path] - files.source.left_out_rows(path) for path in sorted(rows))
    return Footers(tuple(schemas), file_rows, size_bytes)


def _schema(columns: Sequence[tuple[str, str, str, str]], paths: Sequence[str], example: str) -> FooterSchema:
    plain = {path for name, path, _, _ in columns if name == path}

    def named(beginning: str, of_kind: str = "") -> frozenset[str]:
        leaves = (
            (name, path)
            for name, path, kind, logical in columns
            if logical.startswith(beginning) and kind.startswith(of_kind)
        )
        return frozenset(column for name, path in leaves for column in _columns_of(name, path, plain))

    fixed = [logical for _, _, kind, logical in columns if kind == _FIXED_LENGTH[0]]
    return FooterSchema(
        example,
        tuple(paths),
        naive=named(_NAIVE),
        times_of_day=named(_TIME_OF_DAY),
        fixed=_FIXED_LENGTH[1] in fixed,
        halves=named("Float16"),
        int96=named("", "INT96"),
        bytes_as=tuple(field for field in fixed if not field.startswith(_NUMBERS)),
    )


def _columns_of(name: str, path: str, plain: Collection[str]) -> Iterator[str]:
    """Yield each column that a leaf may belong to: a dot in its path begins a field, or is part of a name."""
    yield path
    if name != path:
        steps = path.removesuffix(f".{name}").split(".")
        beginnings = (".".join(steps[:count]) for count in range(1, len(steps) + 1))
        yield from (beginning for beginning in beginnings if beginning not in plain)


def _footers(files: Files, batch: Batch) -> Steps[list[Row]]:
    try:
        return (yield from _look_at_footers(files, batch, _STRUCTURE))
    except ClickHouseServerError as error:
        if error.code != BAD_ARGUMENTS:
            raise
    # A later server may give more of each column, and takes no other structure than its own.
    return (yield from _look_at_footers(files, batch, "auto"))


def _look_at_footers(files: Files, batch: Batch, structure: str) -> Query:
    on_cluster = len(batch.paths) > _FILES_OF_ONE_NODE
    function = files.read(batch.glob, structure=structure, file_format="ParquetMetadata", on_cluster=on_cluster)
    text = _SCHEMAS_OF_PARQUET.format(function=function.text, condition=batch.condition, path=batch.path)
    settings = {**_NOTHING_BEFORE, "max_threads": min(files.look_threads, len(batch.paths))}
    name = f"Read the footers of {len(batch.paths)} files"
    return files.look(name, Sql(text, function.secrets), settings, on_cluster=on_cluster)


def _find_unreadable(files: Files, batch: Batch, error: ClickHouseServerError) -> Steps[None]:
    """Find the unreadable file, which the error does not name, by trying one file after the other."""
    if is_of_servers(error):
        return
    for path in batch.paths:
        try:
            yield from _footers(files, Batch(files.source.glob_of(path), (path,), files.source.kind.path))
        except ClickHouseServerError as its_error:
            if is_of_servers(its_error):
                raise
            raise SourceError(f"{path} cannot be read as Parquet: {its_error.message}") from error
