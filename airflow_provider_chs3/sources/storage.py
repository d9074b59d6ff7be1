"""The places of a period's objects: one of these is the `objects` of operators and `scheduled_load`."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from inspect import cleandoc
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from airflow_provider_chs3.core.arguments.declaration import Argument
from airflow_provider_chs3.exceptions import ConfigurationError

if TYPE_CHECKING:
    from airflow_provider_chs3.client.listing import Listing
    from airflow_provider_chs3.core.files.source import Source
    from airflow_provider_chs3.core.model.store_kind import StoreKind

#: As Airflow's `ObjectStoragePath` writes it: the connection, if any, comes before the bucket.
_URL = re.compile(r"([a-z0-9]+)://(?:([^/@]*)@)?([^/]*)/*(.*)", re.DOTALL | re.IGNORECASE)


class Location(NamedTuple):
    """The place of objects.

    Attributes:
        place: The bucket, or its equivalent in the storage; empty if there is none, or a named collection names it.
        template: Template of the keys of a period; any key where periods do not go by keys.
        conn_id: The connection that a URL names; empty if it names none.
    """

    place: str
    template: str
    conn_id: str = ""


@dataclass(kw_only=True)
class Storage(ABC):
    """A storage of the objects of periods. Airflow renders its template fields with those of the operator."""

    template_fields: ClassVar[Sequence[str]]
    #: Where its `StoreKind` is, below this package.
    kind_name: ClassVar[str]
    #: Options of the command line → arguments.
    options: ClassVar[Mapping[str, str]]
    #: Schemes of URLs that may be given as the key, and name the bucket, too.
    schemes: ClassVar[Sequence[str]] = ()

    @classmethod
    def of_options(cls, given: Mapping[str, Any]) -> Self:
        """Return the storage that options of the command line name.

        Args:
            given: The options that have a value.
        """
        return cls(**{cls.options[name]: value for name, value in given.items()})

    @classmethod
    def arguments(cls) -> dict[str, Argument]:
        """Return its fields as arguments, in the order of its docstring, with the help from there."""
        entry = re.compile(r"^    (\w+): (.*?)(?=^    \w|^\S|\Z)", re.MULTILINE | re.DOTALL)
        by_name = {field.name: field for field in fields(cls)}
        return {
            name: Argument(
                name=name, help=" ".join(text.split()), type=str(by_name[name].type), default=by_name[name].default
            )
            for name, text in entry.findall(cleandoc(cls.__doc__ or ""))
            if name in by_name
        }

    @property
    def location(self) -> Location:
        """The place of the objects, by bucket and key or by a URL; only this reads these options.

        Raises:
            ConfigurationError: If both name the bucket, or the URL is of another storage.
        """
        names = self.options
        # A path of Airflow's is rendered as one.
        template = str(getattr(self, names["key"])) if "key" in names else "**"
        place = getattr(self, names["bucket"]) or "" if "bucket" in names else ""
        url = _URL.fullmatch(template)
        is_of_others = url is not None and url[1].lower() not in self.schemes
        if is_of_others and not place:
            raise ConfigurationError(
                f"{names['key']}={template!r} is no URL of this storage, which begins with {self.schemes[0]}://: set "
                "objects=… for another one, such as GcsObjects; in a file, objects: {storage: gcs, …}."
            )
        if url is None or is_of_others:
            return Location(place, template)
        if place:
            raise ConfigurationError(
                f"{names['bucket']}={place!r}: {names['key']}={template!r} names the bucket, too: leave one out."
            )
        return Location(url[3], url[4], url[2] or "")

    @property
    def template(self) -> str:
        """Template of the keys of a period; see `Location`."""
        return self.location.template

    @property
    def place(self) -> str:
        """The bucket, or its equivalent; see `Location`."""
        return self.location.place

    def beside(self, servers: Callable[[], tuple[str, Mapping[str, Any]]]) -> Self:
        """Return the storage as a task uses it: one on the same servers as the task's table asks these.

        Args:
            servers: Returns their namespace in OpenLineage, and what requests say about the task's table.
        """
        return self

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
