"""Where the seconds of the tests go: kept in `.dev`, and told at the end of a run, beside what grew since the last.

The seconds of fixtures of a module or of the session count for them and not for the test that happens to ask first;
they show under the name of the fixture.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_PROPERTY = "seconds of fixtures"
_SHOWN = 10
#: A test grew if it took so many times as long as before, and so many seconds more, at the whole run's pace.
_GROWN_TIMES, _GROWN_SECONDS = 1.5, 2.0


class Durations:
    """Adds up the seconds of each test and shared fixture; the plugin of each run of `./dev test`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a phase of a test, whichever process ran it."""
        if report.when == "teardown":
            for name, value in report.user_properties:
                if name == _PROPERTY:
                    self._seconds.update(value)
                    self._seconds[report.nodeid] -= sum(value.values())
        self._seconds[report.nodeid] += report.duration

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Tell which took longest and what grew, and keep all."""
        before = json.loads(self._path.read_text(encoding="utf-8")) if self._path.exists() else {}
        terminalreporter.section("seconds")
        for line in told(self._seconds, before):
            terminalreporter.write_line(line)
        kept = {name: round(seconds, 2) for name, seconds in self._seconds.items()}
        self._path.write_text(json.dumps(before | kept, indent=0, sort_keys=True), encoding="utf-8")


class SharedFixtures:
    """Notes how long fixtures take that several tests share, and what ends with a module."""

    def __init__(self) -> None:
        self._inner: list[float] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[Any]:
        """Measure it without the shared fixtures that it asks for."""
        if fixturedef.scope == "function":
            return (yield)
        begun = time.monotonic()
        self._inner.append(0.0)
        try:
            return (yield)
        finally:
            seconds = time.monotonic() - begun
            _note(request._pyfuncitem, request.node.nodeid, fixturedef.argname, seconds - self._inner.pop())
            if self._inner:
                self._inner[-1] += seconds

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        """Measure what ends with a module."""
        begun = time.monotonic()
        try:
            return (yield)
        finally:
            if nextitem is None or nextitem.path != item.path:
                _note(item, item.nodeid.partition("::")[0], "end", time.monotonic() - begun)


def _note(item: pytest.Item, where: str, what: str, seconds: float) -> None:
    item.user_properties.append((_PROPERTY, {f"{where or 'session'} ({what})": seconds}))


def told(seconds: dict[str, float], before: dict[str, float]) -> list[str]:
    """Tell where the time went."""
    folders: Counter[str] = Counter()
    for name, each in seconds.items():
        folders["/".join(name.partition("::")[0].split("/")[:2])] += each
    lines = ["by folder: " + ", ".join(f"{name} {each:.0f}" for name, each in folders.most_common(_SHOWN))]
    lines += [f"{each:6.1f}  {name}" for name, each in Counter(seconds).most_common(_SHOWN)]
    grown = _grown(seconds, before)
    return lines + [f"{each:6.1f}  {name}, {before[name]:.1f} before" for name, each in grown.most_common(_SHOWN)]


def _grown(seconds: dict[str, float], before: dict[str, float]) -> Counter[str]:
    """Return what takes longer than before, beyond a slower machine today."""
    known = seconds.keys() & before.keys()
    pace = sum(seconds[name] for name in known) / (sum(before[name] for name in known) or 1)
    return Counter(
        {
            name: seconds[name]
            for name in known
            if seconds[name] > _GROWN_TIMES * pace * before[name]
            and seconds[name] - pace * before[name] > _GROWN_SECONDS
        }
    )
