"""Two `./dev` at once: one builds, the other waits for it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.packaging.test_distributions import ROOT

NPM = """#!/bin/sh
echo "begin $*" >>"$NPM_LOG"
sleep 1
[ "$*" != "run build" ] || { mkdir -p ../static && echo built >../static/main.js; }
echo "end $*" >>"$NPM_LOG"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the page's sources, whose npm takes a while and logs its arguments."""
    page = tmp_path / "airflow_provider_chs3/plugin/page"
    page.mkdir(parents=True)
    (page / "package.json").write_text("{}")
    shutil.copy(ROOT / "dev", tmp_path)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("npm", NPM), ("node", "#!/bin/sh\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return tmp_path


def build_page(checkout: Path) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}",
        "NPM_LOG": str(checkout / "npm.log"),
    }
    return subprocess.Popen([checkout / "dev", "page"], env=environment, stderr=subprocess.PIPE, text=True)


def test_of_two_at_once_one_builds_and_the_other_waits(checkout: Path) -> None:
    both = [build_page(checkout) for _ in range(2)]
    said = sorted(process.communicate(timeout=60)[1] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert said == [
        "./dev: building the page\n",
        "./dev: waiting for another ./dev, which makes the environment or the page\n",
    ]
    assert (checkout / "npm.log").read_text().splitlines() == ["begin ci", "end ci", "begin run build", "end run build"]


def test_one_that_was_killed_leaves_no_lock(checkout: Path) -> None:
    killed = build_page(checkout)
    log = checkout / "npm.log"
    while not log.exists():
        assert killed.poll() is None
    killed.kill()
    killed.wait()
    again = build_page(checkout)
    assert "building the page" in again.communicate(timeout=60)[1]
    assert again.returncode == 0
    assert log.read_text().splitlines()[-1] == "end run build"
