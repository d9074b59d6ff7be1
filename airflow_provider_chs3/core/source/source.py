"""The place that a month comes from: it lists what is there, with versions, and renders what reads it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from airflow_provider_chs3.core.source.store_kind import StoreKind
from airflow_provider_chs3.core.sql.quoting import Sql, literal
from airflow_provider_chs3.core.values.models import Manifest, Month, S3Object, SettingValues
from airflow_provider_chs3.core.values.month_objects import MonthObjects
from airflow_provider_chs3.core.workflow.operations import Steps
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError, ConfigurationError


@dataclass(frozen=True, slots=True)
class Batch:
    """Objects that one statement reads.

    Args:
        glob: Glob relative to the source's base; matches the objects and maybe more.
        paths: The exact objects, as they are listed.
        path: SQL of an object's path; see `StoreKind`.
    """

    glob: str
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
    """A column that the source itself knows.

    Args:
        name: Its name.
        type: Its type in the source's words.
        clickhouse_type: The type as which ClickHouse reads it.
        is_container: Whether its values are arrays, rows or the like, which the source writes in a way of its own.
    """

    name: str
    type: str
    clickhouse_type: str
    is_container: bool = False


@dataclass(frozen=True, kw_only=True)
class Checksum:
    """A sum of the values of a column: a row in place of another one would show.

    Args:
        column: The column, of whole numbers.
        total: Their sum.
    """

    column: str
    total: int


class AccessTrial(ABC):
    """A try to get at a source that reads little of it, from the worker and from each server."""

    @property
    @abstractmethod
    def where(self) -> str:
        """The place that is tried, for messages."""

    @property
    def options(self) -> str:
        """The options of the command line that say where it is."""
        return "--source-table and --month-column"

    @abstractmethod
    def list_from_worker(self) -> Steps[Sequence[S3Object]] | None:
        """List a few objects from the worker; None if it does not list."""

    def list_on_server(self) -> Sql | None:
        """Return the statement with which a server lists a few objects; None if it does not list."""
        return None

    @abstractmethod
    def read_on_server(self, listed: Sequence[S3Object]) -> Sql | None:
        """Return the statement that reads a little of a small object; None if no object fits.

        Args:
            listed: The objects that were listed, by the worker or a server.
        """


class Source(ABC):
    """The place that months come from: a storage of objects, or a table of a database, of which a month is one object.

    Args:
        kind: What ClickHouse does differently for this source; each class has its own.
    """

    kind: ClassVar[StoreKind]

    @property
    @abstractmethod
    def place(self) -> str:
        """The place of the objects, for messages."""

    @property
    @abstractmethod
    def pattern(self) -> str:
        """The pattern by which a month's objects are recognized there, for messages."""

    @property
    @abstractmethod
    def named_collection(self) -> str | None:
        """The named collection through which the servers read; None if they use other credentials."""

    @property
    def server_url(self) -> str:
        """The address at which the servers look for the source; empty if a named collection says it."""
        return ""

    @abstractmethod
    def access_trial(self, month: Month | None) -> AccessTrial:
        """Return a try to get at a month's objects, or at those of any month."""

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
        """Whether there are files, of some format, that have their columns."""
        return not self.known_columns

    @property
    def why_one_by_one(self) -> str:
        """Why its months are loaded one by one; empty if one insert may read several."""
        return ""

    @property
    def server_identity(self) -> str:
        """SQL that distinguishes a server from all others, if the source must know which servers read; else empty."""
        return ""

    def read_by(self, shards: Sequence[Sequence[str]]) -> Self:
        """Return the source as the servers read it together.

        Args:
            shards: The `server_identity` of the servers of each shard.
        """
        return self

    def list_month(self, month: Month) -> Steps[tuple[Self, Manifest]]:
        """List the month's objects, each with its version.

        Returns:
            The source, with all that listing found out about it, and the manifest.

        Raises:
            SourceError: If ClickHouse cannot read one of them.
        """
        source, manifests = yield from self.list_months([month])
        return source, manifests[month]

    @abstractmethod
    def list_months(self, months: Collection[Month]) -> Steps[tuple[Self, dict[Month, Manifest]]]:
        """List the objects of the months to load, each with its version.

        Returns:
            The source, with all that listing found out about it, and the manifest of each month.

        Raises:
            SourceError: If ClickHouse cannot read one of them.
        """

    @abstractmethod
    def summarize_months(self, months: Collection[Month] | None) -> Steps[dict[Month, MonthObjects]]:
        """List months for a comparison alone: also those whose objects cannot be loaded.

        Args:
            months: The months; None for all that exist.

        Returns:
            Each requested or existing month.

        Raises:
            SourceError: If all were requested, and a storage of objects has none.
        """

    def missing_marker(self, ready_key: str, month: Month) -> Steps[str]:
        """Return the key of a month's ready marker if it is not there; empty if it is.

        Args:
            ready_key: The key, a template of it, or a name beside the month's objects.
            month: The month.

        Raises:
            ConfigurationError: If it may be several objects, or none can be there.
        """
        raise ConfigurationError(
            f"policies['ready_key']={ready_key!r} names an object, and {self.place} has rows: leave it out."
        )

    def check_access(self, manifest: Manifest, *, settings: SettingValues) -> Steps[None]:
        """Check access by the servers where reading would take long to fail, and that known columns have their types.

        Args:
            manifest: A month; it has objects.
            settings: Settings of statements that look at them.

        Raises:
            SourceError: If they read a column as another type.
            PreflightError: If they are too old to read the source.
            TransientError: If the source does not answer them.
        """
        yield from ()

    def explained(self, error: ClickHouseServerError) -> Chs3Error:
        """Return an error of a server that reads the source in the source's own words; else the error itself."""
        return error

    def known_rows(self, manifest: Manifest) -> int | None:
        """Return the rows of all objects, if the source itself knows them; else None."""
        return None

    def checksum_of(self, manifest: Manifest) -> Checksum | None:
        """Return the sum of the keys of all rows, if the source itself knows it; else None."""
        return None

    @abstractmethod
    def batches(self, manifest: Manifest) -> list[Batch]:
        """Group the manifest's objects into few batches, each of which one statement reads."""

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
        """Return what stands behind FROM to read objects, on all nodes if a cluster is given.

        Args:
            glob: Glob relative to the base.
            file_format: ClickHouse's name of the format.
            cluster: The cluster that reads; None reads on one node.
            structure: Names and types of the columns; `auto` lets the server infer them.
            compression: ClickHouse's name of the compression; `auto` derives it from the key.
        """

    def rows_of(self, batch: Batch) -> str:
        """Return the condition that limits a statement to the rows of a batch: those of its objects, by default."""
        return batch.condition

    def left_out_rows(self, path: str) -> int:
        """Return how many rows of an object `rows_of` leaves out."""
        return 0

    def condition_of(self, *paths: str) -> str:
        """Return the condition that limits a statement to rows of exactly these objects; see `Batch.condition`."""
        return Batch("", paths, self.kind.path).condition

    def for_worker(self, path: str) -> tuple[str, str] | None:
        """Return the bucket and the key by which the worker reads an object; None if only servers get in."""
        return None

    def path_in_error(self, name: str) -> str:
        """Return an object's path as it is listed, from what an error of ClickHouse calls it."""
        return name

    def beginning_of(self, batch: Batch) -> str:
        """Return how the paths of a batch begin, as they are listed; empty if nothing is known of it."""
        return ""

    def select(self, values: Sequence[str], *, function: Sql, condition: str, cluster: str | None) -> Sql:
        """Return the SELECT of an insert.

        Args:
            values: The expressions to insert.
            function: What `table_function` returned.
            condition: The rows' condition, which also checks their values.
            cluster: The cluster that reads; None reads on one node.
        """
        return Sql(f"SELECT {', '.join(values)} FROM {function.text} WHERE {condition}", function.secrets)
