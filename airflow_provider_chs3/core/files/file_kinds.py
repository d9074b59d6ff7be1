"""Find which files of a period have the same columns, in formats that declare their types."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_provider_chs3.core.files.declared_values import alterations_of, with_uuids
from airflow_provider_chs3.core.files.describe_files import describe, with_left_out
from airflow_provider_chs3.core.files.file_set import Files, Reading, plain_prefix
from airflow_provider_chs3.core.files.loaded_columns import FileGroup
from airflow_provider_chs3.core.files.parquet_footers import Footers, FooterSchema, parquet_footers
from airflow_provider_chs3.core.files.row_wise_select import names_in
from airflow_provider_chs3.core.files.structs import with_fields
from airflow_provider_chs3.core.model.error_codes import is_of_servers
from airflow_provider_chs3.core.sql.casts import Casting, elements_of, has_elements_of
from airflow_provider_chs3.core.sql.column_types import COMPOUND, ColumnType
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal
from airflow_provider_chs3.core.sql.server_casts import DATES, TIMES, is_integer
from airflow_provider_chs3.core.steps.operations import Gather, Query, Steps
from airflow_provider_chs3.core.target.table_facts import Column, with_zone
from airflow_provider_chs3.exceptions import ClickHouseServerError, SourceError

#: Types that ClickHouse writes as so many raw bytes, and would parse as text.
_RAW_BYTES = {"Int128": 16, "UInt128": 16, "IPv6": 16, "Int256": 32, "UInt256": 32}
#: Formats that have no such types.
_WITHOUT_WIDE_TYPES = ("Parquet", "Arrow", "ORC")
#: Times of ORC have any year, and servers read them as nanoseconds of 64 bits. Up to their zone, if they have one; the
#: second is the finest that holds all years to 9999.
_NANOSECONDS = "DateTime64(9"
_FAR = "DateTime64(7"
_FINEST_OF_COLUMNS = 6


@dataclass(frozen=True)
class FileKind:
    """Files with the same columns."""

    example: str
    paths: tuple[str, ...]
    types: Mapping[str, str]
    naive: frozenset[str] = frozenset()
    declared: Mapping[str, str] = field(default_factory=dict)
    altered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    int96: frozenset[str] = frozenset()

    def tells(self, name: str) -> tuple[str, object]:
        """Return what decides whether a column can be read with that of other files: its type, and what it means."""
        return self.types[name], (name in self.naive, self.declared.get(name), self.altered.get(name))

    @property
    def key(self) -> object:
        """The properties that files have in common if they are read together."""
        maps = (self.types, self.declared, self.altered)
        return (*(tuple(types.items()) for types in maps), self.naive, self.int96)


def kinds_of(
    files: Files, wanted: Sequence[Column], select: Mapping[str, str] | None = None
) -> Steps[tuple[list[FileKind], Footers | None]]:
    """Find the kinds of the period's files, and their footers if they are Parquet."""
    paths = [unit.path for unit in files.manifest.objects]
    footers: Footers | None = None
    examples: dict[str, tuple[str, ...]] = {}
    schemas: dict[str, FooterSchema] = {}
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
            schemas |= dict.fromkeys(alone, schema)
    else:
        by_file, examples = {}, {path: (path,) for path in paths}
    by_file |= yield from describe(files, [path for path in examples if path not in by_file])
    if files.format.name == "Arrow":
        names = (yield from names_in(select)) if select else [column.name for column in wanted]
        by_file = yield from with_left_out(files, by_file, names)
    if files.format.name == "ORC" and not (select or files.has_older_readers):
        by_file = yield from _with_far_times(files, by_file, wanted)
    if footers:
        _check_times_of_day(footers, by_file, wanted)
    look = _Look(files, wanted, is_selected=bool(select))
    kinds = [look.kind(path, examples[path], by_file[path], schemas.get(path)) for path in examples]
    return _alike_together(kinds), footers


@dataclass(frozen=True)
class _Look:
    """A look at files, which tells the kind of each."""

    files: Files
    wanted: Sequence[Column]
    is_selected: bool

    def kind(
        self, path: str, paths: tuple[str, ...], columns: Mapping[str, str], schema: FooterSchema | None
    ) -> FileKind:
        """Return the kind of a file, and of others with its schema."""
        is_foreign = self.files.format.name in _WITHOUT_WIDE_TYPES
        given = self._apart(columns)
        declared = self._apart(with_uuids(columns, schema)) if schema else given
        if schema:
            naive, int96 = (names | _fields_of(names, columns, given) for names in (schema.naive, schema.int96))
        else:
            times = {name: ColumnType(of).times() for name, of in given.items() if is_foreign}
            naive = frozenset(
                name for name, timestamps in times.items() if any(not timestamp.time_zone for timestamp in timestamps)
            )
            int96 = frozenset[str]()
        # Their readers give such a time as if it were one of UTC.
        types, declared = (
            {name: with_zone(of, "UTC") if is_foreign else of for name, of in columns_types.items()}
            for columns_types in (given, declared)
        )
        for column in self.wanted if is_foreign else ():
            if column.name in types and types[column.name] == declared[column.name]:
                of, target = ColumnType(types[column.name]), ColumnType(column.type)
                types[column.name] = declared[column.name] = _of_raw_bytes(of, target).text
                self._check_bytes(column, of, path)
        if schema:
            schema = replace(schema, halves=schema.halves | _fields_of(schema.halves, columns, given))
        return FileKind(
            path,
            paths,
            types,
            naive,
            declared={name: of for name, of in declared.items() if of != types[name]},
            altered=alterations_of(
                types, self.files.format.name, schema, has_older_readers=self.files.has_older_readers
            ),
            int96=int96,
        )

    def _apart(self, types: Mapping[str, str]) -> dict[str, str]:
        return dict(types) if self.is_selected else with_fields(types, self.wanted)

    def _check_bytes(self, column: Column, of: ColumnType, path: str) -> None:
        if self.is_selected:
            return
        select = {column.name: f"toUUID(UUIDNumToString({identifier(column.name)}))"}
        if _has_bytes_of_uuid(of, ColumnType(column.type)):
            raise SourceError(
                f"Column {column.name!r} in {path} has bytes that are not declared as UUIDs, and ClickHouse would read "
                f"them in its own byte order: convert them with an expression in select={{…}}, such as {select}, or "
                "write the column as UUID of Parquet or as text."
            )
        is_undecided = self.files.format.name == "Arrow" and self.files.has_older_readers
        if is_undecided and any(part.arguments == ("16",) for part in of.parts("FixedString")):
            raise SourceError(
                f"Column {column.name!r} in {path} has 16 bytes, and servers before 26.9 do not tell whether these are "
                f"UUIDs. If so, set an expression in select={{…}}, such as {select}; if not, "
                f"{ {column.name: identifier(column.name)} }. Or write the file as Parquet."
            )


def _of_raw_bytes(of: ColumnType, target: ColumnType, *, is_key: bool = False) -> ColumnType:
    """Replace raw bytes in the type of a file by the wide integers and addresses that they are."""
    source, wanted = of.bare, target.bare
    if source.name == "FixedString" and int(source.arguments[0]) == _RAW_BYTES.get(wanted.name):
        return ColumnType(wanted.name if is_key else f"Nullable({wanted.name})")
    if source.name != wanted.name or source.name not in COMPOUND:
        return of
    by_label = dict(zip(wanted.labels, wanted.inner, strict=True)) if source.labels and wanted.labels else {}
    targets = (
        [by_label.get(label, inner) for label, inner in zip(source.labels, source.inner, strict=True)]
        if by_label
        else wanted.inner
    )
    if len(targets) != len(source.inner):
        return of
    keys = (True, False) if source.name == "Map" else (False,) * len(targets)
    inner = [
        _of_raw_bytes(inner_type, to, is_key=key)
        for inner_type, to, key in zip(source.inner, targets, keys, strict=True)
    ]
    return of if inner == list(source.inner) else source.with_inner(inner)


def _has_bytes_of_uuid(of: ColumnType, target: ColumnType) -> bool:
    source, wanted = of.bare, target.bare
    if wanted.name == "UUID":
        return source.name == "FixedString"
    if source.name != wanted.name or source.name not in COMPOUND:
        return False
    if source.name != "Tuple":
        return any(map(_has_bytes_of_uuid, source.inner, wanted.inner))
    has_all = has_elements_of(source, wanted)
    return has_all and any(_has_bytes_of_uuid(inner, to) for _, inner, to in elements_of("", source, wanted))


def _alike_together(kinds: Iterable[FileKind]) -> list[FileKind]:
    alike: dict[object, list[FileKind]] = defaultdict(list)
    for kind in kinds:
        alike[kind.key].append(kind)
    return [
        replace(kinds_alike[0], paths=tuple(path for kind in kinds_alike for path in kind.paths))
        for kinds_alike in alike.values()
    ]


def _fields_of(names: Iterable[str], types: Mapping[str, str], apart: Mapping[str, str]) -> frozenset[str]:
    """Return the columns that lists of structs were taken apart to."""
    lists = tuple(f"{name}." for name in names if name in types.keys() - apart.keys())
    return frozenset(name for name in apart.keys() - types.keys() if name.startswith(lists))


def _check_times_of_day(footers: Footers, by_file: Mapping[str, Mapping[str, str]], wanted: Sequence[Column]) -> None:
    names = {column.name for column in wanted if not ColumnType(column.type).bare.name.startswith("Time")}
    for schema in footers.schemas:
        types = by_file[schema.example]
        times_of_day = schema.times_of_day | _fields_of(schema.times_of_day, types, with_fields(types, wanted))
        if unreadable := sorted(times_of_day & names):
            raise SourceError(
                f"Column {unreadable[0]!r} in {schema.example} holds times of day, which ClickHouse reads as points "
                f"in time in 1970: make the column a Time64, or convert it in select={{…}}."
            )


def _with_far_times(
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


def split_kinds(kinds: Sequence[FileKind], needed: Sequence[str]) -> Steps[list[tuple[dict[str, str], list[FileKind]]]]:
    """Decide which kinds are read together, and with which types; those without a common type are read separately."""
    common: dict[str, str] = {}
    apart = []
    for name in needed:
        every = dict.fromkeys(kind.tells(name) for kind in kinds if name in kind.types)
        # A column that is NULL throughout a file says nothing of its type.
        known_types = [value for value in every if "Nothing" not in value[0]] or list(every)
        common_type = (yield from _common_type(name, known_types)) if known_types else None
        if common_type is None:
            apart.append(name)
        else:
            common[name] = common_type
    groups: dict[object, list[FileKind]] = defaultdict(list)
    for kind in kinds:
        groups[tuple(kind.tells(name) if name in kind.types else None for name in apart)].append(kind)
    split = []
    for group in groups.values():
        of_kinds = {name: group[0].types[name] for name in apart if name in group[0].types}
        types = {name: {**common, **of_kinds}[name] for name in needed if name in common or name in of_kinds}
        split.append((types, group))
    return split


def _common_type(name: str, known_types: Sequence[tuple[str, object]]) -> Steps[str | None]:
    """Return the server's common type of all files; None if there is none without a loss."""
    types = [column_type for column_type, _ in known_types]
    if len(known_types) == 1:
        return types[0]
    parsed = [ColumnType(name) for name in types]
    if (
        len({meaning for _, meaning in known_types}) > 1
        or len(set(map(_without_widths, parsed))) > 1
        or _are_finer(parsed)
    ):
        return None
    return (yield from common_type(name, types))


def common_type(name: str, types: Sequence[str]) -> Steps[str | None]:
    """Return the type that the server takes for all of some types, perhaps wider than each; None if there is none."""
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
    decimals = [part for column_type in types for part in column_type.parts("Decimal")]
    common = max((decimal.precision for decimal in decimals), default=0) - max(
        (decimal.scale for decimal in decimals), default=0
    )
    return any(decimal.precision - decimal.scale > common for decimal in decimals)
