"""A target that is altered while a period is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.steps.operations import Step
from airflow_provider_chs3.exceptions import TransientError
from airflow_provider_chs3.testbed.trips import Trips, create_table_sql
from tests.support.lake import PERIOD, Lake
from tests.support.strikes import Strikes, strikes

__all__ = ["strikes"]

FIRST = Trips(rows_per_period=900, files_per_period=6)
SECOND = Trips(seed=2, rows_per_period=900, files_per_period=6)


@pytest.fixture
def once_staged(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Has something done once rows are staged, the next time."""
    perform = Runner.__dict__["perform"]

    def set_up(action: Callable[[], Any]) -> None:
        actions = [action]

        def acting(runner: Runner, step: Step) -> Any:
            outcome = perform.__get__(runner, Runner)(step)
            if step.name == "Count what is staged" and actions:
                actions.pop()()
            return outcome

        monkeypatch.setattr(Runner, "perform", acting)

    return set_up


COLUMN = ("ALTER TABLE {} ADD COLUMN extra UInt8 DEFAULT 7", "columns: none before, extra UInt8 DEFAULT 7 now")
DEFAULT = ("ALTER TABLE {} MODIFY COLUMN zone DEFAULT 'x'", "columns: zone String before, zone String DEFAULT 'x' now")
PROJECTION = ("ALTER TABLE {} ADD PROJECTION p (SELECT zone, count() GROUP BY zone)", "projections: none before")


@pytest.mark.three_nodes
@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("change", "altered"), [(COLUMN, (0, 1, 2)), (COLUMN, (2,)), (DEFAULT, (0, 1, 2)), (PROJECTION, (1,))]
)
def test_nothing_is_published_and_the_next_run_loads(
    trips_lake: Lake,
    once_staged: Callable[[Callable[[], Any]], None],
    change: tuple[str, str],
    altered: tuple[int, ...],
) -> None:
    statement, difference = change

    def alter(nodes: Iterable[int]) -> None:
        for number in nodes:
            trips_lake.on_node(number, statement.format(f"{trips_lake.database}.trips"))

    trips_lake.upload(FIRST)
    trips_lake.load()
    trips_lake.upload(SECOND)
    once_staged(lambda: alter(altered))
    with pytest.raises(TransientError, match=rf"was altered while {PERIOD} was loaded: its {difference}"):
        trips_lake.load()
    assert (trips_lake.facts(), trips_lake.left_behind()) == (FIRST.facts(PERIOD), [])
    alter({0, 1, 2} - set(altered))
    trips_lake.load()
    assert trips_lake.facts() == SECOND.facts(PERIOD)


INDEX = ("ALTER TABLE {} ADD INDEX i (fare) TYPE minmax", "")


@pytest.mark.three_nodes
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("step", "change"),
    # REPLACE accepts parts that lack a projection or an index.
    [("Publish", COLUMN), ("Keep what", COLUMN), ("Keep what", INDEX)],
)
def test_an_alter_right_before_partitions_are_moved_is_an_error_that_a_retry_mends(
    trips_lake: Lake, strikes: Strikes, step: str, change: tuple[str, str]
) -> None:
    trips_lake.upload(FIRST)
    trips_lake.load()
    trips_lake.upload(SECOND)
    alter = change[0].format(f"{trips_lake.database}.trips")
    strikes.before(step, lambda: trips_lake.on_node(2, alter))
    with pytest.raises(TransientError, match="was altered"):
        trips_lake.load(keep_versions=1)
    assert strikes.struck
    for node in (0, 1):
        trips_lake.on_node(node, alter)
    strikes.reset()
    trips_lake.load()
    assert trips_lake.facts() == SECOND.facts(PERIOD)
    assert trips_lake.left_behind() == []


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_a_table_that_was_made_anew_gets_nothing_of_what_was_staged_for_the_old_one(
    trips_lake: Lake, once_staged: Callable[[Callable[[], Any]], None]
) -> None:
    def make_anew() -> None:
        trips_lake.on_node(1, f"DROP TABLE {trips_lake.database}.trips SYNC")
        trips_lake.on_node(1, create_table_sql(f"{trips_lake.database}.trips"))

    trips_lake.upload(FIRST)
    once_staged(make_anew)
    with pytest.raises(TransientError, match="it was dropped and created again"):
        trips_lake.load()
    assert not any(trips_lake.rows_per_node())
    trips_lake.load()
    assert trips_lake.facts() == FIRST.facts(PERIOD)


@pytest.mark.thorough
@pytest.mark.three_nodes
@pytest.mark.parametrize("is_first", [True, False])
def test_rows_that_somebody_writes_meanwhile_are_not_replaced(
    trips_lake: Lake, once_staged: Callable[[Callable[[], Any]], None], is_first: bool
) -> None:
    trips_lake.upload(FIRST)
    if not is_first:
        trips_lake.load()
        trips_lake.upload(SECOND)
    before = trips_lake.facts().rows
    insert = f"INSERT INTO {trips_lake.database}.trips (trip_id, pickup_at) SELECT 1, '{PERIOD}-05 00:00:00'"
    once_staged(lambda: trips_lake.on_node(1, insert))
    with pytest.raises(
        AirflowFailException, match=r"somebody wrote to partition 202610 while .* The period was not published"
    ):
        trips_lake.load()
    assert trips_lake.facts().rows == before + 1


SWAPS = {
    "exchange": ["EXCHANGE TABLES {0}.trips AND {0}.other"],
    "rename": ["RENAME TABLE {0}.trips TO {0}.old, {0}.other TO {0}.trips"],
    "drop": ["DROP TABLE {0}.trips SYNC", "RENAME TABLE {0}.other TO {0}.trips"],
}


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_table_that_is_swapped_at_the_moment_of_publication_is_told(
    trips_lake: Lake, strikes: Strikes, swap: str, when: str
) -> None:
    trips_lake.upload(FIRST)
    trips_lake.on_every_node(create_table_sql(f"{trips_lake.database}.other"))
    insert = f"INSERT INTO {trips_lake.database}.other (trip_id, pickup_at) SELECT 1, '{PERIOD}-05 00:00:00'"
    trips_lake.on_every_node(insert)

    def act() -> None:
        for statement in SWAPS[swap]:
            trips_lake.on_every_node(statement.format(trips_lake.database))

    getattr(strikes, when)(f"Publish {PERIOD}", act)
    hit = "All rows that the new table had in partition 202610 were replaced"
    told = hit if when == "before" else "The objects' rows went to the old table."
    with pytest.raises(
        AirflowFailException, match=rf"was replaced by another table .* {told}.* not recorded as published"
    ):
        trips_lake.load()
    strikes.reset()
    with pytest.raises(AirflowFailException, match="rows that no load wrote"):
        trips_lake.load()
