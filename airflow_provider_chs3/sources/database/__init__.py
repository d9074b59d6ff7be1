"""Tables of databases that periods are loaded from: one of these is the `objects` of operators and `scheduled_load`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from airflow_provider_chs3.sources.storage import Storage, same_names

if TYPE_CHECKING:
    from airflow_provider_chs3.sources.database.dialect import SqlTable
    from airflow_provider_chs3.sources.database.listing import RowsListing
    from airflow_provider_chs3.sources.database.reading import SqlSource


#: Arguments that operators call otherwise: `table` and `timezone` are those of ClickHouse's table there.
CALLED_BY_OPERATORS = {"table": "source_table", "timezone": "row_timezone"}


@dataclass(kw_only=True)
class TableRows(Storage):
    """Rows of a table, in which one column decides the period of each row."""

    template_fields: ClassVar[Sequence[str]] = ("table", "schema", "named_collection", "server_address")
    options: ClassVar[Mapping[str, str]] = {
        "source_table": "table",
        **same_names("time_column", "named_collection", "key_column", "fingerprint", "timezone"),
    }

    table: str
    time_column: str
    schema: str | None = None
    key_column: str | None = None
    fingerprint: str | None = None
    timezone: str = "UTC"
    server_address: str | None = None
    named_collection: str | None = None

    @classmethod
    def of_options(cls, given: Mapping[str, Any]) -> Self:
        """Return the table that options of the command line name: with its schema, or without; see `Storage`."""
        schema, _, table = given["source_table"].rpartition(".")
        place = super().of_options({**given, "source_table": table})
        return replace(place, schema=schema) if schema else place

    @property
    def place(self) -> str:
        """The table with its schema."""
        return f"{self.schema}.{self.table}" if self.schema else self.table

    def source(self, listing: Any) -> SqlSource:
        """Return what the servers read; see `Storage.source`."""
        source: SqlSource = listing.source(server_address=self.server_address, named_collection=self.named_collection)
        return source

    def namespace(self, place: str) -> str:
        """Return OpenLineage's namespace of the database."""
        listing = self.listing()
        return f"{listing.dialect.scheme}://{listing.address}"

    def table_dataset(self) -> tuple[str, str]:
        """Return OpenLineage's namespace and name of the table."""
        return self.namespace(""), f"{self.listing().connection.schema}.{self.place}"

    @abstractmethod
    def listing(self) -> RowsListing:
        """Return what asks the database, from the worker."""

    def _table(self) -> SqlTable:
        from airflow_provider_chs3.sources.database.dialect import SqlTable

        return SqlTable(
            name=self.table,
            schema=self.schema,
            time_column=self.time_column,
            key_column=self.key_column,
            fingerprint=self.fingerprint,
            timezone=self.timezone,
        )
