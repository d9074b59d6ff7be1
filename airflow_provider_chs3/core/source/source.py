"""The place that a month comes from: it lists what is there, with versions, and renders what reads it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from airflow_provider_chs3.core.source.store_kinds import S3, StoreKind
from airflow_provider_chs3.core.sql.quoting import Sql, literal
from airflow_provider_chs3.core.values.models import Manifest, Month
from airflow_provider_chs3.core.workflow.operations import Steps


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
    path: str = S3.path

    @property
    def condition(self) -> str:
        """The condition that limits a statement to rows of exactly these objects.

        It uses literals: with a subquery s3Cluster was seen to lose objects without an error.
        """
        return f"{self.path} IN ({', '.join(map(literal, self.paths))})"


class Source(ABC):
    """The place that months come from: a storage of objects, or a table of a database, of which a month is one object.

    Args:
        kind: What ClickHouse does differently for this source; each class has its own.
    """

    kind: ClassVar[StoreKind]

    @property
    @abstractmethod
    def place(self) -> str:
        """Where the objects are, for messages."""

    @property
    @abstractmethod
    def pattern(self) -> str:
        """How a month's objects are recognized there, for messages."""

    @property
    @abstractmethod
    def named_collection(self) -> str | None:
        """The named collection through which the servers read; None if they use other credentials."""

    @property
    def columns_elsewhere(self) -> Collection[str]:
        """Columns whose values the source knows if files lack them."""
        return ()

    @abstractmethod
    def list_month(self, month: Month) -> Steps[tuple[Self, Manifest]]:
        """List the month's objects, each with its version.

        Returns:
            The source, with all that listing tells of it, and the manifest.

        Raises:
            SourceError: If ClickHouse cannot read one of them.
        """

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

    def condition_of(self, *paths: str) -> str:
        """Return the condition that limits a statement to rows of exactly these objects; see `Batch.condition`."""
        return Batch("", paths, self.kind.path).condition

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
