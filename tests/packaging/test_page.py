"""The page in Airflow's UI is built of its sources, and of libraries that a lockfile names: none is in the tree."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.conftest import Build
from tests.packaging.tree import NOTICES, PAGE, ROOT


@pytest.fixture
def unbuilt(tmp_path: Path) -> Path:
    """A checkout whose page was not built."""
    left_out = shutil.ignore_patterns("__pycache__", "node_modules", "static")
    shutil.copytree(ROOT / "airflow_provider_chs3", tmp_path / "airflow_provider_chs3", ignore=left_out)
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("kind", ["--wheel", "--sdist"])
def test_a_checkout_whose_page_is_not_built_says_how_to_build_it(unbuilt: Path, kind: str, build: Build) -> None:
    done = build(unbuilt, kind)
    assert done.returncode != 0
    assert "error: the page in Airflow's UI is not built" in done.stdout + done.stderr
    assert "run `./dev page`" in done.stdout + done.stderr


def test_an_editable_install_may_come_before_the_page(unbuilt: Path) -> None:
    to = unbuilt / "dist"
    to.mkdir()
    script = f"from setuptools import build_meta; build_meta.build_editable({str(to)!r})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=unbuilt)
    assert done.returncode == 0, done.stderr[-2000:]
    # As setuptools has it, license files that are not there will be an error one day.
    assert "Deprecat" not in done.stdout + done.stderr
    assert len(list(to.glob("*.whl"))) == 1


def _read(name: str) -> Any:
    return json.loads((PAGE / name).read_text(encoding="utf-8"))


def test_the_libraries_are_those_of_the_lockfile() -> None:
    wanted = _read("package.json")
    libraries = wanted["dependencies"] | wanted["devDependencies"]
    locked = {name.removeprefix("node_modules/"): each for name, each in _read("package-lock.json")["packages"].items()}
    assert {name: locked[name]["version"] for name in libraries} == libraries
    assert [name for name, each in locked.items() if name and "integrity" not in each] == []


def test_the_notices_have_the_licence_of_each_library_that_is_bundled() -> None:
    notices = (ROOT / NOTICES).read_text(encoding="utf-8")
    told = re.findall(r"^## (\S+) - (\S+) \((\S+)\)$", notices, re.MULTILINE)
    wanted = _read("package.json")
    # Vite adds a function of its own.
    direct = wanted["dependencies"] | {"vite": wanted["devDependencies"]["vite"]}
    assert {(name, version) for name, version, _ in told} >= direct.items()
    assert {licence for *_, licence in told} == {"MIT", "BSD-3-Clause"}
    texts = re.split(r"^## ", notices, flags=re.MULTILINE)[1:]
    assert len(texts) == len(told)
    granted = "Permission is hereby granted|Redistribution and use"
    assert [text.splitlines()[0] for text in texts if not re.search(granted, text)] == []
