"""`./dev` makes what is missing or old, once, also if two run at once; and where nothing is to do, it does nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.tree import ROOT

NPM = """#!/bin/sh
echo "begin $*" >>"$NPM_LOG"
sleep 1
[ "$*" != "run build" ] || { mkdir -p ../static && echo built >../static/main.js; }
echo "end $*" >>"$NPM_LOG"
"""

#: Instead of what would fetch packages. It logs its arguments, as the environment's Python does.
UV = """#!/bin/sh
echo "install" >>"$PYTHON_LOG"
echo "$*" >>packages.log
[ ! -e fail ]
"""
PYTHON = f"""#!/bin/sh
echo "start $1" >>"$PYTHON_LOG"
[ "$1" != -m ] || exec "$(dirname "$0")/../../../bin/uv"
exec {sys.executable} "$@"
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
    for name, text in (("npm", NPM), ("node", "#!/bin/sh\n"), ("uv", UV), ("../.dev/venv/bin/python", PYTHON)):
        (programs / name).parent.mkdir(parents=True, exist_ok=True)
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    for name in ("setup.cfg", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def dev(checkout: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}",
        "NPM_LOG": str(checkout / "npm.log"),
        "PYTHON_LOG": str(checkout / "python.log"),
    }
    return subprocess.Popen([checkout / "dev", *arguments], env=environment, stderr=subprocess.PIPE, text=True)


def starts(checkout: Path, *arguments: str, exit_code: int = 0) -> list[str]:
    """Return the calls of the environment's Python, and of what installs packages."""
    log = checkout / "python.log"
    log.write_text("")
    process = dev(checkout, *arguments)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == exit_code, errors
    return log.read_text().splitlines()


def test_of_two_at_once_one_builds_and_the_other_waits(checkout: Path) -> None:
    both = [dev(checkout, "page") for _ in range(2)]
    said = sorted(process.communicate(timeout=300)[1] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert said == [
        "./dev: fetching the page's libraries, a minute or so\n./dev: building the page, half a minute or so\n",
        "./dev: waiting for another ./dev, which makes the environment or the page\n",
    ]
    assert (checkout / "npm.log").read_text().splitlines() == ["begin ci", "end ci", "begin run build", "end run build"]


def test_the_page_is_built_while_packages_are_installed(checkout: Path) -> None:
    (checkout / "bin/uv").write_text('#!/bin/sh\nuntil [ -e "$NPM_LOG" ]; do sleep 0.1; done\n')
    process = dev(checkout, "run", "true")
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert (checkout / "npm.log").read_text().splitlines()[-1] == "end run build"


def test_one_that_was_killed_leaves_no_lock(checkout: Path) -> None:
    killed = dev(checkout, "page")
    log = checkout / "npm.log"
    while not log.exists():
        assert killed.poll() is None
    killed.kill()
    killed.wait()
    again = dev(checkout, "page")
    assert "building the page" in again.communicate(timeout=300)[1]
    assert again.returncode == 0
    assert log.read_text().splitlines()[-1] == "end run build"


def test_where_environment_and_page_are_ready_python_starts_once(checkout: Path) -> None:
    assert "install" in starts(checkout, "run", "true")
    assert starts(checkout, "run", "true") == ["start -I"]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["setup.cfg", "pyproject.toml"])
def test_packages_are_installed_again_when_what_names_them_has_changed(checkout: Path, name: str) -> None:
    starts(checkout, "run", "true")
    with (checkout / name).open("a") as file:
        file.write("\n# changed\n")
    assert "install" in starts(checkout, "run", "true")
    assert starts(checkout, "run", "true") == ["start -I"]


@pytest.mark.thorough
def test_packages_are_installed_again_after_a_failure_though_setup_cfg_is_what_it_was(checkout: Path) -> None:
    starts(checkout, "run", "true")
    (checkout / "setup.cfg").write_text("[metadata]\n")
    (checkout / "fail").touch()
    starts(checkout, "run", "true", exit_code=1)
    (checkout / "fail").unlink()
    shutil.copy(ROOT / "setup.cfg", checkout)
    assert "install" in starts(checkout, "run", "true")


def test_the_demo_and_the_tutorial_install_half_of_the_packages(checkout: Path) -> None:
    installed = checkout / "packages.log"
    starts(checkout, "run", "python", "-c", "pass")
    assert ".[testbed] " in installed.read_text()
    assert "install" in starts(checkout, "run", "true")
    assert ".[testbed,dev,docs" in installed.read_text()
    assert "install" not in starts(checkout, "run", "python", "-c", "pass")


@pytest.mark.thorough
def test_what_it_runs_keeps_bytecode(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    process = dev(checkout, "run", "sh", "-c", 'test -z "$PYTHONDONTWRITEBYTECODE"')
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
