"""Turn the README into the page of the package index, which knows no files beside it. Nothing here needs a network."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LINK = re.compile(r"(?P<image>!?)(?P<text>\[(?:!\[[^\]]*\]\([^)]*\)|[^\]])*\])\((?P<to>[^)\s]+)\)")
_TITLE = re.compile(r"(?m)\A# .+\n")


def project_urls(url: str, version: str) -> Mapping[str, str]:
    """Return the links that the index shows beside the description.

    Args:
        url: The repository's page, as `https://github.com/owner/name`.
        version: The version, whose tag is `v` and it.
    """
    files = f"{url}/blob/v{version}"
    return {
        "Documentation": f"{files}/docs/index.md",
        "Changelog": f"{files}/CHANGELOG.md",
        "Source": f"{url}/tree/v{version}",
        "Issues": f"{url}/issues",
    }


def description(readme: str, url: str, version: str) -> str:
    """Return the README with absolute links to the files of its version, and with badges.

    Args:
        readme: The README, as Markdown.
        url: The repository's page, as `https://github.com/owner/name`.
        version: The version, whose tag is `v` and it.
    """

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
