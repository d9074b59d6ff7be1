"""Rows that a SELECT makes of another table of the same servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

from airflow_provider_chs3.client.listing import Listing
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.sources.storage import Storage

if TYPE_CHECKING:
    from airflow_provider_chs3.core.model.models import ObjectPage
    from airflow_provider_chs3.core.periods.select_source import SelectSource


@dataclass(kw_only=True)
class ClickHouseRows(Storage):
    """Rows that a SELECT makes of a period of another table, its base, on the same servers.

    Args:
        sql: A SELECT over the base. Each shard runs it over its own rows.
        from_table: The base, a local MergeTree table, partitioned as the table to load or by shorter periods: `trips`,
            or `taxi.trips`. Without a database, it is that of the table to load.
        view: In place of both, a materialized view: its SELECT, over the table that it is on.

    Raises:
        ConfigurationError: If neither is given, or both are.
    """

    template_fields: ClassVar[Sequence[str]] = ("sql", "from_table", "view")
    kind_name: ClassVar[str] = "clickhouse.reading:SELECT"
    options: ClassVar[Mapping[str, str]] = {}

    sql: str | None = None
    from_table: str | None = None
    view: str | None = None
    #: See `beside`.
    servers: Callable[[], tuple[str, Mapping[str, Any]]] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        given = [name for name in self.template_fields if getattr(self, name)]
        if given not in (["sql", "from_table"], ["view"]):
            raise ConfigurationError(
                f"A SELECT and its table, or a view, say what is loaded, not {' and '.join(given) or 'nothing'}: set "
                "sql and from_table, or view."
            )

    def beside(self, servers: Callable[[], tuple[str, Mapping[str, Any]]]) -> Self:
        """Return the rows as the servers of a task's table read them; see `Storage.beside`."""
        twin = copy(self)
        twin.servers = servers
        return twin

    def listing(self) -> Listing:
        """Return a listing of nothing: the servers are asked."""
        return _NoListing()

    def source(self, listing: Any) -> SelectSource:
        """Return what the servers read; see `Storage.source`."""
        from airflow_provider_chs3.core.model.models import TableName
        from airflow_provider_chs3.core.periods.select_source import SelectSource
        from airflow_provider_chs3.core.target.topology import TableRequest

        assert self.servers is not None  # set by `beside`
        _, of_table = self.servers()
        named = self.from_table or self.view or ""
        base = TableName.of(named, None, default_database=of_table["target"].database)
        return SelectSource(
            sql=(self.sql or "").strip().removesuffix(";"), base=TableRequest(**{**of_table, "target": base})
        )

    def namespace(self, place: str) -> str:
        """Return OpenLineage's namespace of the servers."""
        assert self.servers is not None  # set by `beside`
        return self.servers()[0]

    def table_dataset(self) -> tuple[str, str]:
        """Return OpenLineage's namespace and name of the base, or of the view over it."""
        return self.namespace(""), str(self.source(None).base.target)

    def serialize(self) -> dict[str, Any]:
        """Return what Airflow's UI shows."""
        given = {"sql": self.sql, "from_table": self.from_table, "view": self.view}
        return {"kind": type(self).__name__, **{name: value for name, value in given.items() if value is not None}}


class _NoListing(Listing):
    def pages(
        self, bucket: str, prefix: str, narrower: Callable[[str], Sequence[str]] | None = None
    ) -> Iterator[ObjectPage]:
        yield from ()
