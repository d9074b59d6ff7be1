"""The file of a long run: a line of JSON for each strike, and what all of them add up to."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.faults.random_run import Round
from tests.fidelity.record import protocol_hash, versions

Line = dict[str, Any]


class Record:
    """A file of results.

    Args:
        path: The file, which need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def current(self) -> list[Line]:
        """Results of the code as it is now."""
        if not self._path.exists():
            return []
        lines = (json.loads(line) for line in self._path.read_text(encoding="utf-8").splitlines())
        now = protocol_hash()
        return [line for line in lines if line["protocol"] == now]

    def done(self, **of: Any) -> int:
        """Count the strikes that have these values."""
        return sum(all(line[name] == value for name, value in of.items()) for line in self.current())

    def add(self, done: Round, *, server: str, **of: Any) -> None:
        """One more result; it is in the file when this returns."""
        told = versions(server)
        line = {"commit": told["commit"], "protocol": told["protocol"], "clickhouse": server, **of, **asdict(done)}
        with self._path.open("a", encoding="utf-8") as file:
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
