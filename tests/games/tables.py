"""The tables of a game: a table, a view over it, and the files that it is loaded from."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from tests.games.model import ModelPeriod, Row, Rows
from tests.nights.spans import KEYS, SPANS, Span

if TYPE_CHECKING:
    from tests.support.lake import Lake

#: Spans of games: by month, by day, by tenant and month, and a whole table.
OF_GAMES = {span.name: span for span in SPANS if span.name in ("month", "day", "whole table", "set of partitions")}
#: No two rows have one key, so that no engine merges rows.
ENGINES = ("MergeTree", "ReplacingMergeTree", "SummingMergeTree(v)")
#: The keys by which a view groups rows: one row a period, or one for each of its partitions.
_GROUPS = {
    "month": "toYYYYMM(ts)",
    "day": "toDate(ts)",
    "whole table": "k % 2",
    "set of partitions": "k % 3, toYYYYMM(ts)",
}
_MOST_ROWS = 20


@dataclass
class Tables:
    """A table and its view's, and the model of their periods."""

    lake: Lake
    number: int
    span: Span
    engine: str
    choose: random.Random
    periods: dict[str, ModelPeriod] = field(init=False)
    keys: Any = field(default_factory=lambda: count(1))
    added: dict[str, str] = field(default_factory=dict)
    indices: list[str] = field(default_factory=list)
    projections: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.periods = {period: ModelPeriod() for period in self.span.periods}
        span, by = self.span, self.span.partition_by
        self.run(
            f"CREATE TABLE {self.name} (ts {span.column}, k UInt32, v Int64) ENGINE = {self.engine} "
            f"{by and f'PARTITION BY {by}'} ORDER BY k",
        )
        if self.has_view:
            self._create_view()

    def _create_view(self) -> None:
        span, by = self.span, self.span.partition_by
        self.run(
            f"CREATE TABLE {self.name}_sums (ts {span.column}, k UInt32, n UInt64, v Int64) ENGINE = MergeTree "
            f"{by and f'PARTITION BY {by}'} ORDER BY k",
            f"CREATE MATERIALIZED VIEW {self.name}_view TO {self.name}_sums AS "
            f"SELECT min(t.ts) AS ts, min(t.k) % 3 AS k, count() AS n, sum(t.v) AS v FROM {self.name} AS t "
            f"GROUP BY {_GROUPS[span.name].replace('ts', 't.ts').replace('k ', 't.k ')}",
        )

    @property
    def has_view(self) -> bool:
        """Whether a view follows the table: of other engines, merges may remove rows."""
        return self.engine == "MergeTree"

    @property
    def table(self) -> str:
        """The name of the table in its database."""
        return f"game_{self.number}"

    @property
    def name(self) -> str:
        """The name of the table."""
        return f"{self.lake.database}.{self.table}"

    @property
    def prefix(self) -> str:
        """The beginning of the keys of its objects."""
        return f"games{self.number}"

    def run(self, *statements: str) -> None:
        """Run statements."""
        for sql in statements:
            self.lake.on_node(0, sql)

    @property
    def structure(self) -> str:
        """Columns with their types, indices and projections that were added."""
        return f"{[*self.added.items()]} {self.indices} {self.projections}"

    def alter(self, choose: random.Random, name: str) -> str:
        """Add, drop, rename or modify a column that no file has, or an index, or a projection."""
        forms = [self._add_column, self._add_index]
        forms += [self._drop_column, self._rename_column, self._modify_column] if self.added else []
        forms += [self._drop_index] if self.indices else []
        # Engines that merge rows away refuse projections.
        forms += [self._drop_projection if self.projections else self._add_projection] if self.has_view else []
        alteration = choose.choice(forms)(name)
        self.run(f"ALTER TABLE {self.name} {alteration} SETTINGS mutations_sync = 2, alter_sync = 2")
        return alteration

    def _add_column(self, name: str) -> str:
        self.added[f"c{name}"] = "Int64"
        return f"ADD COLUMN c{name} Int64 DEFAULT 7"

    def _drop_column(self, _: str) -> str:
        column, _ = self.added.popitem()
        return f"DROP COLUMN {column}"

    def _rename_column(self, name: str) -> str:
        column, kind = self.added.popitem()
        self.added[f"c{name}"] = kind
        return f"RENAME COLUMN {column} TO c{name}"

    def _modify_column(self, _: str) -> str:
        column, kind = self.added.popitem()
        self.added[column] = "String" if kind == "Int64" else "Int64"
        return f"MODIFY COLUMN {column} {self.added[column]}"

    def _add_index(self, name: str) -> str:
        self.indices.append(f"i{name}")
        return f"ADD INDEX i{name} v TYPE minmax"

    def _drop_index(self, _: str) -> str:
        return f"DROP INDEX {self.indices.pop()}"

    def _add_projection(self, name: str) -> str:
        self.projections.append(f"p{name}")
        return f"ADD PROJECTION p{name} (SELECT k, sum(v) GROUP BY k)"

    def _drop_projection(self, _: str) -> str:
        return f"DROP PROJECTION {self.projections.pop()}"

    def some_rows(self, period: str, number: int = 0) -> Rows:
        """Make rows of a period; by default as many as chance gives."""
        number = number or self.choose.randrange(1, _MOST_ROWS)
        return Counter(self._row(period) for _ in range(number))

    def _row(self, period: str) -> Row:
        at = int(self.span.moment(period, self.choose.randrange(KEYS)).timestamp())
        return at, next(self.keys), self.choose.randrange(1, 100)

    def put(self, period: str, name: str) -> None:
        """Write a file, which may be there."""
        of_period = self.periods[period]
        number, _ = of_period.files.get(name, (0, Counter()))
        rows = self.some_rows(period)
        of_period.files[name] = (number + 1, rows)
        lines = (f"{at},{key},{value}\n" for at, key, value in rows)
        self.lake.put(f"{self.prefix}/{period}/{name}", ("ts,k,v\n" + "".join(lines)).encode())

    def delete(self, period: str, name: str) -> None:
        """Delete a file."""
        del self.periods[period].files[name]
        self.lake.s3.delete_object(Bucket=self.lake.bucket, Key=f"{self.prefix}/{period}/{name}")

    def insert(self, rows: Rows) -> None:
        """Insert rows as somebody else does, whom the view follows."""
        values = ", ".join(map(str, rows.elements()))
        self.run(f"INSERT INTO {self.name} (ts, k, v) VALUES {values}")

    def sums(self, rows: Rows) -> Counter[Any]:
        """Return what the view makes of rows of a period."""
        if not self.has_view:
            return Counter()
        grouped: dict[int, list[Row]] = {}
        groups = {"whole table": 2, "set of partitions": 3}.get(self.span.name, 1)
        for row in rows.elements():
            grouped.setdefault(row[1] % groups, []).append(row)
        return Counter(
            (min(key for _, key, _ in some) % 3, len(some), sum(value for *_, value in some))
            for some in grouped.values()
        )

    def content(self) -> dict[str, Rows]:
        """Read the rows of each period."""
        found = {period: Counter[Row]() for period in self.periods}
        for at, *row in self.lake.on_node(0, f"SELECT toUnixTimestamp(ts), k, v FROM {self.name}"):
            found[self.period_of(at)][at, *row] += 1
        return found

    def content_of_view(self) -> dict[str, Counter[Any]]:
        """Read the rows of each period of the view's table, without their time."""
        found = {period: Counter[Any]() for period in self.periods}
        if not self.has_view:
            return found
        for at, *row in self.lake.on_node(0, f"SELECT toUnixTimestamp(ts), k, n, v FROM {self.name}_sums"):
            found[self.period_of(at)][tuple(row)] += 1
        return found

    def content_of_version(self, table: str, period: str) -> Rows:
        """Read the rows of a period that a table of versions has."""
        rows = self.lake.on_node(0, f"SELECT toUnixTimestamp(ts), k, v FROM {self.lake.database}.{table}")
        return Counter(row for row in rows if self.period_of(row[0]) == period)

    def period_of(self, at: int) -> str:
        """Return the period of a moment."""
        last = (period for period in self.periods if at >= self.span.moment(period, 0).timestamp())
        return max(last, key=lambda period: self.span.moment(period, 0))
