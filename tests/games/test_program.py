"""The program of games, for a few steps: it must not rot between long runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.lake import IS_OLDEST


@pytest.mark.timeout(900)
@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(("seed", "steps"), [(1, 20), (4, 40), (5, 40), (2, 40), (3, 40)])
def test_table_view_and_versions_are_as_the_model_says_after_each_step(seed: int, steps: int, tmp_path: Path) -> None:
    on = "plain" if IS_OLDEST else "engine"
    options = ["--steps", str(steps), "--seed", str(seed), "--on", on, "--resume", str(tmp_path)]
    command = [sys.executable, "-m", "tests.games", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.splitlines()[-1].endswith(f": {steps} steps, 0 wrong")
