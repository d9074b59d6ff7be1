"""The linters find nothing. They are a test so that they run beside the others, and count as one of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(
    Path(sys.prefix) != ROOT / ".dev" / "venv", reason="runs in the environment of ./dev; tox has one for linters"
)
def test_the_linters_find_nothing() -> None:
    """Takes half a minute on a clean clone: mypy reads the types of Airflow."""
    done = subprocess.run(
        [ROOT / "dev", "lint"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
