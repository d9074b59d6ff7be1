"""The places of a period's objects: one of these is the `objects` of operators and `scheduled_load`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from airflow_provider_chs3.core.source.source import Source
    from airflow_provider_chs3.core.source.store_kind import StoreKind
    from airflow_provider_chs3.sources.listing import Listing


@dataclass(kw_only=True)
class Storage(ABC):
    """Where the objects of periods are stored. Airflow renders its template fields with those of the operator."""

    template_fields: ClassVar[Sequence[str]]
    #: Where its `StoreKind` is, below this package.
    kind_name: ClassVar[str]
    #: Options of the command line → arguments.
    options: ClassVar[Mapping[str, str]]

    @classmethod
    def of_options(cls, given: Mapping[str, Any]) -> Self:
        """Return the storage that options of the command line name.

        Args:
            given: The options that have a value.
        """
        return cls(**{cls.options[name]: value for name, value in given.items()})

    @property
    def template(self) -> str:
        """Template of the keys of a period; any key where periods do not go by keys."""
        template: str = getattr(self, self.options["key"]) if "key" in self.options else "**"
        return template

    @property
    def place(self) -> str:
        """The bucket, or its equivalent in the storage; empty if there is none, or a named collection names it."""
        return getattr(self, self.options["bucket"]) or "" if "bucket" in self.options else ""

    @abstractmethod
    def listing(self) -> Listing:
        """Return the listing, as seen from the worker."""

    @classmethod
    def kind(cls) -> StoreKind:
        """Return what ClickHouse does differently for the storage."""
        kind: StoreKind = resolve_name(f"airflow_provider_chs3.sources.{cls.kind_name}")
        return kind

    @abstractmethod
    def source(self, listing: Any) -> Source:
        """Return what the servers read, with their credentials.

        Args:
            listing: What `listing` returned; it knows how the servers get in.

        Raises:
            ConfigurationError: If an argument or the connection is wrong.
        """

    @abstractmethod
    def namespace(self, place: str) -> str:
        """Return OpenLineage's namespace of a bucket's objects.

        Args:
            place: The bucket, or its equivalent in the storage.
        """

    def dataset(self, path: str) -> tuple[str, str]:
        """Return OpenLineage's namespace and name of the object at a path.

        Args:
            path: `<bucket>/<key>`.
        """
        place, _, key = path.partition("/")
        return self.namespace(place), key or "/"

    def table_dataset(self) -> tuple[str, str] | None:
        """Return OpenLineage's namespace and name of the table whose rows are loaded; None where objects are."""
        return None

    def serialize(self) -> dict[str, Any]:
        """Return what Airflow's UI shows; it contains no secret."""
        return {"kind": type(self).__name__, **asdict(self)}


def same_names(*names: str) -> dict[str, str]:
    """Return options of the command line that are called as their arguments.

    Args:
        *names: The names.
    """
    return dict(zip(names, names, strict=True))
