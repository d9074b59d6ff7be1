"""The power of a node is cut, amid loads and after them; the long run is `python -m tests.faults --power 200`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import power

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(power.missing()), reason=power.missing() or "it can"),
]


@pytest.mark.parametrize(("servers", "nodes"), [("engine", 1), ("plain", 1), ("replicated", 2)])
def test_periods_are_exact_after_power_cuts(servers: str, nodes: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.faults", "--power", "4", "--seed", "16", "--on", servers]
    results = tmp_path / "results"
    done = subprocess.run(
        [*command, "--nodes", str(nodes), "--resume", str(results)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "seed 16: survived 4 / 4" in done.stdout
    (file,) = results.iterdir()
    assert len(file.read_text(encoding="utf-8").splitlines()) == 4
