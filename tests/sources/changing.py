"""A period of objects that change under a load, in ways that their sizes and numbers of rows do not tell."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_chs3.testbed.trips import WRITERS, PeriodFacts, Trips, read_facts
from tests.sources.store_lake import StoreLake
from tests.sources.trips_target import PERIOD

if TYPE_CHECKING:
    from collections.abc import Callable

Kind = Literal["parquet", "jsonl"]

_TRIPS = Trips(rows_per_period=400, files_per_period=4)
_ROWS = 100
_FORMATS = {"parquet": "Parquet", "jsonl": "JSONEachRow"}


def file_of(kind: Kind, number: int, version: int = 1, *, rows: int = _ROWS) -> bytes:
    """A file of the period: its versions, from 1 to 9, have the same size, and each row another value."""
    table = _TRIPS.table(PERIOD).slice(number * _ROWS, rows)
    passengers = pa.array([version] * len(table), pa.uint8())
    table = table.set_column(table.schema.get_field_index("passenger_count"), "passenger_count", passengers)
    if kind == "jsonl":
        return WRITERS[kind](table)
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="none", use_dictionary=False)
    return buffer.getvalue()


class ChangingPeriod:
    """Three files of a storage: the first stays."""

    def __init__(self, lake: StoreLake, kind: Kind) -> None:
        self.lake = lake
        self.kind: Kind = kind
        for number in range(3):
            self.put(number, file_of(kind, number))

    def key(self, number: int) -> str:
        return f"trips/{PERIOD}/{number}.{self.kind}"

    def put(self, number: int, body: bytes) -> None:
        self.lake.objects.put(self.key(number), body)

    def overwrite(self) -> None:
        """Replace a file by one of the same size, with as many rows."""
        self.put(1, file_of(self.kind, 1, version=2))

    def grow(self) -> None:
        """Replace a file by one that has more rows."""
        self.put(1, file_of(self.kind, 1, version=3, rows=150))

    def delete(self) -> None:
        self.lake.objects.delete(self.key(2))

    def add(self) -> None:
        self.put(3, file_of(self.kind, 3))

    @property
    def changes(self) -> dict[str, Callable[[], None]]:
        return {"overwritten": self.overwrite, "longer": self.grow, "deleted": self.delete, "added": self.add}

    def facts(self) -> PeriodFacts:
        """Return the storage's rows, as a server reads them."""
        function = self.lake.objects.function(f"trips/{PERIOD}/*", file_format=_FORMATS[self.kind])
        with self.lake.cluster.nodes[0].client() as client:
            return read_facts(client, function, PERIOD)

    def load(self) -> str:
        return str(self.lake.load(max_shrink_fraction=0.9)["status"])
