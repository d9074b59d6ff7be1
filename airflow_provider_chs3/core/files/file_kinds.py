"""Find which files of a period have the same columns, in formats that declare their types."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_chs3.core.cluster.table_facts import Column
from airflow_provider_chs3.core.cluster.time_zones import with_zone
from airflow_provider_chs3.core.conversion.casts import elements_of, has_elements_of
from airflow_provider_chs3.core.conversion.column_types import COMPOUND, ColumnType
from airflow_provider_chs3.core.conversion.server_casts import is_integer
from airflow_provider_chs3.core.files.file_columns import describe
from airflow_provider_chs3.core.files.parquet_footers import Footers, parquet_footers
from airflow_provider_chs3.core.files.structs import with_fields
from airflow_provider_chs3.core.source.file_set import Files
from airflow_provider_chs3.core.source.globs import plain_prefix
from airflow_provider_chs3.core.sql.quoting import Sql, literal
from airflow_provider_chs3.core.values.error_codes import is_of_servers
from airflow_provider_chs3.core.workflow.operations import Gather, Query, Steps
from airflow_provider_chs3.exceptions import ClickHouseServerError, SourceError

#: Types that ClickHouse writes as so many raw bytes, and would parse as text.
_RAW_BYTES = {"Int128": 16, "UInt128": 16, "IPv6": 16, "Int256": 32, "UInt256": 32}
#: Formats that have no such types.
_WITHOUT_WIDE_TYPES = ("Parquet", "Arrow", "ORC")


@dataclass(frozen=True)
class FileKind:
    """Files with the same columns.

    Args:
        example: One of them.
        paths: All of them.
        types: Column → type.
        naive: Columns with timestamps that have no zone.
    """

    example: str
    paths: tuple[str, ...]
    types: Mapping[str, str]
    naive: frozenset[str] = frozenset()

    def tells(self, name: str) -> tuple[str, bool]:
        """Return what decides whether a column can be read with that of other files: its type, and if it is naive."""
        return self.types[name], name in self.naive


def kinds_of(
    files: Files, wanted: Sequence[Column], *, as_nested: bool = False
) -> Steps[tuple[list[FileKind], Footers | None]]:
    """Find the kinds of the period's files, and their footers if they are Parquet.

    Args:
        files: The files.
        wanted: The target's columns that are loaded.
        as_nested: Whether lists of structs are read as the columns of a Nested. Default: False.

    Raises:
        SourceError: If a file cannot be read.
    """
    paths = [each.path for each in files.manifest.objects]
    footers: Footers | None = None
    examples: dict[str, tuple[str, ...]] = {}
    naive: dict[str, frozenset[str]] = {}
    if files.format.name == "Parquet":
        # Nearly always all files are alike, and this is the one that footers name.
        likely = min(paths, key=lambda path: (plain_prefix(path) != path, path))
        looks = (parquet_footers(files), describe(files, [likely]))
        footers, by_file = yield from Gather(name="Read footers and columns", workflows=looks)
        assert footers is not None
        for schema in footers.schemas:
            # With another length than the first file's, those of others would read as NULL: each is asked for its own.
            alone = {path: (path,) for path in schema.paths} if schema.fixed else {schema.example: schema.paths}
            examples |= alone
            naive |= dict.fromkeys(alone, schema.naive)
    else:
        by_file, examples = {}, {path: (path,) for path in paths}
    by_file |= yield from describe(files, [path for path in examples if path not in by_file])
    if footers:
        _check_times_of_day(footers, by_file, wanted)
    if as_nested:
        apart = {path: with_fields(types, wanted) for path, types in by_file.items()}
        naive = {path: names | _fields_of(names, by_file[path], apart[path]) for path, names in naive.items()}
        by_file = apart
    raw = files.format.name in _WITHOUT_WIDE_TYPES
    kinds = (_kind(path, examples[path], by_file[path], wanted, naive.get(path), raw=raw) for path in examples)
    return _alike_together(kinds), footers


def _kind(
    path: str,
    paths: tuple[str, ...],
    columns: Mapping[str, str],
    wanted: Sequence[Column],
    naive: frozenset[str] | None,
    *,
    raw: bool,
) -> FileKind:
    if naive is None:
        times = {name: ColumnType(of).times() for name, of in columns.items() if raw}
        naive = frozenset(name for name, found in times.items() if any(not each.time_zone for each in found))
    # Their readers give such a time as if it were one of UTC.
    types = {name: with_zone(of, "UTC") if raw else of for name, of in columns.items()}
    for column in wanted if raw else ():
        if column.name not in columns:
            continue
        of, target = ColumnType(types[column.name]), ColumnType(column.type)
        types[column.name] = _of_raw_bytes(of, target).text
        if _has_bytes_of_uuid(of, target):
            raise SourceError(
                f"Column {column.name!r} in {path} has bytes that are not declared as UUIDs, and ClickHouse would read "
                "them in its own byte order: convert them in select={…}, or write the column as UUID or text."
            )
    return FileKind(path, paths, types, naive)


def _of_raw_bytes(of: ColumnType, target: ColumnType, *, is_key: bool = False) -> ColumnType:
    """Replace raw bytes in the type of a file by the wide integers and addresses that they are."""
    one, wanted = of.bare, target.bare
    if one.name == "FixedString" and int(one.arguments[0]) == _RAW_BYTES.get(wanted.name):
        return ColumnType(wanted.name if is_key else f"Nullable({wanted.name})")
    if one.name != wanted.name or one.name not in COMPOUND:
        return of
    by_label = dict(zip(wanted.labels, wanted.inner, strict=True)) if one.labels and wanted.labels else {}
    targets = (
        [by_label.get(label, each) for label, each in zip(one.labels, one.inner, strict=True)]
        if by_label
        else wanted.inner
    )
    if len(targets) != len(one.inner):
        return of
    keys = (True, False) if one.name == "Map" else (False,) * len(targets)
    inner = [_of_raw_bytes(each, to, is_key=key) for each, to, key in zip(one.inner, targets, keys, strict=True)]
    return of if inner == list(one.inner) else one.with_inner(inner)


def _has_bytes_of_uuid(of: ColumnType, target: ColumnType) -> bool:
    one, wanted = of.bare, target.bare
    if wanted.name == "UUID":
        return one.name == "FixedString"
    if one.name != wanted.name or one.name not in COMPOUND:
        return False
    if one.name != "Tuple":
        return any(map(_has_bytes_of_uuid, one.inner, wanted.inner))
    has_all = has_elements_of(one, wanted)
    return has_all and any(_has_bytes_of_uuid(inner, to) for _, inner, to in elements_of("", one, wanted))


def _alike_together(kinds: Iterable[FileKind]) -> list[FileKind]:
    found: dict[object, list[FileKind]] = defaultdict(list)
    for kind in kinds:
        found[tuple(kind.types.items()), kind.naive].append(kind)
    return [
        FileKind(some[0].example, tuple(path for kind in some for path in kind.paths), some[0].types, some[0].naive)
        for some in found.values()
    ]


def _fields_of(names: Iterable[str], types: Mapping[str, str], apart: Mapping[str, str]) -> frozenset[str]:
    """Return the columns that lists of structs were taken apart to.

    Args:
        names: The lists, and others.
        types: The columns of the file.
        apart: The same, taken apart.
    """
    lists = tuple(f"{name}." for name in names if name in types.keys() - apart.keys())
    return frozenset(name for name in apart.keys() - types.keys() if name.startswith(lists))


def _check_times_of_day(footers: Footers, by_file: Mapping[str, Mapping[str, str]], wanted: Sequence[Column]) -> None:
    names = {column.name for column in wanted if not ColumnType(column.type).bare.name.startswith("Time")}
    for schema in footers.schemas:
        types = by_file[schema.example]
        times_of_day = schema.times_of_day | _fields_of(schema.times_of_day, types, with_fields(types, wanted))
        if found := sorted(times_of_day & names):
            raise SourceError(
                f"Column {found[0]!r} in {schema.example} holds times of day, which ClickHouse reads as points in time "
                f"in 1970: make the column a Time64, or convert it in select={{…}}."
            )


def split_kinds(kinds: Sequence[FileKind], needed: Sequence[str]) -> Steps[list[tuple[dict[str, str], list[FileKind]]]]:
    """Decide which kinds are read together, and with which types; those without a common type are read separately.

    Args:
        kinds: The kinds.
        needed: The columns that are read.
    """
    common: dict[str, str] = {}
    apart = []
    for name in needed:
        every = dict.fromkeys(kind.tells(name) for kind in kinds if name in kind.types)
        # A column that is NULL throughout a file says nothing of its type.
        known_types = [each for each in every if "Nothing" not in each[0]] or list(every)
        found = (yield from _common_type(name, known_types)) if known_types else None
        if found is None:
            apart.append(name)
        else:
            common[name] = found
    groups: dict[object, list[FileKind]] = defaultdict(list)
    for kind in kinds:
        groups[tuple(kind.tells(name) if name in kind.types else None for name in apart)].append(kind)
    split = []
    for some in groups.values():
        own = {name: some[0].types[name] for name in apart if name in some[0].types}
        types = {name: {**common, **own}[name] for name in needed if name in common or name in own}
        split.append((types, some))
    return split


def _common_type(name: str, known_types: Sequence[tuple[str, bool]]) -> Steps[str | None]:
    """Return the server's common type of all files; None if there is none without a loss."""
    types = [column_type for column_type, _ in known_types]
    if len(known_types) == 1:
        return types[0]
    parsed = [ColumnType(each) for each in types]
    if (
        len({is_naive for _, is_naive in known_types}) > 1
        or len(set(map(_without_widths, parsed))) > 1
        or _are_finer(parsed)
    ):
        return None
    return (yield from common_type(name, types))


def common_type(name: str, types: Sequence[str]) -> Steps[str | None]:
    """Return the type that the server takes for all of some types, which may be wider than each; None if there is none.

    Args:
        name: The column.
        types: The types.
    """
    values = ", ".join(f"defaultValueOfTypeName({literal(column_type)})" for column_type in types)
    sql = Sql(f"SELECT toTypeName([{values}])")
    try:
        rows = yield from Query(
            name=f"Find a type for column {name}", sql=sql, settings={"use_variant_as_common_type": 0}
        )
    except ClickHouseServerError as error:
        if is_of_servers(error):
            raise
        return None
    return str(rows[0][0])[len("Array(") : -1]


def _without_widths(of: ColumnType) -> object:
    """Return what types must have in common, besides their digits.

    A value cast to another type is shown as that type, and cast from there: a Float32 with the digits of a Float64, a
    time in another zone. The common type of Tuples whose fields differ in name or order has no names at all.
    """
    bare = of.bare
    if bare.name in COMPOUND:
        return bare.name, bare.labels, tuple(map(_without_widths, bare.inner))
    return "integer" if is_integer(bare) else bare.name if bare.name == "Decimal" else bare.text


def _are_finer(types: Sequence[ColumnType]) -> bool:
    """Check whether the server's common type lacks digits before the point, because it takes the finest scale."""
    decimals = [found for each in types for found in each.parts("Decimal")]
    common = max((each.precision for each in decimals), default=0) - max((each.scale for each in decimals), default=0)
    return any(each.precision - each.scale > common for each in decimals)
