"""Find what the SELECT of a materialized view makes of a whole period, and not of its blocks one by one.

A view runs its SELECT over each block of an INSERT, and only over what comes in: other tables, and the base where it is
read a second time, are read as they are. The server says what a SELECT does: `EXPLAIN QUERY TREE`, which has all names
resolved, and is the same on 25.8 and 26.9 as far as it is read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from airflow_provider_chs3.core.model.models import TableName

_INDENT = 2
#: A table, and after its name whether it is read in a special way.
_TABLE = re.compile(r"TABLE id: \d+, (?:alias: \S+, )?table_name: (.*?)((?:, (?:final|sample_size|offset_size): .*)?)")
_TABLE_FUNCTION = re.compile(r"TABLE_FUNCTION id: \d+, (?:alias: \S+, )?table_function_name: (.*)")
_JOIN = re.compile(r"JOIN id: .*\bkind: (RIGHT|FULL)")
#: Expressions with another result over the blocks of an INSERT than over a whole period → how their lines begin.
_OF_BLOCKS: Mapping[str, re.Pattern[str]] = {
    "a window function": re.compile(r"FUNCTION id: .*\bfunction_type: window"),
    "LIMIT": re.compile(r"LIMIT(?: BY)?(?: LIMIT)?$"),
    "OFFSET": re.compile(r"OFFSET$"),
    "HAVING": re.compile(r"HAVING$"),
    "DISTINCT": re.compile(r"QUERY id: .*\bis_distinct: 1"),
    "WITH TOTALS": re.compile(r"QUERY id: .*\bis_group_by_with_totals: 1"),
    "WITH FILL": re.compile(r"SORT id: .*\bwith_fill: 1"),
    "UNION, INTERSECT or EXCEPT": re.compile(r"UNION id: "),
    "PASTE JOIN": re.compile(r"JOIN id: .*\bkind: PASTE"),
    "a random function": re.compile(r"FUNCTION id: \d+, function_name: (?:rand|canonicalRand)"),
    "a function of blocks": re.compile(r"FUNCTION id: \d+, function_name: (?:neighbor|running|rowNumberIn|block)"),
}


@dataclass(frozen=True, slots=True)
class QueryTree:
    """A line of a SELECT, as a server understands it, with those below it."""

    text: str
    below: list[QueryTree] = field(default_factory=list)

    @classmethod
    def of(cls, lines: Iterable[str]) -> QueryTree:
        """Read what `EXPLAIN QUERY TREE run_passes = 1` returns."""
        above = [cls("")]
        for line in lines:
            text = line.lstrip(" ")
            del above[1 + (len(line) - len(text)) // _INDENT :]
            above.append(cls(text))
            above[-2].below.append(above[-1])
        return above[0].below[0] if above[0].below else above[0]

    def explain_difference(self, base: TableName) -> str:
        """Return why all of the base would not make what its blocks make; empty if it does."""
        for name, pattern in _OF_BLOCKS.items():
            if any(pattern.match(node.text) for node in self._walk()):
                return f"its SELECT has {name}, which makes something else of the blocks of an INSERT than of a period"
        if self._tables().count(str(base)) != 1:
            return f"its SELECT reads {base} several times, and a view sees what came in only once"
        if functions := [function[1] for node in self._walk() if (function := _TABLE_FUNCTION.fullmatch(node.text))]:
            return f"its SELECT reads {functions[0]}(…), which may read {base} in its turn"
        # A view is on the first table that it reads.
        if any(_JOIN.match(node.text) for node in self._to_the_first_table()):
            return "its join adds rows that another table has alone, once for each block of an INSERT"
        return ""

    def others(self, base: TableName) -> list[str]:
        """Return the tables that it reads besides the base, as they are then."""
        return sorted({*self._tables()} - {str(base)})

    @property
    def table(self) -> str:
        """The table that the line reads; empty if it reads none."""
        match = _TABLE.fullmatch(self.text)
        return match[1] if match else ""

    def _tables(self) -> list[str]:
        return [node.table for node in self._walk() if node.table]

    def _walk(self) -> Iterator[QueryTree]:
        yield self
        for node in self.below:
            yield from node._walk()

    def _to_the_first_table(self) -> Iterator[QueryTree]:
        yield self
        for node in self.below:
            if node.text in ("JOIN TREE", "LEFT TABLE EXPRESSION", "TABLE EXPRESSION"):
                yield from node.below[0]._to_the_first_table()
