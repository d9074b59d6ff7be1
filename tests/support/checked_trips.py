"""A table of trips whose loads have checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.lake import PERIOD, Lake

NO_NULLS = {"column_mapping": {"fare": {"null_check": {"equal_to": 0}}}}


class Trips:
    """A table of trips, and files of them."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        lake.on_every_node(
            f"CREATE TABLE {lake.database}.{lake.table} "
            "(at DateTime('UTC'), id UInt32, fare Nullable(Decimal(9, 2)), `odd ``name` String DEFAULT 'x') "
            "ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY id"
        )

    def put(self, name: str, ids: range, *, fare: str = "1.50", period: str = PERIOD) -> None:
        lines = (f"{period}-05 12:00:00,{number},{fare}\n" for number in ids)
        self.lake.put(f"t/{period}/{name}.csv", ("at,id,fare\n" + "".join(lines)).encode())

    def load(self, checks: Mapping[str, Any], *, context: Any = None, **options: Any) -> Any:
        arguments = {"key": "t/{YYYY-MM}/", "file_format": "CSVWithNames", "period": PERIOD, "checks": checks}
        return self.lake.operator(**(arguments | options)).execute(context or {})

    def ids(self, period: str = PERIOD) -> list[int]:
        table = f"cluster('{self.lake.cluster.name}', {self.lake.database}, {self.lake.table})"
        sql = f"SELECT id FROM {table} WHERE toYYYYMM(at) = {period.replace('-', '')} ORDER BY id"
        return [number for (number,) in self.lake.on_node(0, sql)]


@pytest.fixture
def trips(lake: Lake) -> Trips:
    return Trips(lake)
