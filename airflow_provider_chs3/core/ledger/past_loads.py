"""Past loads of a table, and what follows from them for the next ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.model.period import WHOLE_TABLE
from airflow_provider_chs3.core.model.quantities import duration_text, quantity
from airflow_provider_chs3.core.sql.quoting import Sql, literal, table
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.node_facts import Target

#: Fewer loads say too little.
_LEAST_LOADS = 5
#: A load is slow if it took so many times what its past says, and so many seconds more: short ones vary by chance.
_SLOW_FACTOR, SLOW_SECONDS = 2.0, 10.0
_INSERT = "insert"
#: A month of nights, or this many periods of a backfill.
_MOST_LOADS = 30


@dataclass(frozen=True, slots=True)
class PastLoad:
    """A load that published a period; `table_bytes` counts each row once, however many replicas have it."""

    loaded_bytes: int
    source_bytes: int
    table_bytes: int
    seconds_by_step: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Forecast:
    """The expected cost of a load; of what it stages, each row counts once."""

    seconds: float
    staged_bytes: int


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of a table's newest loads: the insert takes time by the objects' size, all other steps a fixed time."""

    loads: Sequence[PastLoad]

    @property
    def is_known(self) -> bool:
        """Return whether there are enough loads to say anything."""
        return len(self.loads) >= _LEAST_LOADS and sum(load.loaded_bytes for load in self.loads) > 0

    def seconds_by_step(self, size_bytes: int) -> dict[str, float]:
        """Return what each step takes of a load of so many bytes."""
        names = {name for load in self.loads for name in load.seconds_by_step}
        usual = {name: median(load.seconds_by_step.get(name, 0.0) for load in self.loads) for name in sorted(names)}
        seconds = sum(load.seconds_by_step.get(_INSERT, 0.0) for load in self.loads)
        return usual | {_INSERT: seconds * size_bytes / sum(load.loaded_bytes for load in self.loads)}

    def forecast(self, size_bytes: int) -> Forecast | None:
        """Forecast a load of so many bytes; None if there are too few past loads."""
        if not self.is_known:
            return None
        whole = sum(load.source_bytes for load in self.loads)
        staged_bytes = size_bytes * sum(load.table_bytes for load in self.loads) // whole
        return Forecast(sum(self.seconds_by_step(size_bytes).values()), staged_bytes)

    def why_slow(self, seconds_by_step: Mapping[str, float], size_bytes: int) -> str:
        """Describe how much slower a load was than its past, and by which step; empty if it was not."""
        if not self.is_known:
            return ""
        usual, seconds = self.seconds_by_step(size_bytes), sum(seconds_by_step.values())
        expected = sum(usual.values())
        if seconds <= max(_SLOW_FACTOR * expected, expected + SLOW_SECONDS):
            return ""
        step = max(seconds_by_step, key=lambda name: seconds_by_step[name] - usual.get(name, 0.0))
        return (
            f"It took {duration_text(seconds)}; the last {quantity(len(self.loads), 'load')} suggest "
            f"{duration_text(expected)} for as many bytes. Most of the difference is {step.replace('_', ' ')}: "
            f"{duration_text(seconds_by_step[step])} instead of {duration_text(usual.get(step, 0.0))}."
        )


def read_pace(context: Target, *, but: str = "") -> Steps[Pace]:
    """Read the newest loads of a table from the coordinator, which has the table of loads."""
    of_table = LedgerKey.on(context, context.coordinator, WHOLE_TABLE).table_condition
    sql = Sql(
        "SELECT loaded_bytes, source_bytes, table_bytes, CAST(seconds_by_step AS Array(Tuple(String, Float64))) "
        f"FROM {table(context.loads)} WHERE {of_table} AND event = 'load' AND attempt != {literal(but)} "
        f"AND loaded_bytes > 0 ORDER BY recorded_at DESC LIMIT {_MOST_LOADS}"
    )
    rows = yield from context.on_coordinator(name="Look up how long loads of the table took", sql=sql)
    return Pace([PastLoad(loaded, source, in_table, dict(steps)) for loaded, source, in_table, steps in rows])
