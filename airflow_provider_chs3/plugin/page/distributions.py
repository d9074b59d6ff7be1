"""What setuptools does for the page: it packs what was built, with its sources in the sdist. Nothing here runs Node."""

from __future__ import annotations

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


def _check_the_page_is_built() -> None:
    if not (_BUILT / "page.html").is_file() or not _NOTICES.is_file():
        raise SetupError(
            f"the page in Airflow's UI is not built: {_BUILT} has no page.html with its notices. "
            "A git checkout has only its sources: run `./dev page` there first, which builds it (and gets Node where "
            "there is none), or install an sdist or a wheel, which hold the built page."
        )


class BuildPy(build_py):
    """Builds no wheel without the page. An editable install may come first: its files are those of the checkout."""

    def run(self) -> None:  # noqa: D102
        if not self.editable_mode:
            _check_the_page_is_built()
        super().run()

    def get_source_files(self) -> list[str]:
        """Return what the sdist takes from the package, with the sources of the page."""
        found = (path for path in _SOURCES.rglob("*") if path.is_file() and _NO_SOURCES.isdisjoint(path.parts))
        return [*super().get_source_files(), *sorted(path.as_posix() for path in found)]


class Sdist(sdist):
    """Makes no sdist without the page: who installs it has no Node."""

    def run(self) -> None:  # noqa: D102
        _check_the_page_is_built()
        super().run()


class EggInfo(egg_info):
    """Names the notices as a license file; listed in setup.cfg, they had to be there for an editable install, too."""

    def finalize_options(self) -> None:  # noqa: D102
        metadata = self.distribution.metadata
        if _NOTICES.is_file() and _NOTICES.as_posix() not in metadata.license_files:
            metadata.license_files = [*metadata.license_files, _NOTICES.as_posix()]
        super().finalize_options()
