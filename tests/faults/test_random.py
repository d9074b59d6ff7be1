"""The random run survives its strikes, and tells a difference when there is one. The run itself is not for CI."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from tests.faults.random_run import RandomRun, report
from tests.support.lake import PERIOD, Lake

pytestmark = pytest.mark.three_nodes


@pytest.mark.thorough
def test_it_survives_strikes_and_tells_of_rows_that_are_not_the_objects(
    trips_lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rounds = RandomRun(trips_lake, None, folder=tmp_path, seed=1, periods=[PERIOD]).rounds()
    assert report(islice(rounds, 1), title="one") == 0
    assert capsys.readouterr().out.endswith("one: survived 1 / 1\n")
    trips_lake.on_every_node(
        f"ALTER TABLE {trips_lake.database}.trips DELETE WHERE trip_id % 2 SETTINGS mutations_sync = 1"
    )
    assert report(islice(rounds, 1), title="another") == 1
    assert capsys.readouterr().out.endswith("another: survived 0 / 1\n")
