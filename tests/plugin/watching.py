"""The page as somebody with the least rights sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.support.browsing import SCREENSHOTS
from tests.support.lake import Lake
from tests.support.narrow_user import WATCHER


@contextmanager
def asked_as_watcher(lake: Lake) -> Iterator[None]:
    """The page asks as a user with the privileges that it is documented to take, and logs are written."""
    if not isinstance(lake.cluster, ClickHouseCluster):
        pytest.skip("the users of servers that are none of this machine's are as they are")
    lake.on_every_node("SYSTEM FLUSH LOGS")
    # Who has no right to the database of pictures.
    watcher = {} if SCREENSHOTS else {"login": WATCHER.login, "password": WATCHER.password}
    connection = lake.cluster.airflow_connection() | watcher
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
        yield
