"""Count the times that a load waits for servers, one after the other: each round takes as long as the slowest node.

And how often the servers wait for the storage, where each answer may take a tenth of a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import pytest

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.files import parquet_footers
from airflow_provider_chs3.core.steps.operations import Gather, Insert, Query, QueryNodes, Step, Steps, TryQueryNodes
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.load.adding import add_a_file, stop_merges
from tests.support.killing import on_no_clock, perform, perform_once_done, performing
from tests.support.lake import Lake
from tests.support.outcome import assert_exact
from tests.support.proxies import Answer, StorageProxy
from tests.support.several_periods import PERIODS, Periods, periods

#: Fixture.
__all__ = ["periods"]


@dataclass
class Rounds:
    """Their number. Among those side by side, the longest counts."""

    count: int = 0


_COUNTED: ContextVar[Rounds] = ContextVar("_COUNTED")


def _counting(rounds: Rounds, steps: Steps[Any]) -> Steps[Any]:
    # Workflows that run side by side have separate contexts.
    _COUNTED.set(rounds)
    return (yield from steps)


def _counted(runner: Runner, step: Step[Any]) -> Any:
    rounds = _COUNTED.get()
    if isinstance(step, Gather):
        each = [Rounds() for _ in step.workflows]
        workflows = tuple(_counting(own, steps) for own, steps in zip(each, step.workflows, strict=True))
        found = perform(runner, replace(step, workflows=workflows))
        rounds.count += max(own.count for own in each)
        return found
    is_of_nodes = isinstance(step, QueryNodes | TryQueryNodes)
    rounds.count += isinstance(step, Query | Insert) or (is_of_nodes and bool(step.sql))
    return perform_once_done(runner, step)


@contextmanager
def counted() -> Iterator[Rounds]:
    """Count the rounds of a load, whose steps do not depend on how long the machine takes."""
    rounds = Rounds()
    _COUNTED.set(rounds)
    with performing(_counted), on_no_clock():
        yield rounds


def rounds_of(load: Callable[[], dict[str, str]], wanted: dict[str, str]) -> int:
    with counted() as rounds:
        assert load() == wanted
    return rounds.count


@pytest.mark.thorough
@pytest.mark.parametrize("nodes", [1, pytest.param(3, marks=pytest.mark.three_nodes)])
def test_loads_wait_for_servers_no_more_often_than(periods: Periods, nodes: int) -> None:
    first, *others = PERIODS
    rounds = {"first": rounds_of(lambda: periods.statuses(first), {first: "published"})}
    stop_merges(periods)
    periods.put(first, "c")
    rounds["new file"] = rounds_of(lambda: periods.statuses(first), {first: "published"})
    rounds["unchanged"] = rounds_of(lambda: periods.statuses(first), {first: "unchanged"})
    rounds["three"] = rounds_of(lambda: periods.statuses(*others), dict.fromkeys(others, "published"))
    add_a_file(periods)
    night = dict.fromkeys(PERIODS, "unchanged")
    rounds["one of four"] = rounds_of(periods.statuses, night | {"2026-10": "published"})
    rounds["nothing new"] = rounds_of(periods.statuses, night)
    most = {"first": 19, "new file": 21, "unchanged": 5, "three": 22, "one of four": 23, "nothing new": 6}
    assert {kind: count for kind, count in rounds.items() if count > most[kind]} == {}


def asked_of_the_storage(trips_lake: Lake, chs3_s3: S3Endpoint) -> Counter[str]:
    """Return the servers' requests to the storage, by method, for the load of one Parquet file."""
    trips, asked = Trips(rows_per_period=600, files_per_period=1), Counter[str]()

    def noted(method: str, path: str, true: Answer) -> Answer:
        asked[method] += 1
        return true

    trips_lake.upload(trips)
    storage = StorageProxy(chs3_s3.endpoint_url)
    storage.fault = noted
    try:
        trips_lake.load(endpoint_url=storage.endpoint_url)
    finally:
        storage.close()
    assert_exact(trips_lake, trips)
    return asked


def test_servers_ask_for_a_file_and_its_end_alone_before_the_insert(trips_lake: Lake, chs3_s3: S3Endpoint) -> None:
    # The footer and the columns: one of each, at the same time. The insert: one of the node that sends it, the others
    # of the one that reads.
    assert asked_of_the_storage(trips_lake, chs3_s3) <= Counter(HEAD=1 + 1 + 2, GET=1 + 1 + 1)


def test_a_server_that_gives_more_in_footers_finds_their_structure_out(
    trips_lake: Lake, chs3_s3: S3Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_footers, "_STRUCTURE", parquet_footers._STRUCTURE.replace(", space_saved String", ""))
    assert asked_of_the_storage(trips_lake, chs3_s3) > Counter(HEAD=4, GET=3)
