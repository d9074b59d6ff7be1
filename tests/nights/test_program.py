"""The program of long runs, for a few nights: it must not rot between them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_chs3.testbed.programs import keeper
from tests.nights.record import Record
from tests.support import power


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("servers", ["engine", "replicated"])
def test_it_goes_on_where_its_results_end_and_tells_how_many_nights_were_different(
    servers: str, tmp_path: Path
) -> None:
    if why := power.missing() if servers == "engine" else keeper.missing():
        pytest.skip(why)
    options = ["--on", servers, "--seed", "7", "--each", "2", "--resume", str(tmp_path)]
    options += ["--engine", "plain", "--engine", "replacing"]
    if servers == "engine":
        options.append("--power")
    for nights in (2, 4):
        command = [sys.executable, "-m", "tests.nights", "--nights", str(nights), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        assert done.stdout.splitlines()[-1].endswith(f": {nights} nights, 0 different")
    assert [line["engine"] for line in Record(tmp_path).current()] == ["plain", "replacing"]
