"""What the page tells of months that were forgotten in the ledger."""

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


def test_it_says_so_as_long_as_its_rows_are_there(as_user: AsUser, trips_lake: Lake) -> None:
    loaded(trips_lake)
    forget(trips_lake, MONTH)
    month = months(as_user, trips_lake)[MONTH]
    assert (month["state"], month["rows"]) == ("changed", 600)
    assert month["why"] == "forgotten in the ledger; its rows are still there"
    trips_lake.load(replace_unknown=True)
    assert months(as_user, trips_lake)[MONTH]["why"] == "as published"
