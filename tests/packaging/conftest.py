"""Builds distributions as pip does: with a Python that cannot import the package."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

Build = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Builds the distributions of a folder: `build(folder, *arguments, **environment)`."""
    pytest.importorskip("build", reason="needs build: pip install '.[dev]'")
    home = tmp_path_factory.mktemp("builder")
    venv.create(home)
    (site_packages,) = home.glob("lib/python*/site-packages")
    # A path file of a folder that a path file names is not read: the clone that is installed there stays out.
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))

    def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [home / "bin" / "python", "-m", "build", "--no-isolation", *arguments, str(folder)]
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        # Not in the folder: of a clone that was built once, its folder `build` would be taken for the module.
        return subprocess.run(command, capture_output=True, text=True, cwd="/", env=inherited | environment)

    return run
