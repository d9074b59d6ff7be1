"""What the page tells of records that an older version of this package wrote."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.lake import MONTH, Lake
from tests.plugin.test_months import TASK, AsUser, fail, loaded, months


def test_an_older_ledger_without_summaries_tells_the_same(
    as_user: AsUser, airflow_api: Any, trips_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow_api.state.auth_manager, "get_authorized_dag_ids", lambda **_: {"mine"})
    loaded(trips_lake)
    fail(trips_lake, TASK)
    told = months(as_user, trips_lake)[MONTH]
    assert (told["state"], told["task"]["run_id"]) == ("failed", "run")
    trips_lake.on_every_node(f"ALTER TABLE {trips_lake.database}.chs3_ledger DROP COLUMN summary")
    assert months(as_user, trips_lake)[MONTH] == told
    loaded(trips_lake, "2026-05")
    (columns, *_) = trips_lake.on_every_node(f"SELECT summary.owner FROM {trips_lake.database}.chs3_ledger")
    assert columns, "the load has added the column"
    assert months(as_user, trips_lake)[MONTH] == told
