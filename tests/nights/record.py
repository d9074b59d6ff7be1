"""The files of long runs: a line of JSON for each table, and what all of them add up to."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.protocol_sources import steps_hash
from tests.tested import commit

Line = dict[str, Any]
#: The lines of the table, each with the beginnings of a night's own words for it.
_TOLD = {
    "kills of loads": ("a load killed",),
    "two loads at once": ("two loads",),
    "nodes killed": ("a node",),
    "power cuts": ("a power cut",),
    "replica away": ("a replica away",),
    "increments": ("increment",),
}


class Record:
    """A folder of results: a file for each seed and its servers, so that runs side by side do not mix lines.

    Args:
        folder: The folder, which need not be there yet.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def current(self) -> list[Line]:
        """Results of the code as it is now, as far as it writes and publishes."""
        files = sorted(self._folder.glob("*.jsonl"))
        lines = (json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines())
        return [line for line in lines if line["steps"] == steps_hash()]

    def of(self, **values: Any) -> list[Line]:
        """The lines that have these values."""
        return [line for line in self.current() if all(line[name] == value for name, value in values.items())]

    def add(self, *, seen: Counter[str], wrong: list[str], nights: int, server: str, **of: Any) -> None:
        """One more table; it is in its file when this returns."""
        told = {"nights": nights, "wrong": wrong, "seen": dict(sorted(_kinds(seen).items()))}
        line = {"commit": commit(), "steps": steps_hash(), "clickhouse": server, **of, **told}
        self._folder.mkdir(parents=True, exist_ok=True)
        name = f"{of['servers']}-{of['kind']}-{of['run']}".replace(" ", "-")
        with (self._folder / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _kinds(seen: Counter[str]) -> Counter[str]:
    """Counts of what was seen, without the periods and numbers of files."""
    kinds = Counter[str]()
    for what, times in seen.items():
        kinds["files added" if "files added" in what else what] += times
    return kinds


def table_of(lines: Iterable[Line]) -> str:
    """Add nights up to a table of Markdown, by servers.

    Args:
        lines: Of the files of results.
    """
    groups: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in lines:
        groups[line["clickhouse"], f"{line['servers']}{', power cuts' * (line['kind'] == 'power')}"].append(line)
    rows = [
        f"| {clickhouse}, {servers} | {sum(line['nights'] for line in group)} "
        f"| {sum(len(line['wrong']) for line in group)} | {' | '.join(_counts(group))} "
        f"| {_listed(line['run'] for line in group)} | {_listed(line['commit'] for line in group)} |"
        for (clickhouse, servers), group in sorted(groups.items())
    ]
    heads = ["servers", "nights", "different", *_TOLD, "seeds", "commits"]
    return "\n".join([f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *rows])


def _counts(group: Iterable[Line]) -> list[str]:
    seen = Counter[str]()
    for line in group:
        seen.update(line["seen"])
    return [str(sum(times for what, times in seen.items() if what.startswith(begin))) for begin in _TOLD.values()]


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(map(str, sorted(set(values))))
