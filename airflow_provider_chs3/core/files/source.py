"""The place that periods come from: it lists what is there, renders what reads it, and knows what proves that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from airflow_provider_chs3.core.model.models import HeldObjects, Manifest, PeriodObjects, SettingValues, Unit
from airflow_provider_chs3.core.model.period import Grain, Period
from airflow_provider_chs3.core.model.store_kind import StoreKind
from airflow_provider_chs3.core.sql.quoting import Sql, literal
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError, ConfigurationError


class AccessTrial(ABC):
    """A try to get at a source that reads little of it, from the worker and from each server."""

    @property
    @abstractmethod
    def where(self) -> str:
        """The place that is tried, for messages."""

    @property
    def options(self) -> str:
        """The options of the command line that say where it is."""
        return "--source-table and --time-column"

    @abstractmethod
    def list_from_worker(self) -> Steps[Sequence[Unit]] | None:
        """List a few objects from the worker; None if it does not list."""

    def list_on_server(self) -> Sql | None:
        """Return the statement with which a server lists a few objects; None if it does not list."""
        return None

    @abstractmethod
    def read_on_server(self, listed: Sequence[Unit]) -> Sql | None:
        """Return the statement that reads a little of a small object; None if no object fits."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Objects that one statement reads."""

    #: Glob relative to the source's base; matches the objects and maybe more.
    glob: str
    #: The exact objects, as they are listed.
    paths: tuple[str, ...]
    path: str = "_path"

    @property
    def condition(self) -> str:
        """The condition that limits a statement to rows of exactly these objects.

        It uses literals: with a subquery s3Cluster was seen to lose objects without an error.
        """
        return f"{self.path} IN ({', '.join(map(literal, self.paths))})"


@dataclass(frozen=True, kw_only=True)
class KnownColumn:
    """A column that the source itself knows."""

    name: str
    type: str
    clickhouse_type: str
    is_container: bool = False


@dataclass(frozen=True, kw_only=True)
class Checksum:
    """A sum of the values of a column: a row in place of another one would show."""

    column: str
    total: int


class Source(ABC):
    """The place that periods come from: a storage of objects, or a table of a database, one unit for each period.

    It lists its periods and their objects, renders what reads them, and gives the facts that it knows about their rows.
    """

    kind: ClassVar[StoreKind]

    @property
    @abstractmethod
    def place(self) -> str:
        """The place of the objects, for messages."""

    @property
    @abstractmethod
    def pattern(self) -> str:
        """The pattern by which a period's objects are recognized there, for messages."""

    def leaving_out(self) -> Self:
        """Return the source as it is read where rows of other periods are left out: as always, by default."""
        return self

    @property
    def arrival_grain(self) -> Grain:
        """The length of the shortest periods whose objects the source tells apart."""
        raise NotImplementedError

    def arrivals(self, period: Period) -> tuple[str, Callable[[Unit], bool]]:
        """Return how the paths of a period's objects begin, and the condition that an object is one of these.

        The source is one that has listed the period.
        """
        raise NotImplementedError

    def arrival_of(self, unit: Unit) -> str:
        """Return in which of these periods an object came; empty if its key does not say so."""
        raise NotImplementedError

    def holding(self, held: HeldObjects) -> Self:
        """Return the source as it lists periods of the table, rather than arrivals."""
        raise NotImplementedError

    def list_again(self, paths: Collection[str]) -> Steps[dict[str, Unit]]:
        """List objects of any periods by their paths; those that are gone are missing.

        The source is one that has listed a period.
        """
        raise NotImplementedError

    @abstractmethod
    def access_trial(self, period: Period | None) -> AccessTrial:
        """Return a try to get at a period's objects, or at those of any period."""

    def list_period(self, period: Period) -> Steps[tuple[Self, Manifest]]:
        """List the objects of one period; see `list_periods`."""
        source, manifests = yield from self.list_periods([period])
        return source, manifests[period]

    @abstractmethod
    def list_periods(self, periods: Collection[Period]) -> Steps[tuple[Self, dict[Period, Manifest]]]:
        """List the objects of the periods to load, each with its version.

        Returns:
            The source, with all that listing found out about it, and the manifest of each period.

        Raises:
            SourceError: If ClickHouse cannot read one of them.
        """

    @abstractmethod
    def summarize_periods(self, periods: Collection[Period] | Grain) -> Steps[dict[Period, PeriodObjects]]:
        """List each requested or existing period for a comparison alone, also if its objects cannot be loaded.

        Raises:
            SourceError: If all were requested, and a storage of objects has none.
        """

    def missing_marker(self, ready_key: str, period: Period) -> Steps[str]:
        """Return the key of a period's ready marker if it is not there; empty if it is.

        Raises:
            ConfigurationError: If it may be several objects, or none can be there.
        """
        raise ConfigurationError(
            f"policies['ready_key']={ready_key!r} names an object, and {self.place} has rows: leave it out."
        )

    @property
    def named_collection(self) -> str | None:
        """The named collection through which the servers read; None if they use other credentials."""
        return None

    @property
    def server_url(self) -> str:
        """The address at which the servers look for the source; empty if a named collection says it."""
        return ""

    @property
    def columns_elsewhere(self) -> Collection[str]:
        """Columns whose values the source knows if files lack them."""
        return ()

    @property
    def known_columns(self) -> Sequence[KnownColumn]:
        """The columns, if the source itself knows them; none where files have them."""
        return ()

    @property
    def has_files(self) -> bool:
        """Return whether there are files, of some format, that have their columns."""
        return not self.known_columns

    @property
    def why_one_by_one(self) -> str:
        """The reason to load periods one by one; empty if one insert may read several."""
        return ""

    @property
    def server_identity(self) -> str:
        """SQL that distinguishes a server from all others, if the source must know which servers read; else empty."""
        return ""

    def read_by(self, shards: Sequence[Sequence[str]]) -> Self:
        """Return the source as the servers read it together."""
        return self

    def check_access(self, manifest: Manifest, *, settings: SettingValues) -> Steps[None]:
        """Check access by the servers where reading would take long to fail, and that known columns have their types.

        Raises:
            SourceError: If they read a column as another type.
            PreflightError: If they are too old to read the source.
            TransientError: If the source does not answer them.
        """
        yield from ()

    def explained(self, error: ClickHouseServerError) -> Chs3Error:
        """Return an error of a server that reads the source in the source's own words; else the error itself."""
        return error

    @abstractmethod
    def batches(self, manifest: Manifest) -> list[Batch]:
        """Group the manifest's objects into few batches, each read by one statement."""

    @abstractmethod
    def glob_of(self, path: str) -> str:
        """Return a glob that matches one object, and rarely another."""

    @abstractmethod
    def table_function(
        self,
        glob: str,
        *,
        file_format: str,
        cluster: str | None = None,
        structure: str = "auto",
        compression: str = "auto",
    ) -> Sql:
        """Return what stands behind FROM to read objects, on all nodes if a cluster is given."""

    def rows_of(self, batch: Batch) -> str:
        """Return the condition that limits a statement to the rows of a batch: those of its objects, by default."""
        return batch.condition

    def condition_of(self, *paths: str) -> str:
        """Return the condition that limits a statement to rows of exactly these objects; see `Batch.condition`."""
        return Batch("", paths, self.kind.path).condition

    def path_in_error(self, name: str) -> str:
        """Return an object's path as it is listed, from what an error of ClickHouse calls it."""
        return name

    def beginning_of(self, batch: Batch) -> str:
        """Return how the paths of a batch begin, as they are listed; empty if that is not known."""
        return ""

    def select(self, values: Sequence[str], *, function: Sql, condition: str, cluster: str | None) -> Sql:
        """Return the SELECT of an insert."""
        return function.between(f"SELECT {', '.join(values)} FROM ", f" WHERE {condition}")

    def known_rows(self, manifest: Manifest) -> int | None:
        """Return the rows of all objects, if the source itself knows them; else None."""
        return None

    def checksum_of(self, manifest: Manifest) -> Checksum | None:
        """Return the sum of the keys of all rows, if the source itself knows it; else None."""
        return None

    def left_out_rows(self, path: str) -> int:
        """Return how many rows of an object `rows_of` leaves out."""
        return 0

    def recorded_rows(self, path: str) -> int | None:
        """Return the rows of an object in all periods of the table, if that is what periods are listed by."""
        return None

    def for_worker(self, path: str) -> tuple[str, str] | None:
        """Return the bucket and the key by which the worker reads an object; None if only servers get in."""
        return None
