"""The files of long runs: a line of JSON for each table, and what all of them add up to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from tests.nights.spans import SPANS
from tests.support.long_run import Results, listed

Line = dict[str, Any]
#: The lines of the table, each with the beginnings of a night's own words for it.
_TOLD = {
    "kills of loads": ("a load killed",),
    "two loads at once": ("two loads",),
    "nodes killed": ("a node",),
    "power cuts": ("a power cut",),
    "replica away": ("a replica away",),
    "rows held": ("rows held",),
    "increments": ("increment",),
}


class Record(Results):
    """The results of tables."""

    def add(self, *, seen: Counter[str], wrong: list[str], nights: int, server: str, **of: Any) -> None:
        """One more table."""
        told = {"nights": nights, "wrong": wrong, "seen": dict(sorted(_kinds(seen).items()))}
        self.write(f"{of['servers']}-{of['kind']}-{of['run']}", server=server, **of, **told)


def _kinds(seen: Counter[str]) -> Counter[str]:
    """Counts of what was seen, without the periods and numbers of files."""
    kinds = Counter[str]()
    for what, times in seen.items():
        kinds["files added" if "files added" in what else what] += times
    return kinds


def table_of(lines: Iterable[Line]) -> str:
    """Add nights up to a table of Markdown, by servers."""
    groups: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in lines:
        groups[line["clickhouse"], f"{line['servers']}{', power cuts' * (line['kind'] == 'power')}"].append(line)
    rows = [
        f"| {clickhouse}, {servers} | {sum(line['nights'] for line in group)} "
        f"| {sum(len(line['wrong']) for line in group)} | {' | '.join([*_nights_of_spans(group), *_counts(group)])} "
        f"| {listed(line['run'] for line in group)} | {listed(line['commit'] for line in group)} |"
        for (clickhouse, servers), group in sorted(groups.items())
    ]
    heads = ["servers", "nights", "different", *(span.name for span in SPANS), *_TOLD, "seeds", "commits"]
    return "\n".join([f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *rows])


def _nights_of_spans(group: list[Line]) -> list[str]:
    return [str(sum(line["nights"] for line in group if line["span"] == span.name)) for span in SPANS]


def _counts(group: Iterable[Line]) -> list[str]:
    seen = Counter[str]()
    for line in group:
        seen.update(line["seen"])
    return [str(sum(times for what, times in seen.items() if what.startswith(begin))) for begin in _TOLD.values()]
