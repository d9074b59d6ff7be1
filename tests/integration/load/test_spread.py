"""Objects by arrival, tables by event: each partition holds exactly the rows that the objects have for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.faults.strikes import Strikes, strikes
from tests.integration.lake import Lake

__all__ = ["strikes"]

#: The load reads the path of each row's object, too.
BY_OBJECT = {
    "columns": None,
    "file_format": "JSONEachRow",
    "select": {"at": "at", "number": "number", "path": "_path"},
    "object_column": "path",
}


@dataclass
class Arrivals:
    """A table by day, and objects by the day on which they arrive."""

    lake: Lake
    key: str = "toDate(at)"
    engine: str = "MergeTree"
    is_by_object: bool = False
    objects: dict[str, list[tuple[datetime, int]]] = field(default_factory=dict)

    def create(self) -> None:
        path = ", path String" if self.is_by_object else ""
        self.lake.on_every_node(
            f"CREATE TABLE {self.name} (at DateTime('UTC'), number Int64{path}) ENGINE = {self.engine} "
            f"PARTITION BY {self.key} ORDER BY number"
        )

    @property
    def name(self) -> str:
        return f"{self.lake.database}.{self.lake.table}"

    def put(self, arrival: int, name: str, first: int, days: list[int], *, rows: int = 2) -> None:
        """Write an object that arrives on a day of November, with rows of other days."""
        noon = datetime(2026, 11, 1, 12)
        pairs = [(noon + timedelta(days=day - 1), first + 100 * day + row) for day in days for row in range(rows)]
        self.write(arrival, name, pairs)

    def write(self, arrival: int, name: str, pairs: list[tuple[datetime, int]]) -> None:
        key = f"raw/2026-11-{arrival:02}/{name}"
        seconds = [(int(at.replace(tzinfo=UTC).timestamp()), number) for at, number in pairs]
        line = '{{"at": {}, "number": {}}}\n' if self.is_by_object else "{},{}\n"
        self.lake.put(key, "".join(line.format(*pair) for pair in seconds).encode() or b"\n")
        self.objects[key] = pairs

    def delete(self, arrival: int, name: str) -> None:
        key = f"raw/2026-11-{arrival:02}/{name}"
        self.lake.s3.delete_object(Bucket=self.lake.bucket, Key=key)
        del self.objects[key]

    def operator(self, arrival: int, **options: Any) -> S3ToClickHouseOperator:
        arguments = {
            "key": "raw/{YYYY-MM-DD}/*",
            "period": f"2026-11-{arrival:02}",
            "file_format": "CSV",
            "columns": ["at", "number"],
            "on_other_periods": "spread",
            "max_shrink_fraction": 1,
            **(BY_OBJECT if self.is_by_object else {}),
        }
        return self.lake.operator(**(arguments | options))

    def load(self, arrival: int, **options: Any) -> dict[str, Any]:
        return self.operator(arrival, **options).execute({})

    def expected(self) -> list[tuple[datetime, int]]:
        return sorted(pair for pairs in self.objects.values() for pair in pairs)

    def found(self) -> list[tuple[datetime, int]]:
        table = f"cluster('{self.lake.cluster.name}', {self.lake.database}, {self.lake.table})"
        rows = self.lake.on_node(0, f"SELECT at, number FROM {table}")
        return sorted((at.replace(tzinfo=None), number) for at, number in rows)

    def assert_exact(self) -> None:
        assert self.found() == self.expected()
        assert self.lake.left_behind() == []


@pytest.fixture
def arrivals(lake: Lake) -> Arrivals:
    arrivals = Arrivals(lake)
    arrivals.create()
    return arrivals


@pytest.fixture
def by_object(lake: Lake) -> Arrivals:
    arrivals = Arrivals(lake, is_by_object=True)
    arrivals.create()
    return arrivals


def test_rows_are_added_to_the_periods_that_they_belong_to(arrivals: Arrivals) -> None:
    arrivals.put(10, "a", 0, [10, 9, 3])
    result = arrivals.load(10)
    assert (result["status"], result["rows"], result["loaded_rows"]) == ("published", 6, 6)
    assert list(result["touched_periods"]) == ["2026-11-03", "2026-11-09", "2026-11-10"]
    arrivals.assert_exact()
    assert arrivals.load(10)["status"] == "unchanged"
    arrivals.put(11, "b", 5000, [11, 10, 9, 2])
    arrivals.put(11, "c", 9000, [11, 3])
    assert list(arrivals.load(11)["touched_periods"]) == [f"2026-11-{day:02}" for day in (2, 3, 9, 10, 11)]
    arrivals.assert_exact()
    arrivals.put(11, "late", 70, [1, 11])
    assert arrivals.load(11)["loaded_objects"] == 1
    arrivals.assert_exact()
    assert arrivals.load(10)["status"] == arrivals.load(11)["status"] == "unchanged"


def test_rows_of_overwritten_objects_go_from_all_periods(by_object: Arrivals) -> None:
    by_object.put(10, "a", 0, [10, 9, 3], rows=20)
    by_object.put(10, "b", 5000, [10, 9, 4], rows=20)
    by_object.put(10, "c", 9000, [10, 9, 4, 3], rows=60)
    by_object.load(10)
    by_object.assert_exact()
    by_object.put(10, "a", 0, [9, 5, 2])
    result = by_object.load(10)
    assert list(result["touched_periods"]) == [f"2026-11-{day:02}" for day in (2, 3, 5, 9, 10)]
    by_object.assert_exact()
    assert by_object.load(10)["status"] == "unchanged"
    by_object.delete(10, "b")
    with pytest.raises(AirflowFailException, match=r"1 object of 2026-11-10 .* is gone .*10/b"):
        by_object.load(10)
    assert by_object.load(10, on_deleted_objects="remove")["status"] == "published"
    by_object.assert_exact()
    assert by_object.load(10)["status"] == "unchanged"


def test_without_a_column_of_objects_these_periods_are_loaded_whole(arrivals: Arrivals) -> None:
    arrivals.put(10, "a", 0, [10, 9, 3])
    arrivals.put(10, "b", 5000, [10, 9, 4])
    arrivals.put(11, "c", 9000, [11, 10, 4, 3])
    arrivals.load(10)
    arrivals.load(11)
    arrivals.put(10, "a", 0, [9, 5, 2])
    result = arrivals.load(10)
    assert list(result["touched_periods"]) == [f"2026-11-{day:02}" for day in (2, 3, 5, 9, 10)]
    arrivals.assert_exact()
    arrivals.delete(10, "b")
    arrivals.load(10, on_deleted_objects="remove")
    arrivals.assert_exact()
    assert arrivals.load(10)["status"] == arrivals.load(11)["status"] == "unchanged"


STEPS = [
    "Create staging",
    "Insert 2 objects",
    "Count the rows of each object by period",
    "Attach the published rows",
    "Record the intent to publish",
    "Record 6 objects",
    "Publish",
    "Remove the replaced parts",
    "Record 2026-11-03 and 3 more as published",
]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_after_a_worker_died_the_next_run_is_exact(arrivals: Arrivals, strikes: Strikes, step: str, when: str) -> None:
    arrivals.put(10, "a", 0, [10, 9, 3])
    arrivals.load(10)
    arrivals.put(11, "b", 5000, [11, 10, 9])
    arrivals.put(11, "c", 9000, [11, 10, 3])

    def die() -> None:
        raise KeyboardInterrupt

    getattr(strikes, when)(step, die)
    with pytest.raises(KeyboardInterrupt):
        arrivals.load(11)
    strikes.reset()
    arrivals.load(11)
    arrivals.assert_exact()
    assert arrivals.load(11)["status"] == "unchanged"
