"""The DAG of docs/how-to/alerts.md under a real scheduler and triggerer: its alert comes while the run goes on."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.airflow_services import AirflowServices

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "alerts.md"
TIMEOUT_SECONDS = 150

_ALERTS = """
from pathlib import Path

async def call_the_owner(*, text, context):
    Path(__file__).with_name("called.txt").write_text(f"{context['dag_run']['dag_id']}: {text}")
"""


@pytest.fixture
def services(tmp_path: Path, airflow_db: Path, chs3_airflow_connections: None) -> Iterator[AirflowServices]:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (found,) = (each for each in blocks if "trips_by_seven" in each)
    # The bucket does not exist, so that the run fails, and waits for its next try.
    block = found.replace("timedelta(hours=21) + trips.due_after - timedelta(hours=1)", "timedelta(seconds=1)")
    block = block.replace("lookback=2", "lookback=2, default_args={'retries': 5}")
    assert block.count("seconds=1)") == block.count("retries") == 1
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "dag.py").write_text(block)
    (tmp_path / "our_alerts.py").write_text(_ALERTS)
    connections = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW_CONN_")}
    environment = {**connections, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    with AirflowServices(
        home=tmp_path, dags=tmp_path / "dags", database=airflow_db, environment=environment
    ) as started:
        yield started


@pytest.mark.thorough
def test_the_owner_is_called_while_the_run_goes_on(services: AirflowServices, tmp_path: Path) -> None:
    services.command("dags", "trigger", "trips_by_seven", "--logical-date", "2026-02-01T03:00:00+00:00")
    services.start(triggerer=True)
    services.wait_until((tmp_path / "called.txt").exists, timeout_seconds=TIMEOUT_SECONDS)
    assert (tmp_path / "called.txt").read_text() == "trips_by_seven: trips: due at seven, not done at six"
