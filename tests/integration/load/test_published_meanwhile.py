"""A load that looks a period up just when another one publishes it.

The records and the parts of one answer are not of one moment: here, the other load lies between them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.steps.operations import Step
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import PERIOD, Lake

pytestmark = pytest.mark.three_nodes

OLD = Trips(rows_per_period=900, files_per_period=6)
NEW = Trips(seed=2, rows_per_period=1_200, files_per_period=6)


class Between:
    """Acts between the records and the parts of the first look-up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
        self.looks = 0
        perform = Runner.__dict__["perform"]

        def torn(runner: Runner, step: Step) -> Any:
            answers = perform.__get__(runner, Runner)(step)
            if not step.name.startswith(f"Look up {PERIOD} in the ledger"):
                return answers
            self.looks += 1
            if self.looks > 1:
                return answers
            act()
            later = perform.__get__(runner, Runner)(step)
            return {node: [(rows[0][0], *later[node][0][1:])] for node, rows in answers.items()}

        monkeypatch.setattr(Runner, "perform", torn)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("is_first", [True, False], ids=["never loaded", "loaded before"])
def test_what_another_load_publishes_meanwhile_is_no_change_of_somebody_else(
    trips_lake: Lake, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    if not is_first:
        trips_lake.upload(OLD)
        trips_lake.load()
        # Else the load starts over as the record may be of another one that ran beside it.
        trips_lake.on_every_node(
            f"ALTER TABLE {trips_lake.database}.chs3_ledger UPDATE recorded_at = recorded_at - 3600 WHERE 1 "
            "SETTINGS mutations_sync = 2"
        )
    trips_lake.upload(NEW)
    between = Between(monkeypatch, trips_lake.load)
    assert trips_lake.load()["status"] == "unchanged"
    assert between.looks > 2
    assert trips_lake.facts() == NEW.facts(PERIOD)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("is_first", [True, False], ids=["never loaded", "loaded before"])
def test_what_somebody_else_inserts_meanwhile_still_is(
    trips_lake: Lake, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    trips_lake.upload(OLD)
    if not is_first:
        trips_lake.load()
        trips_lake.upload(NEW)
    table = f"{trips_lake.database}.{trips_lake.table}"
    insert = f"INSERT INTO {table} (trip_id, pickup_at) VALUES (7, '{PERIOD}-01 00:00:00')"
    Between(monkeypatch, lambda: trips_lake.on_every_node(insert))
    with pytest.raises(AirflowFailException, match=r"no load wrote|was changed since it was published"):
        trips_lake.load()
