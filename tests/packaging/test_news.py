"""The texts in docs/newsfragments become the changelog."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FRAGMENTS = ROOT / "docs" / "newsfragments"


def test_every_fragment_is_told(tmp_path: Path) -> None:
    pytest.importorskip("towncrier", reason="needs towncrier: pip install '.[dev]'")
    new = FRAGMENTS / "+test-of-the-changelog.feature.md"
    new.write_text("A line of the test of the changelog.\n", encoding="utf-8")
    try:
        command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "next", "--name", "next"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    finally:
        new.unlink()
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stdout.split())
    fragments = [path.read_text(encoding="utf-8") for path in FRAGMENTS.glob("*.md") if path.name != "README.md"]
    assert [text for text in fragments if " ".join(text.split()) not in told] == []
    assert "- A line of the test of the changelog." in done.stdout
