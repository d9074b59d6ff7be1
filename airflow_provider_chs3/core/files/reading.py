"""Render what reads a source: statements of the servers, and what is known about their answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from airflow_provider_chs3.core.model.models import Manifest, SettingValues
from airflow_provider_chs3.core.model.store_kind import StoreKind
from airflow_provider_chs3.core.sql.quoting import Sql, literal
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError


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
    """A column that the source itself knows."""

    name: str
    type: str
    clickhouse_type: str
    is_container: bool = False


class SourceReading(ABC):
    """The way in which servers read a source.

    Args:
        kind: Differences of this source in ClickHouse; each class has its own.
    """

    kind: ClassVar[StoreKind]

    @property
    @abstractmethod
    def named_collection(self) -> str | None:
        """The named collection through which the servers read; None if they use other credentials."""

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
