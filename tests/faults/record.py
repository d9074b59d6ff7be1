"""The files of a long run: a line of JSON for each strike, and what all of them add up to."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.faults.random_run import Round
from tests.protocol_sources import steps_hash
from tests.tested import commit

Line = dict[str, Any]


class Record:
    """A folder of results: a file for each seed and what it strikes, so that runs side by side do not mix lines.

    Args:
        folder: The folder, which need not be there yet.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def current(self) -> list[Line]:
        """Results of the code as it is now, as far as it writes and publishes."""
        now = steps_hash()
        files = sorted(self._folder.glob("*.jsonl"))
        lines = (json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines())
        return [line for line in lines if line["steps"] == now]

    def done(self, **of: Any) -> int:
        """Count the strikes that have these values."""
        return sum(all(line[name] == value for name, value in of.items()) for line in self.current())

    def add(self, done: Round, *, server: str, **of: Any) -> None:
        """One more result; it is in its file when this returns."""
        line = {"commit": commit(), "steps": steps_hash(), "clickhouse": server, **of, **asdict(done)}
        self._folder.mkdir(parents=True, exist_ok=True)
        name = "-".join(map(str, of.values())).replace(" ", "-")
        with (self._folder / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def table_of(lines: Iterable[Line]) -> str:
    """Add strikes up to a table of Markdown, by servers and kind of strike.

    Args:
        lines: Of a file of results.
    """
    groups: dict[tuple[str, str, str], list[Line]] = defaultdict(list)
    for line in lines:
        groups[line["clickhouse"], line["servers"], line["strike"]].append(line)
    rows = [
        f"| {clickhouse}, {servers} | {strike} | {len(group)} | {sum(bool(line['wrong']) for line in group)} "
        f"| {_listed(line['seed'] for line in group)} | {_listed(line['commit'] for line in group)} |"
        for (clickhouse, servers, strike), group in sorted(groups.items())
    ]
    return "\n".join(["| servers | strike | times | wrong | seeds | commits |", "|---|---|---|---|---|---|", *rows])


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(map(str, sorted(set(values))))
