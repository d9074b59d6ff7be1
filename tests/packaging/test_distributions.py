"""The wheel that is built from the sdist works in an environment without a clone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Callable
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import airflow_provider_chs3
from airflow_provider_chs3.get_provider_info import get_provider_info
from airflow_provider_chs3.plugin.security import ACTIONS_DAG
from tests.packaging.conftest import Build
from tests.packaging.tree import NOTICES, PACKAGE, PAGE, ROOT
from tests.support.dag_bag import DagBag

URL = "https://github.com/owner/name"

Run = Callable[..., str]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory, build: Build) -> Path:
    """A folder with the sdist, and the wheel that was built from it, where Node tells that it was called, and fails."""
    to, without_node = tmp_path_factory.mktemp("distributions"), tmp_path_factory.mktemp("without_node")
    for name in ("node", "npm", "npx"):
        (without_node / name).write_text(f"#!/bin/sh\necho {name} >>'{without_node}/called'; exit 1\n")
        (without_node / name).chmod(0o755)
    path = f"{without_node}{os.pathsep}{os.environ['PATH']}"
    done = build(ROOT, "--outdir", str(to), PATH=path, CHS3_PROJECT_URL=URL)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert not (without_node / "called").exists()
    return to


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    (only,) = distributions.glob("*.whl")
    return only


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs Python where the wheel is installed; its dependencies are those of the tests' environment."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home / "venv", with_pip=True)
    python = home / "venv" / "bin" / "python"

    def run(*arguments: str) -> str:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run([python, *arguments], capture_output=True, text=True, cwd=home, env=environment)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    run("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel))
    (site_packages,) = (home / "venv").glob("lib/python*/site-packages")
    # A path file of a folder that a path file names is not read: the clone that is installed there stays out.
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return run


def _files_of(folder: Path) -> set[str]:
    found = (path for path in folder.rglob("*") if path.is_file())
    names = (path.relative_to(ROOT) for path in found if {"__pycache__", "node_modules"}.isdisjoint(path.parts))
    return {name.as_posix() for name in names}


@pytest.fixture(scope="module")
def names_in_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def names_in_sdist(distributions: Path) -> set[str]:
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def test_the_wheel_holds_the_package_and_nothing_else(names_in_wheel: set[str]) -> None:
    assert names_in_wheel == _files_of(PACKAGE) - _files_of(PAGE)


def test_the_sdist_holds_all_that_the_package_is_made_of(names_in_sdist: set[str]) -> None:
    assert _files_of(PACKAGE) | {"setup.cfg", "pyproject.toml", "README.md", "LICENSE", "NOTICE"} <= names_in_sdist


def test_both_hold_the_built_page_with_its_notices(names_in_wheel: set[str], names_in_sdist: set[str]) -> None:
    static = "airflow_provider_chs3/plugin/static"
    built = {f"{static}/main.js", NOTICES}
    assert built <= names_in_wheel & names_in_sdist


def test_the_sdist_has_what_the_page_is_built_of_and_neither_has_what_npm_installed(
    names_in_wheel: set[str], names_in_sdist: set[str]
) -> None:
    page = PAGE.relative_to(ROOT).as_posix()
    assert {f"{page}/{name}" for name in ("package.json", "package-lock.json", "src/main.tsx")} <= names_in_sdist
    assert [name for name in names_in_wheel if name.startswith(page)] == []
    assert [name for name in names_in_wheel | names_in_sdist if "node_modules" in name] == []


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def test_its_metadata_tells_what_it_is(metadata: Message) -> None:
    assert metadata["Version"] == airflow_provider_chs3.__version__ == get_provider_info()["versions"][0]  # type: ignore[index]
    # These include the licenses of the code bundled with the page.
    assert metadata["License-Expression"] == "Apache-2.0 AND BSD-3-Clause AND MIT"
    assert metadata.get_all("License-File") == ["LICENSE", "NOTICE", NOTICES]
    assert metadata["Author"] == "the airflow-provider-chs3 authors"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "Framework :: Apache Airflow :: Provider" in metadata.get_all("Classifier", [])
    assert str(metadata.get_payload()).startswith("# airflow-provider-chs3")


def test_the_page_on_the_index_leads_to_files_of_this_version(metadata: Message) -> None:
    markdown = pytest.importorskip("readme_renderer.markdown", reason="needs twine: pip install '.[dev]'")
    rendered = markdown.render(str(metadata.get_payload()))
    assert rendered
    links = re.findall(r'(?:href|src)="([^"#]+)(?:#[^"]*)?"', rendered)
    links += [each.partition(", ")[2] for each in metadata.get_all("Project-URL", [])]
    assert [link for link in links if not link.startswith("https://")] == []
    of_version = re.compile(f"{URL}/(?:blob|raw|tree)/v{re.escape(airflow_provider_chs3.__version__)}/?(.*)")
    paths = [found[1] for link in links if (found := of_version.fullmatch(link))]
    assert {"docs/_static/periods-light.png", "docs/protocol.md", "CHANGELOG.md"} <= set(paths)
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.thorough
def test_it_is_the_same_whenever_it_is_built(distributions: Path, tmp_path: Path, build: Build) -> None:
    (sdist,) = distributions.glob("*.tar.gz")
    built = []
    for name, seconds in (("sooner", 1_700_000_000), ("later", 1_800_000_000)):
        with tarfile.open(sdist) as archive:
            archive.extractall(tmp_path / name, filter="data")
        for path in (tmp_path / name).rglob("*"):
            os.utime(path, (seconds, seconds))
        (folder,) = (tmp_path / name).iterdir()
        done = build(folder, "--wheel", "--outdir", str(tmp_path / f"of_{name}"), SOURCE_DATE_EPOCH="1750000000")
        assert done.returncode == 0, done.stderr[-2000:]
        (wheel,) = (tmp_path / f"of_{name}").iterdir()
        built.append(wheel.read_bytes())
    assert built[0] == built[1]


def test_what_is_imported_is_the_wheel(installed: Run) -> None:
    where = installed("-c", "import airflow_provider_chs3; print(airflow_provider_chs3.__file__)")
    assert "site-packages" in where
    assert str(ROOT) not in where


def test_airflow_lists_the_provider(installed: Run) -> None:
    listed = json.loads(installed("-m", "airflow", "providers", "list", "--output", "json"))
    (ours,) = [each for each in listed if each["package_name"] == "airflow-provider-chs3"]
    assert ours["version"] == airflow_provider_chs3.__version__


@pytest.mark.thorough
def test_airflow_lists_its_hook(installed: Run) -> None:
    listed = json.loads(installed("-m", "airflow", "providers", "hooks", "--output", "json"))
    (ours,) = [each for each in listed if each["connection_type"] == "chs3"]
    assert ours["class"] == "airflow_provider_chs3.hooks.clickhouse.ClickHouseHook"


@pytest.mark.thorough
def test_airflow_lists_its_plugin(installed: Run) -> None:
    plugins = json.loads(installed("-m", "airflow", "plugins", "--output", "json"))
    assert "chs3" in [plugin["name"] for plugin in plugins]


def test_the_command_line_is_there(installed: Run) -> None:
    assert "ledger" in installed("-m", "airflow_provider_chs3", "--help")


@pytest.mark.thorough
def test_airflow_tests_the_connection(
    installed: Run, chs3_airflow_connections: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__TEST_CONNECTION", "Enabled")
    assert "Connection success!" in installed("-m", "airflow", "connections", "test", "chs3_default")


def test_the_dag_of_the_pages_actions_is_there_after_the_line_that_the_page_asks_for(
    installed: Run, tmp_path: Path
) -> None:
    (line,) = re.findall(r'"(from airflow_provider_chs3\S+ import dag)"', (PAGE / "src/actions/kinds.ts").read_text())
    (tmp_path / "actions.py").write_text(f"{line}\n")
    read = (
        f"import airflow_provider_chs3 as p; from {DagBag.__module__} import DagBag; b = DagBag({str(tmp_path)!r}); "
        "print(p.__file__, b.import_errors, list(b.dags))"
    )
    shown = installed("-c", read).splitlines()[-1]
    assert shown.endswith(f"{{}} ['{ACTIONS_DAG}']")
    assert not shown.startswith(str(PACKAGE))
