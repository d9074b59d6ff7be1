"""The project names the same versions of Python everywhere: those that tests ran on."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _metadata() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


PYTHONS = re.findall(
    r"^Programming Language :: Python :: (3\.\d+)$", _metadata()["metadata"]["classifiers"], re.MULTILINE
)


def test_the_lowest_is_the_one_that_pip_asks_for() -> None:
    assert _metadata()["options"]["python_requires"] == f">={PYTHONS[0]}"


@pytest.mark.parametrize(
    ("path", "where", "version"),
    [
        ("README.md", r"^\| Python \|.*?\|(.*?);", r"3\.\d+"),
        ("docs/compatibility.md", r"^Tests run on Python(.*?)Linux", r"3\.\d+"),
        ("tox.ini", r"^env_list =(.*)", r"py(3\d+)"),
        (".github/workflows/ci.yml", r"^        include:\n((?: {10}.*\n)+)", r'python: "(.*?)"'),
    ],
)
def test_the_classifiers_are_those_of(path: str, where: str, version: str) -> None:
    found = re.search(where, (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    assert found, f"{path} no longer names the versions"
    named = sorted(each.replace(".", "") for each in re.findall(version, found[1]))
    assert named == [python.replace(".", "") for python in PYTHONS]
