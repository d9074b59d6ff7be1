"""The files of a long run: a line of JSON for each strike, and what all of them add up to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from tests.faults.random_run import Round
from tests.support.long_run import Results, listed

Line = dict[str, Any]


class Record(Results):
    """The results of strikes."""

    def done(self, **of: Any) -> int:
        """Count the strikes that have these values."""
        return len(self.of(**of))

    def add(self, done: Round, *, server: str, **of: Any) -> None:
        """One more strike."""
        self.write("-".join(map(str, of.values())), server=server, **of, **asdict(done))


def table_of(lines: Iterable[Line]) -> str:
    """Add strikes up to a table of Markdown, by servers and kind of strike."""
    groups: dict[tuple[str, str, str], list[Line]] = defaultdict(list)
    for line in lines:
        groups[line["clickhouse"], line["servers"], line["strike"]].append(line)
    rows = [
        f"| {clickhouse}, {servers} | {strike} | {len(group)} | {sum(bool(line['wrong']) for line in group)} "
        f"| {listed(line['seed'] for line in group)} | {listed(line['commit'] for line in group)} |"
        for (clickhouse, servers, strike), group in sorted(groups.items())
    ]
    return "\n".join(["| servers | strike | times | wrong | seeds | commits |", "|---|---|---|---|---|---|", *rows])
