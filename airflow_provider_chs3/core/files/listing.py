"""List the periods of a source: what is there, with versions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Self

from airflow_provider_chs3.core.model.models import HeldObjects, Manifest, PeriodObjects, Unit
from airflow_provider_chs3.core.model.period import Grain, Period
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.exceptions import ConfigurationError


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


class SourceListing(ABC):
    """A listing of a source: its periods, their objects, and where they are."""

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
        """List the period's objects, each with its version.

        Returns:
            The source, with all that listing found out about it, and the manifest.

        Raises:
            SourceError: If ClickHouse cannot read one of them.
        """
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
        """List periods for a comparison alone: also those whose objects cannot be loaded.

        Returns:
            Each requested or existing period.

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
