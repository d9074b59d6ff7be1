"""Whoever approves held rows knows nothing that their load was told: its record does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.cli.main import main
from tests.support.checked_trips import NO_NULLS, Trips, trips
from tests.support.holds import HOLDS, decide, discard, hold, of_period, versions
from tests.support.lake import PERIOD

#: A fixture.
__all__ = ["trips"]

#: Arguments of a load about its files, which an approval does not repeat.
TOLD: dict[str, Any] = {
    "select": {"at": "moment", "id": "number", "fare": "euros"},
    "csv": {"delimiter": ";", "null": "NA", "skip_lines": 1},
    "casts": {"lossy_columns": ["fare"]},
    "settings": {"session_timezone": "Europe/Berlin"},
    "key": "told/{YYYY-MM}/",
}


def put_told(trips: Trips, ids: range, *, fare: str = "1.234") -> None:
    lines = [f"{PERIOD}-05 12:00:00;{number};{fare}\n" for number in ids]
    trips.lake.put(f"told/{PERIOD}/a.csv", "".join(["exported today\n", "moment;number;euros\n", *lines]).encode())


def approve_in_a_shell(trips: Trips) -> None:
    assert main(["approve", *of_period(trips), "--bucket", trips.lake.bucket, "--key", TOLD["key"]]) == 0


@pytest.mark.thorough
@pytest.mark.parametrize("approve", [approve_in_a_shell, lambda trips: decide(trips, key=TOLD["key"])])
def test_who_approves_needs_nothing_that_the_load_was_told(trips: Trips, approve: Callable[[Trips], None]) -> None:
    put_told(trips, range(30))
    trips.load(NO_NULLS, policies=HOLDS | {"keep_versions": 1}, **TOLD)
    put_told(trips, range(40), fare="NA")
    hold(trips, keep_versions=1, **TOLD)
    approve(trips)
    found = trips.lake.on_node(0, f"SELECT DISTINCT at, fare FROM {trips.lake.database}.{trips.lake.table}")
    assert found == [(datetime(2026, 10, 5, 12, tzinfo=UTC), None)]
    assert trips.ids() == [*range(40)]
    assert versions(trips) == [(30, "")]
    # The published rows count as the load's: it finds nothing to do.
    assert trips.load(NO_NULLS, policies=HOLDS, **TOLD)["status"] == "unchanged"


def test_who_approves_cannot_publish_what_the_table_does_not_take_any_more(trips: Trips) -> None:
    put_told(trips, range(40), fare="NA")
    hold(trips, **TOLD)
    lake = trips.lake
    lake.on_every_node(
        f"ALTER TABLE {lake.database}.{lake.table} MODIFY COLUMN fare Nullable(Decimal(12, 2)) SETTINGS alter_sync = 2"
    )
    says = r"cannot be approved: the table changed since it was held: column 'fare' .* was Nullable\(Decimal\(9, 2\)\)"
    with pytest.raises(AirflowFailException, match=says):
        decide(trips, key=TOLD["key"])
    assert trips.ids() == []
    discard(trips)
