"""Package the built page with setuptools, and its sources in the sdist; make the README the page of the package index.

Nothing here runs Node or needs a network. setuptools reads this file before anything is installed: it imports nothing
of the package.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from setuptools.command.build_py import build_py
from setuptools.command.egg_info import egg_info
from setuptools.command.sdist import sdist
from setuptools.errors import SetupError

# setuptools runs in the project's folder, and asks for paths from there.
_SOURCES = Path("airflow_provider_chs3/plugin/page")
_BUILT = Path("airflow_provider_chs3/plugin/static")
_NOTICES = _BUILT / "third-party-notices.md"
_NO_SOURCES = {"node_modules", "__pycache__"}
_LINK = re.compile(r"(?P<image>!?)(?P<text>\[(?:!\[[^\]]*\]\([^)]*\)|[^\]])*\])\((?P<to>[^)\s]+)\)")
_TITLE = re.compile(r"(?m)\A# .+\n")


def _check_page_is_built() -> None:
    if not (_BUILT / "main.js").is_file() or not _NOTICES.is_file():
        raise SetupError(
            f"the page in Airflow's UI is not built: {_BUILT} has no main.js with its notices. "
            "A git checkout has only its sources: run `./dev page` there first, which builds it (and gets Node if it "
            "is missing), or install an sdist or a wheel, which contain the built page."
        )


def _sources_of_page() -> Iterator[Path]:
    # Folders that are not packed are not walked: npm may be filling them meanwhile.
    for folder, folders, files in os.walk(_SOURCES):
        folders[:] = [name for name in folders if name not in _NO_SOURCES]
        yield from (Path(folder, name) for name in files)


class BuildPy(build_py):
    """A build that refuses wheels without the page. Editable installs may lack it: their files are the checkout's."""

    def run(self) -> None:  # noqa: D102
        if not self.editable_mode:
            _check_page_is_built()
        super().run()

    def get_source_files(self) -> list[str]:
        """Return the package's files for the sdist, with the sources of the page."""
        return [*super().get_source_files(), *sorted(path.as_posix() for path in _sources_of_page())]


class Sdist(sdist):
    """A source distribution that requires the page: users who install it have no Node."""

    def run(self) -> None:  # noqa: D102
        _check_page_is_built()
        super().run()


class EggInfo(egg_info):
    """The metadata, with the notices as a license file; setup.cfg would require them for editable installs, too.

    In a release, all links are absolute; the environment variable `CHS3_PROJECT_URL` names its repository.
    """

    def finalize_options(self) -> None:  # noqa: D102
        metadata = self.distribution.metadata
        if _NOTICES.is_file() and _NOTICES.as_posix() not in metadata.license_files:
            metadata.license_files = [*metadata.license_files, _NOTICES.as_posix()]
        if url := os.environ.get("CHS3_PROJECT_URL", "").rstrip("/"):
            metadata.project_urls = dict(_project_urls(url, metadata.version))
            metadata.long_description = _description(metadata.long_description, url, metadata.version)
        super().finalize_options()


def _project_urls(url: str, version: str) -> Mapping[str, str]:
    """Return the links that the index shows beside the description."""
    files = f"{url}/blob/v{version}"
    return {
        "Documentation": f"{files}/docs/index.md",
        "Changelog": f"{files}/CHANGELOG.md",
        "Source": f"{url}/tree/v{version}",
        "Issues": f"{url}/issues",
    }


def _description(readme: str, url: str, version: str) -> str:
    """Return the README with absolute links to the files of its version, and with badges."""

    def absolute(link: re.Match[str]) -> str:
        to = link["to"]
        if "://" not in to and not to.startswith("#"):
            to = f"{url}/{'raw' if link['image'] else 'blob'}/v{version}/{to}"
        return f"{link['image']}{link['text']}({to})"

    badges = (
        f"[![CI]({url}/actions/workflows/ci.yml/badge.svg)]({url}/actions/workflows/ci.yml)\n"
        "[![Versions of Python](https://img.shields.io/pypi/pyversions/airflow-provider-chs3)]"
        "(https://pypi.org/project/airflow-provider-chs3/)\n"
    )
    with_badges = _TITLE.sub(lambda title: f"{title[0]}\n{badges}", readme)
    return _LINK.sub(absolute, with_badges)
