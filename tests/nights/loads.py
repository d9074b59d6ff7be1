"""Loads of periods into the table of the nights: by increments, alone or together, and by processes that are killed."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.steps.operations import Step
from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.operators.held import DiscardPeriodsOperator
from airflow_provider_chs3.operators.versions import RestorePeriodsOperator, UnpinPeriodsOperator
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.nights.spans import Span
from tests.support.arguments import grouped
from tests.support.holds import run
from tests.support.killing import Worker, perform, performing, writes

if TYPE_CHECKING:
    from tests.support.lake import Lake

#: About as many steps of a load write.
STEPS = 18
#: As a task with retries would; one that is disturbed at each try is tried again.
_TRIES = 5
#: Seconds before the second try; others wait longer. Keeper gives up a server that was killed after ten seconds.
_RETRY_SECONDS = 2
_OPTIONS: dict[str, Any] = {
    "file_format": "CSVWithNames",
    "on_target_changed": "reload",
    "replace_unknown": True,
    "max_shrink_fraction": 1,
    "on_no_objects": "empty",
    "reload_whole_table": True,
    "keep_versions": 1,
}
_OF_ARRIVALS = {"on_other_periods": "spread", "on_deleted_objects": "remove"}
#: A check that no rows pass.
_NEVER = {"on_failed_check": "hold", "checks": {"table_checks": {"never": {"check_statement": "count() < 0"}}}}
_SELECT = {
    "ts": "toDateTime(ts, 'UTC')",
    "k": "toUInt32(k)",
    "ver": "toUInt32(ver)",
    "sign": "toInt8(sign)",
    "v": "toInt64(v)",
    "s": "s",
}


class RefusedError(Exception):
    """A load that failed at each try."""


@dataclass(frozen=True)
class Task:
    """One load."""

    periods: tuple[str, ...]
    is_group: bool

    def __str__(self) -> str:
        return f"{', '.join(self.periods)}{' together' if self.is_group else ''}"


@dataclass
class Loads:
    """Loads into one table."""

    lake: Lake
    table: str
    prefix: str
    span: Span
    log: Path
    object_column: str = ""

    def load(self, task: Task) -> list[str]:
        """Load, with retries."""
        said = ""
        for number in range(_TRIES):
            time.sleep(_RETRY_SECONDS * number)
            try:
                return [_outcome(result) for result in self._results(task)]
            except Exception as error:
                if not isinstance(error, Chs3Error) and type(error).__name__ != "AirflowFailException":
                    raise
                said = str(error)
        raise RefusedError(f"{task}: {said}")

    def start(self, act: Task | Callable[[], object], *, dies_at: int | None = None) -> Worker:
        """Start a process that loads, or does something else; it may die before one of its steps that write."""
        taken = count()

        def dying(runner: Runner, step: Step) -> Any:
            if writes(step) and next(taken) == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return perform(runner, step)

        def perform_all() -> None:
            with performing(dying):
                self._results(act) if isinstance(act, Task) else act()

        return Worker(perform_all, log=self.log)

    def hold(self, period: str) -> None:
        """Load rows that somebody must approve."""
        self.lake.load(period=period, **self._arguments, **_NEVER)

    def approve(self, period: str) -> None:
        conf = {"database": self.lake.database, "table": self.table, "periods": [period], "approve": True}
        self.lake.operator(period=period, **self._arguments).execute(run({"chs3_reload": conf}))

    def discard(self, period: str) -> None:
        DiscardPeriodsOperator(**self._of(period)).execute({})

    def restore(self, period: str) -> None:
        RestorePeriodsOperator(**self._of(period), replace_changed=True).execute({})

    def unpin(self, period: str) -> None:
        UnpinPeriodsOperator(**self._of(period)).execute({})

    def _of(self, period: str) -> dict[str, Any]:
        where = {"database": self.lake.database, "table": self.table, "cluster": self.lake.cluster.name}
        return {"task_id": "decide", "periods": [period], **where}

    def some_step(self, task: Task, choose: random.Random) -> int:
        """Choose a step of a load by its number among those that write, which the load may not get to."""
        # Arrivals are loaded one after the other.
        several = len(task.periods) if self.span.arrivals else 2
        return choose.randrange(STEPS * several if task.is_group else STEPS)

    @property
    def _arguments(self) -> dict[str, Any]:
        arguments = {"table": self.table, "key": f"{self.prefix}/{self.span.folder}/", **_OPTIONS}
        arguments |= _OF_ARRIVALS if self.span.arrivals else {}
        if self.object_column:
            arguments |= {"object_column": self.object_column, "select": {**_SELECT, self.object_column: "_path"}}
        return arguments

    def _results(self, task: Task) -> Sequence[dict[str, Any]]:
        arguments = self._arguments
        if not task.is_group:
            return [self.lake.load(period=period, **arguments) for period in task.periods]
        lake = self.lake
        of_lake = {"bucket": lake.bucket, "database": lake.database, "cluster": lake.cluster.name}
        found: Sequence[dict[str, Any]] = S3ToClickHouseOperator(
            **grouped(task_id="load", periods=list(task.periods), progress_interval_seconds=0.2, **of_lake, **arguments)
        ).execute({})
        return found


def _outcome(result: dict[str, Any]) -> str:
    if 0 < result["loaded_objects"] < result["objects"]:
        return "increment"
    return "whole" if result["status"] == "published" else str(result["status"])
