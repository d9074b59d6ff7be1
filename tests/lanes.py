"""Lanes: parts of the suite that are commands of their own, `./dev test --lane changes`; without one, all run.

Most tests are what every change should run. Long tests that seldom break have their own lanes, of which `changes` has
an example too: of each source one load, one refusal and one kill (`@pytest.mark.every_change`).
"""

from __future__ import annotations

import pytest

LANES = {
    "changes": "what every change runs",
    "sources": "servers of other storages, databases and Kafka",
    "delivery": "lint, the page in a browser, wheels, the documentation and its tutorial",
}
_SOURCES = ("tests/sources/", "tests/system/test_chs3_kafka.py")
_DELIVERY = (
    "tests/test_lint.py",
    "tests/test_docs",
    "tests/test_tutorial.py",
    "tests/packaging/test_d",
    "tests/packaging/test_page.py",
    "tests/packaging/test_wheels.py",
)
#: Files with long tests, which begin first, so that no process works on one of them when the others are done.
_FIRST = (
    "tests/test_lint.py",
    *_DELIVERY,
    "tests/servers/",
    "tests/scheduler/",
    "tests/faults/",
    "tests/plugin/",
    "tests/sources/",
    "tests/trace/",
)
#: Servers that take seconds of the processor to start: one process runs all tests of each.
_SLOW_SERVERS = ("hdfs", "kafka", "azure")
#: Folders of one process each, for what their files share: four replicas; or Airflow's API, a browser and a cluster.
_OF_ONE_PROCESS = ("tests/servers/", "tests/plugin/")


def lane_of(item: pytest.Item) -> str:
    """Tell which lane has a test."""
    if item.get_closest_marker("every_change"):
        return "changes"
    if item.nodeid.startswith(_SOURCES):
        return "sources"
    needs_browser = "browser" in getattr(item, "fixturenames", ())
    return "delivery" if needs_browser or item.nodeid.startswith(_DELIVERY) else "changes"


def together(nodeid: str) -> str:
    """Tell with which others a test stays in one process: those of its file, folder or server."""
    file = nodeid.partition("::")[0]
    is_of_source = nodeid.startswith(_SOURCES)
    servers = [name for name in _SLOW_SERVERS if is_of_source and name in nodeid]
    return (*servers, *filter(nodeid.startswith, _OF_ONE_PROCESS), file)[0]


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests such that files with long ones come first, and those of the core last."""

    def rank(item: pytest.Item) -> int:
        if item.nodeid.startswith("tests/core/"):
            return len(_FIRST) + 1
        return next((place for place, name in enumerate(_FIRST) if item.nodeid.startswith(name)), len(_FIRST))

    items.sort(key=rank)
