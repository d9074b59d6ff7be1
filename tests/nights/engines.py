"""The engines that nights are played on: how a table is made, and how what it holds is read."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.nights.spans import Span

_COLUMNS = "ts DateTime('UTC'), k UInt32, ver UInt32, sign Int8, v Int64, s String"


@dataclass(frozen=True)
class Engine:
    """An engine."""

    name: str
    clause: str
    order_by: str = "(k, ts)"
    read: str = "*"
    group_by: str = ""
    over_nodes: tuple[str, str] | None = None
    is_loaded_whole: bool = False
    may_lose_parts: bool = False
    columns: str = _COLUMNS
    signs: str = "chance"
    object_column: str = ""

    def create(self, table: str, span: Span, *, replicas_at: str | None = None) -> str:
        """The CREATE TABLE of a table."""
        clause = self.clause
        if replicas_at is not None:
            name, _, arguments = clause.partition("(")
            clause = f"Replicated{name}({', '.join(filter(None, (replicas_at, arguments.removesuffix(')'))))})"
        columns = self.columns.replace("DateTime('UTC')", span.column)
        by = f"PARTITION BY {span.partition_by}" if span.partition_by else ""
        return f"CREATE TABLE {table} ({columns}) ENGINE = {clause} {by} ORDER BY {self.order_by}"

    def select(self, table: str, span: Span, *, shards: int) -> str:
        """All that it holds but the period of others; times in seconds, as two of them may be called the same."""
        read, group_by = self.over_nodes if self.over_nodes and shards > 1 else (self.read, self.group_by)
        where = f"WHERE ts < toDateTime({span.moment(span.other, 0).timestamp():.0f})" if span.other else ""
        final = "" if group_by or self.clause == "MergeTree" else " FINAL"
        rows = f"SELECT * REPLACE (toUnixTimestamp(ts) AS ts) FROM {table}{final} {where}"
        return f"SELECT {read} FROM ({rows}){f' GROUP BY {group_by}' if group_by else ''}"

    def sign(self, key: int, version: int, choose: random.Random) -> int:
        """The sign of a row."""
        if self.signs == "version":
            return (key + version) % 2
        if self.signs == "key":
            return 1 if key % 2 else -1
        return choose.choice((1, 1, -1))


ENGINES = (
    Engine("plain", "MergeTree"),
    Engine(
        "by object",
        "MergeTree",
        columns=f"{_COLUMNS}, o LowCardinality(String)",
        read="* EXCEPT o",
        object_column="o",
    ),
    Engine("replacing", "ReplacingMergeTree(ver)", signs="version", over_nodes=("k, ts, max(ver)", "k, ts")),
    Engine("replacing without version", "ReplacingMergeTree", read="k, ts", over_nodes=("k, ts", "k, ts")),
    Engine(
        "deleted",
        "ReplacingMergeTree(ver, sign)",
        columns=_COLUMNS.replace("sign Int8", "sign UInt8"),
        signs="version",
        over_nodes=("k, ts, max(ver)", "k, ts"),
    ),
    Engine("summing", "SummingMergeTree((v))", read="k, ts, sum(v)", group_by="k, ts", may_lose_parts=True),
    Engine(
        "aggregating",
        "AggregatingMergeTree",
        columns="ts DateTime('UTC'), k UInt32, ver SimpleAggregateFunction(max, UInt32), "
        "sign SimpleAggregateFunction(min, Int8), v SimpleAggregateFunction(sum, Int64), "
        "s SimpleAggregateFunction(max, String)",
        over_nodes=("k, ts, max(ver), min(sign), sum(v), max(s)", "k, ts"),
    ),
    Engine("coalescing", "CoalescingMergeTree", read="k, ts", over_nodes=("k, ts", "k, ts")),
    Engine(
        "collapsing",
        "CollapsingMergeTree(sign)",
        read="k, ts, any(sign)",
        group_by="k, ts",
        signs="key",
        is_loaded_whole=True,
        may_lose_parts=True,
    ),
)
