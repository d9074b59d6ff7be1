"""Load, plan, adoption and ledger of the same period give the same answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider_chs3.exceptions import NotReadyError
from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.plans import plan
from tests.support.lake import PERIOD, Lake
from tests.support.ledger_tasks import adopt, ledger

TRIPS = Trips(rows_per_period=600, files_per_period=3)
GONE = "nothing/{YYYY-MM}/"


def publish(lake: Lake) -> None:
    lake.upload(TRIPS)
    lake.load()


def publish_empty(lake: Lake) -> None:
    lake.load(on_no_objects="empty", key=GONE)


def never(lake: Lake) -> None:
    """Nothing was loaded."""


def loaded(lake: Lake, **options: object) -> str:
    try:
        return str(lake.load(**options)["status"])
    except AirflowSkipException:
        return "skipped"
    except (NotReadyError, AirflowFailException):
        return "failed"


def adopted(lake: Lake) -> str:
    try:
        return str(adopt(lake, key=GONE)[0]["status"])
    except AirflowFailException:
        return "refused"


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("policy", ["fail", "skip", "empty"])
@pytest.mark.parametrize(
    ("begin", "answers"),
    [
        (never, {"fail": "failed", "skip": "skipped", "empty": "published"}),
        (publish_empty, {"fail": "unchanged", "skip": "unchanged", "empty": "unchanged"}),
        (publish, {"fail": "failed", "skip": "skipped", "empty": "published"}),
    ],
)
def test_of_a_period_without_objects(
    trips_lake: Lake, begin: Callable[[Lake], None], answers: dict[str, str], policy: str
) -> None:
    begin(trips_lake)
    planned = plan(trips_lake, periods=[PERIOD], key=GONE, definition={"policies": {"on_no_objects": policy}})
    adoption = adopted(trips_lake)
    assert loaded(trips_lake, key=GONE, on_no_objects=policy) == answers[policy]
    assert (planned == []) is (answers[policy] in ("unchanged", "skipped"))
    assert adoption == ("unchanged" if begin is publish_empty else "refused")
    as_published = [each["is_as_published"] for each in ledger(trips_lake)]
    assert as_published == ([] if begin is never and policy != "empty" else [True])


def test_a_load_that_waits_for_objects_records_no_failure(trips_lake: Lake) -> None:
    publish(trips_lake)
    assert loaded(trips_lake, key=GONE) == "failed"
    tables = f"merge({trips_lake.database!r}, '^chs3_(ledger|loads)$')"
    events = trips_lake.on_node(0, f"SELECT DISTINCT event FROM {tables} ORDER BY event")
    assert [event for (event,) in events] == ["inserting", "intent", "load", "published"]
