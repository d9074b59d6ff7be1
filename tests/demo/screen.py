"""The output of the demo: lines while it runs, and its last screen."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from airflow_provider_chs3.core.tuning.insert_settings import exact_names
from airflow_provider_chs3.sources.s3.reading import S3
from tests.demo.lake import Lake, PartsOnNode

# If output goes to a file, rich would use 80 columns.
_FILE_COLUMNS = 120
# The parts that background merges leave of a period far below 150 GiB, the size at which parts are no longer merged.
_FEW_PARTS = 10


class Screen:
    """The output of the demo, with the seconds since it began."""

    def __init__(self) -> None:
        columns = None if sys.stdout.isatty() else _FILE_COLUMNS
        self._console = Console(width=columns, highlight=False, markup=False, emoji=False)
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._start

    def step(self, text: str) -> None:
        """Announce the next step."""
        self.line(f"{self.seconds:5.1f} s  {text}")

    def detail(self, text: str) -> None:
        """Write a detail of the step."""
        self.line(f"         {text}")

    def line(self, text: str = "") -> None:
        """Write a line as is."""
        self._console.print(text, soft_wrap=True)

    def settings(self, load: Mapping[str, Any]) -> None:
        """Show the settings of a load, each with its reason: those that were computed, then those of every load."""
        table = _table("Settings of the last load", "setting", "value", "reason")
        settings = json.loads(load["settings"])
        for setting in sorted(settings, key=lambda each: each["name"] in exact_names(S3)):
            table.add_row(setting["name"], str(setting["value"]), setting["reason"])
        self._console.print(table)

    def periods(self, lake: Lake) -> None:
        """Show every period: its last load, the nodes of its rows, and the state of its merges."""
        loads, nodes, rows = lake.loads(), lake.parts(), lake.rows_by_period()
        times = Counter(load["period"] for load in loads)
        newest = {load["period"]: load for load in loads}
        headings = ("period", "objects", "rows", "insert seconds", "rows/s", "loads", "rows by node", "parts", "merges")
        table = _table("Periods", *headings, right=range(1, 6))
        for period in lake.periods:
            load = newest[period]
            table.add_row(
                period,
                str(load["objects"]),
                f"{load['rows']:,}",
                f"{load['insert_seconds']:.2f}",
                f"{load['loaded_rows'] / load['insert_seconds']:,.0f}",
                str(times[period]),
                " + ".join(f"{on_node.get(period, 0):,}" for on_node in rows),
                " + ".join(str(node.parts.get(period, 0)) for node in nodes),
                merge_state(period, nodes),
            )
        self._console.print(table)


def merge_state(period: str, nodes: Sequence[PartsOnNode]) -> str:
    """Describe the current state of the merges of a period."""
    merges = sum(node.merges.get(period, 0) for node in nodes)
    most = max(nodes, key=lambda node: node.parts.get(period, 0))
    parts = most.parts.get(period, 0)
    if parts >= most.delay_limit:
        return f"not healthy: {parts} parts on a node, inserts are slowed down"
    if merges:
        return f"settling: {merges} running"
    return "healthy" if parts <= _FEW_PARTS else f"not settled: {parts} parts on a node, no merge runs"


def _table(title: str, *headings: str, right: Sequence[int] = ()) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index in right else "left", overflow="fold")
    return table
