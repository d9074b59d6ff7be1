"""A storage that fails the servers (the worker lists directly), and objects that change while they are loaded."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.core.load.retry_policy import MAX_NEW_LISTS
from airflow_provider_chs3.exceptions import ClickHouseServerError, ObjectsChangedError
from airflow_provider_chs3.testbed.trips import Trips
from tests.faults.interposing import storage
from tests.support.lake import Lake
from tests.support.outcome import assert_exact, assert_untouched
from tests.support.proxies import Answer, Fault, StorageProxy, refusing, slow, truncated
from tests.support.strikes import Strikes

#: Fixtures.
__all__ = ["storage"]

#: A server's errors about an answer that was cut off; they depend on who reads which file.
CUT_OFF = "(Unexpected EOF|Cannot read from istream)"
OLD, NEW = Trips(rows_per_period=600, files_per_period=6), Trips(seed=2, rows_per_period=660, files_per_period=6)
#: Before anything is read, and when all that comes before the insert has been read.
MOMENTS = ("Look up", "Insert")


def strike(strikes: Strikes, storage: StorageProxy, moment: str, fault: Fault) -> None:
    strikes.before(moment, lambda: setattr(storage, "fault", fault))


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("moment", "fault"),
    [
        pytest.param("Look up", lambda: refusing(500, "InternalError"), id="500"),
        pytest.param("Insert", lambda: refusing(503, "SlowDown"), id="503"),
        pytest.param("Look up", lambda: truncated(is_announced=True), id="truncated"),
    ],
)
def test_a_load_waits_for_a_storage_that_fails_for_a_while_and_goes_on(
    trips_lake: Lake, strikes: Strikes, storage: StorageProxy, moment: str, fault: Callable[[], Fault]
) -> None:
    trips_lake.upload(OLD)
    failing = fault()

    def fails_until_the_load_waits(method: str, path: str, true: Answer) -> Answer:
        return true if strikes.pauses_seconds else failing(method, path, true)

    strike(strikes, storage, moment, fails_until_the_load_waits)
    trips_lake.load(endpoint_url=storage.endpoint_url)
    assert strikes.pauses_seconds == [20]
    assert_exact(trips_lake, OLD)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lambda: slow(0.1), id="slow"),
        pytest.param(lambda: truncated(is_announced=False), id="short"),
        pytest.param(lambda: truncated(is_announced=True, times=3), id="truncated"),
    ],
)
def test_what_servers_bridge_by_themselves_changes_nothing(
    trips_lake: Lake, strikes: Strikes, storage: StorageProxy, fault: Callable[[], Fault]
) -> None:
    trips_lake.upload(OLD)
    strike(strikes, storage, "Insert", fault())
    trips_lake.load(endpoint_url=storage.endpoint_url)
    assert_exact(trips_lake, OLD)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("moment", "fault", "said"),
    [
        pytest.param("Insert", lambda: refusing(500, "InternalError"), "499 .*response code: 500", id="500"),
        pytest.param("Look up", lambda: refusing(503, "SlowDown"), "499 .*response code: 503", id="503"),
        pytest.param("Insert", lambda: truncated(is_announced=True), CUT_OFF, id="truncated"),
        pytest.param("Look up", lambda: truncated(is_announced=True), CUT_OFF, id="footers"),
    ],
)
def test_a_storage_that_fails_for_ever_is_told_after_three_waits(
    trips_lake: Lake,
    strikes: Strikes,
    storage: StorageProxy,
    moment: str,
    fault: Callable[[], Fault],
    said: str,
) -> None:
    trips_lake.upload(OLD)
    strike(strikes, storage, moment, fault())
    with pytest.raises(
        ClickHouseServerError, match=f"(?s){said}.*The storage refused a request, or the connection broke"
    ):
        trips_lake.load(endpoint_url=storage.endpoint_url)
    assert strikes.pauses_seconds == [20, 40, 60]
    assert_untouched(trips_lake, None)
    assert trips_lake.left_behind() == []
    storage.fault = None
    strikes.reset()
    trips_lake.load(endpoint_url=storage.endpoint_url)
    assert_exact(trips_lake, OLD)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_storage_that_begins_to_refuse_the_keys_ends_the_task_at_once(
    trips_lake: Lake, strikes: Strikes, storage: StorageProxy, moment: str
) -> None:
    trips_lake.upload(OLD)
    strike(strikes, storage, moment, refusing(403, "AccessDenied"))
    with pytest.raises(AirflowFailException, match="refused the servers' keys: check the connection"):
        trips_lake.load(endpoint_url=storage.endpoint_url)
    assert strikes.pauses_seconds == []
    assert_untouched(trips_lake, None)
    assert trips_lake.left_behind() == []


def inserts(strikes: Strikes) -> int:
    return sum(name.startswith("Insert") for name in strikes.steps)


@pytest.mark.thorough
def test_objects_that_change_at_every_try_are_an_error_and_the_period_stays(trips_lake: Lake, strikes: Strikes) -> None:
    trips_lake.upload(OLD)
    trips_lake.load()
    seeds = count(2)
    strikes.reset()
    strikes.after("Insert", lambda: trips_lake.upload(Trips(seed=next(seeds), rows_per_period=600)), times=99)
    trips_lake.upload(NEW)
    with pytest.raises(ObjectsChangedError, match=r"changed while they were loaded.*The period was not published"):
        trips_lake.load()
    assert inserts(strikes) == 1 + MAX_NEW_LISTS
    assert_untouched(trips_lake, OLD)
    assert trips_lake.left_behind() == []
    trips_lake.upload(NEW)
    strikes.reset()
    trips_lake.load()
    assert_exact(trips_lake, NEW)
