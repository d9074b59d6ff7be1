"""A source of objects: renders the table function and lists. Subclasses have what differs between storages."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, islice
from typing import NamedTuple, Self, TypeVar

from airflow_provider_chs3.core.files.file_set import any_name, glob_of_key, grouped_by_glob, plain_prefix
from airflow_provider_chs3.core.files.folding import FoldedPeriod, Folding
from airflow_provider_chs3.core.files.key_template import KeyTemplate, PeriodKeys
from airflow_provider_chs3.core.files.source import AccessTrial, Batch, Source
from airflow_provider_chs3.core.model.models import HeldObjects, Manifest, ObjectPage, PeriodObjects, Unit
from airflow_provider_chs3.core.model.period import Grain, Period, grain_of
from airflow_provider_chs3.core.model.store_kind import format_of_key
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, literals
from airflow_provider_chs3.core.steps.operations import Gather, ListObjects, Query, Row, Steps
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError

T = TypeVar("T")

#: One page of a listing of S3.
_LISTED_BY_WORKER = 1_000
#: With one thread, a server stops listing at this number of objects.
_LISTED_BY_SERVER = 100
#: Prefixes that are listed each by itself. More are often those of a backfill.
_FEW_PREFIXES = 4


class _Pass(NamedTuple):
    """A pass over a prefix."""

    keys: PeriodKeys
    periods: Collection[Period] | None
    narrower: Callable[[str], Sequence[str]] | None = None


@dataclass(frozen=True)
class ObjectSource(Source):
    """Objects in a storage: how they are listed, and what reads them.

    Where ClickHouse itself lists, a template with `**` or a trailing `/` does not find keys with braces two or more
    levels below its literal prefix.
    """

    bucket: str
    template: KeyTemplate
    #: The part of `_path` before the key; found by listing if a named collection names the bucket.
    base: str = field(default="", kw_only=True)
    #: The objects of each period of the table, where periods are not those of the keys. Default: they are.
    held: HeldObjects | None = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def url(self) -> str:
        """The bucket as a URL, for people and for lineage."""

    @property
    def place(self) -> str:
        """The bucket, or else the named collection, for messages."""
        return self.bucket or self.named_collection or ""

    @property
    def pattern(self) -> str:
        """The template of a period's keys, for messages."""
        return self.template.text

    @property
    def lists_through_clickhouse(self) -> bool:
        """Return whether ClickHouse lists the objects, because the worker has no keys."""
        return self.named_collection is not None

    @abstractmethod
    def _located(self, glob: str) -> Sql:
        """Return the arguments that say where the objects are and who reads them, without a named collection."""

    def table_function(
        self,
        glob: str,
        *,
        file_format: str,
        cluster: str | None = None,
        structure: str = "auto",
        compression: str = "auto",
    ) -> Sql:
        """Return the table function that reads objects: that of all nodes if a cluster is given."""
        name, first = self.kind.function, ""
        if cluster:
            name, first = f"{name}Cluster", f"{literal(cluster)}, "
        shape = {"format": file_format, "structure": structure, "compression_method": compression}
        if self.named_collection:
            given = {self.kind.glob_argument: glob, **shape}
            named = ", ".join(f"{argument} = {literal(value)}" for argument, value in given.items())
            return Sql(f"{name}({first}{identifier(self.named_collection)}, {named})")
        in_order = literals(shape[argument] for argument in self.kind.shape)
        return self._located(glob).between(f"{name}({first}", f", {in_order})")

    def list_periods(self, periods: Collection[Period]) -> Steps[tuple[Self, dict[Period, Manifest]]]:
        """List the objects of periods, in one pass over each prefix that they share; see `Source.list_periods`."""
        if not periods:
            return self, {}
        if self.held is not None:
            return self, (yield from self._list_held(self.held, periods))
        source, listed = self, dict[Period, Manifest]()
        of_grain = self._at(grain_of(periods))
        for lister, manifests in (yield from of_grain._listed_by(of_grain._list, periods)):
            # A prefix without objects does not show the base of a named collection.
            source = lister if any(manifest.objects for manifest in manifests.values()) or not listed else source
            listed |= manifests
        return source, {period: listed[period] for period in sorted(periods)}

    def summarize_periods(self, periods: Collection[Period] | Grain) -> Steps[dict[Period, PeriodObjects]]:
        """List periods for a comparison alone, page by page: all of them may not fit into memory.

        S3 lists in the order of keys; other storages and ClickHouse may not. A period that was not listed in order is
        listed again, alone. See `Source.summarize_periods`.
        """
        wanted = None if isinstance(periods, Grain) else periods
        of_grain = self._at(periods if isinstance(periods, Grain) else grain_of(periods))
        folded = {period: FoldedPeriod() for period in wanted or ()}
        for page in (yield from of_grain._listed_by(of_grain._fold, wanted)):
            folded.update(page)
        if wanted is None and not folded:
            raise SourceError(f"No object of any period under {self.place}/{self.pattern}: check bucket and key.")
        listed = {period: fold.summary for period, fold in folded.items()}
        for period in (period for period, fold in folded.items() if not fold.is_sorted):
            _, manifest = yield from self.list_period(period)
            listed[period] = PeriodObjects.of(manifest)
        return listed

    def _at(self, grain: Grain) -> Self:
        return replace(self, template=self.template.at(grain))

    def _listed_by(self, list_pass: Callable[[_Pass], Steps[T]], periods: Collection[Period] | None) -> Steps[list[T]]:
        """Return the results of all passes: at the same time, unless each is a query to one server."""
        from_worker = not self.lists_through_clickhouse
        passes = [list_pass(listing) for listing in _passes_of(self.template, periods, may_join=from_worker)]
        if len(passes) > 1 and from_worker:
            return (yield from Gather(name=f"List {len(passes)} prefixes", workflows=tuple(passes)))
        results = []
        for listing in passes:
            results.append((yield from listing))
        return results

    def _list(self, each_pass: _Pass) -> Steps[tuple[Self, dict[Period, Manifest]]]:
        periods = each_pass.periods or ()
        source, pages = yield from self._pages(each_pass)
        start, each_keys = len(source.base), {period: self.template.keys_of(period) for period in periods}
        by_period: dict[Period, list[Unit]] = {period: [] for period in periods}
        for unit in chain.from_iterable(page.objects() for page in pages):
            key = unit.path[start:]
            for period in self._periods_of(key, periods):
                if each_keys[period].select(key, unit.size_bytes):
                    source.check_readable(unit, key)
                    by_period[period].append(unit)
        return source, {period: Manifest.of(units) for period, units in by_period.items()}

    def _periods_of(self, key: str, periods: Collection[Period]) -> Sequence[Period]:
        if len(periods) == 1 and self.template.is_read_in_one_way and self.template.is_exact:
            return tuple(periods)
        period = self.template.period_of(key)
        return (period,) if period is not None and period in periods else ()

    def _fold(self, each_pass: _Pass) -> Steps[dict[Period, FoldedPeriod]]:
        source, pages = yield from self._pages(each_pass)
        folding = Folding(self.template, source.base, each_pass.periods)
        for page in pages:
            folding.add(page)
        return folding.periods

    @property
    def arrival_grain(self) -> Grain:
        """The length of the shortest periods that the keys tell apart."""
        return self.template.finest.grain

    def arrivals(self, period: Period) -> tuple[str, Callable[[Unit], bool]]:
        """Return how the paths of a period's objects begin; see `Source.arrivals`."""
        keys, start = self._at(period.grain).template.keys_of(period), len(self.base)
        return f"{self.base}{keys.prefix}", lambda unit: keys.select(unit.path[start:], unit.size_bytes)

    def arrival_of(self, unit: Unit) -> str:
        """Return in which period an object came; see `Source.arrival_of`."""
        return str(self.template.finest.period_of(unit.path[len(self.base) :]) or "")

    def holding(self, held: HeldObjects) -> Self:
        """Return the source as it lists periods of the table; see `Source.holding`."""
        return replace(self, held=held)

    def recorded_rows(self, path: str) -> int | None:
        """Return the rows of an object in all periods of the table; see `Source.recorded_rows`."""
        return self.held.rows.get(path) if self.held else None

    def _list_held(self, held: HeldObjects, periods: Collection[Period]) -> Steps[dict[Period, Manifest]]:
        paths = {period: [unit.path for unit in held.periods.get(period, Manifest(())).objects] for period in periods}
        listed = yield from self.list_again({path for of_period in paths.values() for path in of_period})
        return {
            period: Manifest.of(listed[path] for path in of_period if path in listed)
            for period, of_period in paths.items()
        }

    def list_again(self, paths: Collection[str]) -> Steps[dict[str, Unit]]:
        """List objects wherever they are, by their paths; see `Source.list_again`."""
        folders = sorted({path[len(self.base) : path.rfind("/") + 1] for path in paths})
        listings = tuple(self._listed(folder, levels_below=0) for folder in folders)
        listed = yield from Gather(name=f"List {len(folders)} folders", workflows=listings)
        wanted = {*paths}
        units = (unit for _, pages in listed for page in pages for unit in page.objects())
        return {unit.path: unit for unit in units if unit.path in wanted}

    def missing_marker(self, ready_key: str, period: Period) -> Steps[str]:
        """Return the key of a period's ready marker if it is not there; see `Source.missing_marker`."""
        key = ready_key
        if "{" in ready_key:
            keys = KeyTemplate(ready_key).keys_of(period)
            if not keys.is_one_key:
                raise ConfigurationError(
                    f"policies['ready_key']={ready_key!r} must name one object: remove wildcards and days from it."
                )
            key = keys.prefix
        elif "/" not in ready_key:
            prefix = self.template.keys_of(period).prefix
            key = prefix[: prefix.rfind("/") + 1] + ready_key
        source, pages = yield from self._listed(key, levels_below=0)
        return "" if any(f"{source.base}{key}" in page.paths for page in pages) else key

    def _pages(self, each_pass: _Pass) -> Steps[tuple[Self, Iterable[ObjectPage]]]:
        """Return the source, with its base known from now on, and a stream of pages if the worker lists."""
        keys, narrower = each_pass.keys, each_pass.narrower
        return (yield from self._listed(keys.prefix, levels_below=keys.levels_below, narrower=narrower))

    def _listed(
        self, prefix: str, *, levels_below: int | None, narrower: Callable[[str], Sequence[str]] | None = None
    ) -> Steps[tuple[Self, Iterable[ObjectPage]]]:
        if not self.lists_through_clickhouse:
            name = f"List {self.url}/{prefix}"
            pages: Iterable[ObjectPage] = yield from ListObjects(
                name=name, bucket=self.bucket, prefix=prefix, narrower=narrower
            )
            return replace(self, base=f"{self.bucket}/"), pages
        plain = plain_prefix(prefix)
        glob = plain + "**"
        if levels_below is not None:
            glob = plain + any_name(prefix[len(plain) :].count("/") + levels_below)
        sql = self.listed_by_server(glob)
        rows = yield from Query(name=f"List {glob} through ClickHouse", sql=sql, settings=self.kind.quick_failure)
        listed = units_of(rows)
        return replace(self, base=self.base_of(listed, plain)), [ObjectPage.of(listed)]

    def listed_by_server(self, glob: str, *, limit: str = "") -> Sql:
        """Return the statement by which a server lists objects; `units_of` parses the answer."""
        columns = f"SELECT {self.kind.path}, _size, _etag, toUnixTimestamp(_time) FROM "
        return self.table_function(glob, file_format="One").between(columns, limit)

    def base_of(self, listed: Sequence[Unit], prefix: str) -> str:
        """Return the part of all paths before the prefix: the bucket, and the rest of the collection's URL."""
        if not listed or not self.named_collection:
            return f"{self.bucket}/"
        first = listed[0].path
        # Also at the very start: the collection's URL may end before the bucket.
        bases = (first[:at] for at in range(len(first)) if prefix and (not at or first[at - 1] == "/"))
        fitting = (base for base in bases if all(unit.path.startswith(base + prefix) for unit in listed))
        return next(fitting, first[: first.find("/") + 1])

    def batches(self, manifest: Manifest) -> list[Batch]:
        """Group the manifest's objects into few batches: one, except for keys with special characters of globs."""
        grouped = grouped_by_glob([unit.path for unit in manifest.objects], base=self.base)
        return [Batch(glob, paths, self.kind.path) for glob, paths in grouped]

    def glob_of(self, path: str) -> str:
        """Return a glob that matches one object, and rarely another."""
        return glob_of_key(path[len(self.base) :])

    def for_worker(self, path: str) -> tuple[str, str] | None:
        """Return the bucket and the key by which the worker reads an object; see `Source.for_worker`."""
        return None if self.lists_through_clickhouse else (self.bucket, path.removeprefix(self.base))

    def beginning_of(self, batch: Batch) -> str:
        """Return how the paths of a batch begin, as they are listed."""
        return self.base + plain_prefix(batch.glob)

    def access_trial(self, period: Period | None) -> AccessTrial:
        """Return a try to get at a period's objects, or at those of any period."""
        return ObjectTrial(self, period)

    def check_readable(self, unit: Unit, key: str) -> None:
        """Check that ClickHouse can read an object."""
        if unreadable := next((part for part in self.kind.unreadable if part in key), ""):
            raise SourceError(
                f"ClickHouse cannot read {unit.path}: {unreadable!r} in a key has a special meaning for it. Copy the "
                "object to another key, or leave it out with key=…."
            )


@dataclass(frozen=True)
class ObjectTrial(AccessTrial):
    """A try to list the first objects of a period, and to read one."""

    source: ObjectSource
    period: Period | None

    @property
    def where(self) -> str:
        """The prefix that is listed, for messages."""
        return f"{self.source.place}/{self._keys.prefix}"

    @property
    def options(self) -> str:
        """The options of the command line that say where the objects are."""
        return "--bucket and --key"

    @property
    def _keys(self) -> PeriodKeys:
        template = self.source.template
        return template.keys_of(self.period) if self.period else template.finest.keys_of_all

    def list_from_worker(self) -> Steps[Sequence[Unit]] | None:
        """List the first page from the worker; None if ClickHouse lists."""
        return None if self.source.lists_through_clickhouse else self._first_page()

    def _first_page(self) -> Steps[Sequence[Unit]]:
        name = f"List objects under {self.source.url}/{self._keys.prefix}"
        pages = yield from ListObjects(name=name, bucket=self.source.bucket, prefix=self._keys.prefix)
        return list(islice(chain.from_iterable(page.objects() for page in pages), _LISTED_BY_WORKER))

    def list_on_server(self) -> Sql:
        """Return the statement by which a server lists the first objects."""
        glob = f"{plain_prefix(self._keys.prefix)}**"
        return self.source.listed_by_server(glob, limit=f" LIMIT {_LISTED_BY_SERVER}")

    def read_on_server(self, listed: Sequence[Unit]) -> Sql | None:
        """Return the statement that reads the footer of Parquet, or the first line of another file."""
        source, keys = self.source, self._keys
        source = replace(source, base=source.base_of(listed, plain_prefix(keys.prefix)))
        fitting = [unit for unit in listed if keys.select(unit.path[len(source.base) :], unit.size_bytes)]
        return read_a_little(source, fitting)


def units_of(rows: Iterable[Row]) -> list[Unit]:
    """Return the objects that a server has listed."""
    return [Unit(path, size, etag.strip('"'), datetime.fromtimestamp(at, UTC)) for path, size, etag, at in rows]


def _passes_of(template: KeyTemplate, periods: Collection[Period] | None, *, may_join: bool) -> list[_Pass]:
    """Return the passes that list the objects of periods: one for each prefix, or of many one for all.

    A page holds the keys of many small periods; a prefix that has more than a page is cut.
    """
    if periods is None:
        return [_Pass(template.keys_of_all, None, template.narrower)]
    by_prefix: dict[str, set[Period]] = defaultdict(set)
    for period in periods:
        by_prefix[template.keys_of(period).prefix].add(period)
    if len(by_prefix) > _FEW_PREFIXES and may_join:
        keys, narrower = template.together(periods)
        return [_Pass(keys, periods, narrower)]
    return [_Pass(template.keys_of(min(joined)), joined) for joined in by_prefix.values()]


def read_a_little(source: ObjectSource, objects: Sequence[Unit]) -> Sql | None:
    """Return the statement that reads the footer of Parquet, or the first line of another file; None without any."""
    if not objects:
        return None
    path = min(objects, key=lambda unit: unit.size_bytes).path
    glob = source.glob_of(path)
    if _is_parquet(path):
        function = source.table_function(glob, file_format="ParquetMetadata")
        return function.between("SELECT num_rows FROM ", " LIMIT 1")
    function = source.table_function(glob, file_format="LineAsString", structure="line String")
    return function.between("SELECT length(line) FROM ", " LIMIT 1")


def _is_parquet(path: str) -> bool:
    try:
        return format_of_key(path).name == "Parquet"
    except ConfigurationError:
        return False
