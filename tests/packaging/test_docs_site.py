"""Each release's documentation is published beside the others, and leads to the same page of another version."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.packaging.tree import ROOT
from tests.support.browsing import browser as browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PUBLISH = ROOT / ".ci" / "publish_docs"
PERSON = {f"GIT_{role}_{what}": "me@example.com" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def _git(*arguments: str, folder: Path) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=os.environ | PERSON, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def _build(folder: Path, version: str, pages: list[str]) -> Path:
    """Build a few pages with the documentation's own configuration, as a version of it."""
    source = folder / f"source-{version}"
    (source / "how-to").mkdir(parents=True)
    links = "\n".join(pages)
    (source / "index.md").write_text(f"# Start\n\n```{{toctree}}\n{links}\n```\n", encoding="utf-8")
    for page in pages:
        (source / f"{page}.md").write_text(f"# {page} of {version}\n", encoding="utf-8")
    release = [
        "-D",
        f"version={version}",
        "-D",
        f"release={version}",
        "-D",
        "html_static_path=" + str(ROOT / "docs/_static"),
    ]
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "-c", str(ROOT / "docs"), *release]
    subprocess.run([*command, str(source), str(folder / f"html-{version}")], check=True)
    return folder / f"html-{version}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The branch after three releases, the last of which corrects an older version."""
    folder = tmp_path_factory.mktemp("docs")
    remote, clone = folder / "remote.git", folder / "clone"
    _git("init", "--quiet", "--bare", str(remote), folder=folder)
    _git("clone", "--quiet", str(remote), str(clone), folder=folder)
    (clone / "README.md").write_text("The project.")
    _git("add", "--all", folder=clone)
    _git("commit", "--quiet", "--message", "The project", folder=clone)
    for version, pages in (
        ("0.9.0", ["how-to/load"]),
        ("0.10.0", ["how-to/load", "how-to/new"]),
        ("0.9.1", ["how-to/load"]),
    ):
        built = _build(folder, version, pages)
        subprocess.run([PUBLISH, version, built], cwd=clone, env=os.environ | PERSON, check=True)
    _git("clone", "--quiet", "--branch", "gh-pages", str(remote), "site", folder=folder)
    return folder / "site"


@pytest.fixture
def page(site: Path, browser: Browser) -> Iterator[tuple[Page, str]]:
    """A page of a browser, and where the site is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(SimpleHTTPRequestHandler, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    context = browser.new_context()
    yield context.new_page(), f"http://127.0.0.1:{server.server_port}"
    context.close()
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_release_is_published_beside_the_others(site: Path) -> None:
    assert sorted(each.name for each in site.iterdir()) == [
        ".git", ".nojekyll", "0.10.0", "0.9.0", "0.9.1", "index.html", "latest", "versions.json",
    ]  # fmt: skip
    assert json.loads((site / "versions.json").read_text()) == ["0.10.0", "0.9.1", "0.9.0"]
    assert "how-to/load of 0.9.1" in (site / "0.9.1/how-to/load.html").read_text(encoding="utf-8")
    assert "how-to/load of 0.10.0" in (site / "latest/how-to/load.html").read_text(encoding="utf-8")


def test_a_page_leads_to_the_same_page_of_another_version(page: tuple[Page, str]) -> None:
    browsed, url = page
    browsed.goto(f"{url}/")
    browsed.wait_for_url(f"{url}/latest/")
    browsed.get_by_role("link", name="how-to/load of 0.10.0").first.click()
    choice = browsed.get_by_label("Version")
    choice.wait_for()
    assert choice.locator("option").all_inner_texts() == ["0.10.0 (newest)", "0.9.1", "0.9.0"]
    assert choice.input_value() == "0.10.0"

    choice.select_option("0.9.0")
    browsed.wait_for_url(f"{url}/0.9.0/how-to/load.html")
    assert browsed.get_by_role("heading", name="how-to/load of 0.9.0").is_visible()
    browsed.get_by_label("Version").wait_for()
    assert browsed.get_by_label("Version").input_value() == "0.9.0"


def test_a_page_that_the_other_version_lacks_leads_to_its_start(page: tuple[Page, str]) -> None:
    browsed, url = page
    browsed.goto(f"{url}/0.10.0/how-to/new.html")
    browsed.get_by_label("Version").select_option("0.9.1")
    browsed.wait_for_url(f"{url}/0.9.1/")


def test_documentation_that_is_not_published_offers_no_versions(site: Path, page: tuple[Page, str]) -> None:
    browsed, _ = page
    browsed.goto((site / "latest/how-to/load.html").as_uri(), wait_until="networkidle")
    assert browsed.get_by_label("Version").is_hidden()
