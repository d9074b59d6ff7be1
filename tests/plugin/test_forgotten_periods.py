"""The page on periods that were forgotten in the ledger."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.operators.ledger import ForgetPeriodsOperator
from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import loaded, periods
from tests.support.lake import PERIOD, Lake

LATER = "2099-01"


def forget(lake: Lake, period: str) -> None:
    ForgetPeriodsOperator(task_id="forget", periods=[period], **lake.target).execute({})


@pytest.mark.thorough
def test_it_is_not_listed_once_its_rows_are_gone(as_user: AsUser, trips_lake: Lake) -> None:
    loaded(trips_lake)
    loaded(trips_lake, LATER)
    forget(trips_lake, LATER)
    trips_lake.on_every_node(f"ALTER TABLE {trips_lake.database}.trips DROP PARTITION 209901")
    assert set(periods(as_user, trips_lake)) == {PERIOD}
