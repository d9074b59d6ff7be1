"""Every library of the package has a wheel on users' machines, so that nothing is compiled."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "x86_64-apple-darwin", "aarch64-apple-darwin")


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("uv") is None, reason="needs uv, which resolves for other machines: pip install uv")
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("python", PYTHONS)
def test_wheels_are_there(python: str, platform: str, tmp_path: Path) -> None:
    metadata = configparser.ConfigParser()
    metadata.read(ROOT / "setup.cfg")
    requirements = tmp_path / "requirements.in"
    requirements.write_text(metadata["options"]["install_requires"])
    where = ("--python-version", python, "--python-platform", platform)
    command = ["uv", "pip", "compile", "--quiet", "--only-binary", ":all:", *where, str(requirements)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "clickhouse-driver==" in done.stdout
