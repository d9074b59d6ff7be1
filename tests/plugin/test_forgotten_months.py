"""What the page tells of months that the ledger was told to forget."""

from __future__ import annotations

from airflow_provider_chs3.operators.ledger import ForgetMonthsOperator
from tests.integration.lake import MONTH, Lake
from tests.plugin.test_months import AsUser, loaded, months

LATER = "2099-01"


def forget(lake: Lake, month: str) -> None:
    where = {"table": lake.table, "database": lake.database, "cluster": lake.cluster.name}
    ForgetMonthsOperator(task_id="forget", months=[month], **where).execute({})


def test_it_is_not_listed_once_its_rows_are_gone(as_user: AsUser, trips_lake: Lake) -> None:
    loaded(trips_lake)
    loaded(trips_lake, LATER)
    forget(trips_lake, LATER)
    trips_lake.on_every_node(f"ALTER TABLE {trips_lake.database}.trips DROP PARTITION 209901")
    assert set(months(as_user, trips_lake)) == {MONTH}
