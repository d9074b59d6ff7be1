"""Loads into replicated tables while Keeper is away for a minute."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import pytest

from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.support.lake import PERIOD, Lake
from tests.support.replicas import OTHER
from tests.support.strikes import Strikes, strikes

#: A fixture.
__all__ = ["strikes"]

AWAY_SECONDS = 60


def retry(lake: Lake) -> None:
    """Load as Airflow's retries do: replicas are writable again some seconds after Keeper is back."""
    for _ in range(24):
        with suppress(Chs3Error):
            lake.load()
            return
        time.sleep(5)
    lake.load()


@pytest.mark.thorough
@pytest.mark.parametrize("step", ["Create staging", "Insert", "Publish", "Drop staging"])
def test_a_load_ends_in_the_objects_rows(
    lake: Lake, replicated_cluster: ClickHouseCluster, strikes: Strikes, step: str
) -> None:
    keeper = replicated_cluster.keeper
    assert keeper
    lake.load()
    lake.upload(OTHER)
    back = threading.Timer(AWAY_SECONDS, keeper.start)

    def strike() -> None:
        keeper.stop()
        back.start()

    strikes.before(step, strike)
    with suppress(Chs3Error):
        lake.load()
    assert strikes.struck
    strikes.reset()
    back.join()
    retry(lake)
    assert lake.facts() == OTHER.facts(PERIOD)
    assert lake.load()["status"] == "unchanged"
