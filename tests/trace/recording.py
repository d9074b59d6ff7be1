"""Record the steps of loads as text that is the same in every run.

A line has the name of a step, its nodes and its statement. Long statements are cut, and a digest of all of the text
follows. Nonces get numbers in the order in which they come. Times, sizes and values that follow from the machine are
left out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.steps.operations import Gather, Insert, ListObjects, Log, ReadClock, Step
from airflow_provider_chs3.testbed.nodes import Cluster
from tests.support.killing import on_no_clock, perform_once_done, performing

T = TypeVar("T")

#: A statement's first and last characters that a line shows.
_SHOWN = (150, 50)
#: Settings whose values follow from the cores and the memory of the machine.
_OF_MACHINE = re.compile("thread|memory|watermark|buffer")
#: Columns of the records in the order of a line, but those of times, sizes and identities.
_RECORDS = {
    "chs3_ledger": (
        "event, period, partition_id, partitions, attempt, base, increments, definition, objects, nodes, rows, "
        "min_block, max_block, data_version, is_adopted, restored, why, hold_limit_days, keep_versions, cluster"
    ),
    "chs3_loads": (
        "event, period, partition_id, attempt, definition, reason, objects, rows, loaded_objects, loaded_rows, "
        "object_changes, other_period_rows, parts, mapKeys(seconds_by_step) AS steps, memory_steps, counted_by, "
        "checks, length(query_ids) AS inserts, together_periods, running, error_type, is_terminal"
    ),
    "chs3_objects": "period, partition_id, path, base, attempt, rows",
}


@dataclass
class Trace:
    """The steps of loads, line by line."""

    cluster: Cluster
    names: dict[str, str]
    is_counted: bool = True
    lines: list[str] = field(default_factory=list)
    whole: dict[str, str] = field(default_factory=dict)
    _numbers: dict[str, str] = field(default_factory=dict)

    def record(self, title: str, load: Callable[[], T]) -> T:
        """Run a load, and add its steps under a title."""
        self.lines += ["", f"== {title}"] if self.lines else [f"== {title}"]

        def noted(runner: Runner, step: Step[Any]) -> Any:
            self.lines += self._lines_of(step)
            # One after another, as the order of what runs in parallel is another each time.
            return (
                [runner.run(workflow) for workflow in step.workflows]
                if isinstance(step, Gather)
                else perform_once_done(runner, step)
            )

        with performing(noted), on_no_clock():
            return load()

    def add_records(self, database: str) -> None:
        """Add the rows of the ledger and of the tables of loads and objects, on the first node."""
        for name, columns in _RECORDS.items():
            order = "loaded_at, path" if name == "chs3_objects" else "recorded_at, period, sequence"
            with self.cluster.nodes[0].client() as client:
                sql = f"SELECT {columns} FROM {database}.{name} ORDER BY {order}"
                rows, header = client.execute(sql, with_column_types=True)
            self.lines += ["", f"== {name}", *(self._record(header, row) for row in rows)]

    def _record(self, header: list[tuple[str, str]], row: tuple[Any, ...]) -> str:
        values = {name: value for (name, _), value in zip(header, row, strict=True) if value not in (0, "", None)}
        if not self.is_counted:
            values = {name: value for name, value in values.items() if name not in _BY_CHANCE}
        text = ", ".join(f"{name}={value}" for name, value in values.items() if value not in ([], {}))
        return self.normal(text.replace("\n", "\\n"))

    def _lines_of(self, step: Step[Any]) -> Iterator[str]:
        kind = type(step).__name__
        match step:
            case ReadClock():
                return
            case Log():
                yield self.normal(f"log: {step.name.splitlines()[0]}")
            case Insert():
                yield f"{kind}: {self.normal(step.name)}"
                yield from self._statements_of(step.sql)
                yield from self._settings_of(step)
            case Gather() | ListObjects():
                yield f"{kind}: {self.normal(step.name)}"
            case _:
                yield f"{kind}: {self.normal(step.name)}"
                yield from self._statements_of(getattr(step, "sql", None))
                yield from self._settings_of(step)

    def _statements_of(self, sql: Sql | Mapping[Node, Sql] | None) -> Iterator[str]:
        if isinstance(sql, Sql):
            yield f"  {self._shown(sql)}"
            return
        nodes: dict[str, list[Node]] = {}
        for node in sorted(sql or {}, key=lambda node: (node.shard_num, node.replica_num)):
            nodes.setdefault(self._shown(sql[node]), []).append(node)
        for statement, told in nodes.items():
            yield f"  {' '.join(f'{node.shard_num}.{node.replica_num}' for node in told)}: {statement}"

    def _settings_of(self, step: Any) -> Iterator[str]:
        if settings := getattr(step, "settings", None):
            yield f"  settings: {self._cut(_text_of(settings))}"

    def _shown(self, sql: Sql) -> str:
        return self._cut(sql.masked)

    def _cut(self, text: str) -> str:
        text = self.normal(" ".join(text.split()))
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        first, last = _SHOWN
        if len(text) <= first + last:
            return text
        self.whole[digest] = text
        is_by_chance = not self.is_counted and text.startswith("INSERT INTO `lake`.`chs3_")
        return f"{text[:first]} … {text[-last:]}" + ("" if is_by_chance else f" #{digest}")

    def normal(self, text: str) -> str:
        """Replace what differs from run to run, and from machine to machine."""
        for number, node in enumerate(self.cluster.nodes, start=1):
            text = text.replace(f"{node.host}:{node.tcp_port}", f"<node {number}>")
            text = re.sub(rf"\b{node.tcp_port}\b", "<port>", text)
        for name, replacement in self.names.items():
            text = re.sub(rf"\b{name}\b", replacement, text) if name.isdigit() else text.replace(name, replacement)
        text = _FLOAT.sub("<float>", _EPOCH.sub("<time>", _TIME.sub(_without_present, text)))
        text = _NONCE.sub(self._number, _HASH.sub("<hash>", text))
        for pattern, replacement in _PATTERNS.items():
            text = pattern.sub(replacement, text)
        return text

    def _number(self, found: re.Match[str]) -> str:
        return self._numbers.setdefault(found[0], f"<id {len(self._numbers) + 1}>")


#: Values that depend on how nodes share the work, which differs from run to run.
_BY_CHANCE = ("rows", "loaded_rows", "parts", "min_block", "max_block", "data_version", "checks")

_HASH = re.compile(r"\b[0-9a-f]{32}(?:-\d+)?\b|\b[0-9a-f]{24}\b")
_EPOCH = re.compile(r"\b1[78]\d{8}(?:\d{3}|\d{6})?\b")
_FLOAT = re.compile(r"toFloat64\([^)]*\)|\b\d+\.\d+(?:e-\d+)?\b|\b\de-\d+\b")
_PATTERNS = {
    # Peak memory, before what counted the rows; and the size of the values, which writers of Parquet encode variously.
    re.compile(
        r"(?:CAST\(NULL AS Nullable\(Int64\)\)|toInt64\(\d+\))(?=, '(?:footers|insert|second read)', )"
    ): "<memory>",
    re.compile(r"toInt64\(\d+\)(?=, '[^']*', <float> FROM)"): "<size>",
    re.compile(rf'"name": "(\w*(?:{_OF_MACHINE.pattern})\w*)", "value": \d+, "reason": "[^"]*"'): r"\1 <of machine>",
    re.compile(r"(?:\b\d+|<float>) (?:[KMGT]i?B|bytes)\b"): "<size>",
    re.compile(r"\b[\d,]+ rows/s"): "<speed>",
    re.compile(r"\b\d+ of \d+ cores\b"): "<cores>",
    # Block numbers, periods and rows are shorter.
    re.compile(r"\b\d{7,}\b"): "<number>",
}
#: UUIDs, attempts, and those that are behind one another in a name.
_NONCE = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<![0-9a-f])[0-9a-f]{16}(?=(?:[0-9a-f]{16})?[0-9a-f]?(?![0-9a-f]))"
    r"|(?<=[0-9a-f]{16})[0-9a-f]{16}(?=[0-9a-f]?(?![0-9a-f]))"
)
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:\+00:00)?")


def _without_present(found: re.Match[str]) -> str:
    """Leave the ends of periods, which are years ago."""
    age = datetime.now(UTC) - datetime.fromisoformat(found[1]).replace(tzinfo=UTC)
    return "<time>" if abs(age) < timedelta(days=7) else found[0]


def _text_of(settings: Mapping[str, Any]) -> str:
    shown = {name: "<of machine>" if _OF_MACHINE.search(name) else value for name, value in settings.items()}
    return ", ".join(f"{name}={value}" for name, value in sorted(shown.items()))
