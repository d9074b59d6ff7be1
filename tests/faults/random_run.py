"""Strikes at random moments of loads, each followed by a clean run, after which all must be exact."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.killing import Worker, import_hooks
from tests.support.lake import Lake
from tests.support.power import Power

PERIODS = ("2026-08", "2026-09", "2026-10")
_FIRST = Trips(rows_per_period=20_000, files_per_period=6)
_WORKER_TIMEOUT_SECONDS = 120.0
_POWER_CUT = "the power of a node cut"
#: As a task with retries would.
_CLEAN_RUNS = 3
#: ClickHouse takes a replica that lost half of its rows for another table's: this period holds most of them.
_QUIET_PERIOD = "2025-01"
_QUIET = Trips(rows_per_period=400_000, files_per_period=2)
#: How long after a load power is cut: half of the cuts come in the first ten seconds, which is when a disk has written
#: some of it.
_SOON_SECONDS, _LATE_SECONDS = 10, 45


@dataclass(frozen=True)
class Round:
    """One strike, and what came of it."""

    strike: str
    period: str
    at_seconds: float
    said: str
    clean_runs: int
    wrong: str
    after_seconds: float = 0.0

    def __str__(self) -> str:
        outcome = self.wrong or "exact"
        when = f"{self.after_seconds:.2f} s after" if self.after_seconds else f"{self.at_seconds:.2f} s into"
        return (
            f"{self.strike} {when} {self.period}: worker {self.said}, "
            f"{self.clean_runs} clean run{'s' if self.clean_runs > 1 else ''}: {outcome}"
        )


class RandomRun:
    """Loads periods, version after version, and strikes."""

    def __init__(
        self,
        lake: Lake,
        cluster: ClickHouseCluster | None,
        *,
        folder: Path,
        seed: int,
        periods: Sequence[str] = PERIODS,
        power: Power | None = None,
    ) -> None:
        self._lake, self._log = lake, folder / "worker.log"
        self._seed, self._periods, self._power = seed, periods, power
        self._random = random.Random(seed)
        (engine,) = lake.on_node(
            0, f"SELECT engine FROM system.tables WHERE database = '{lake.database}' AND name = '{lake.table}'"
        )[0]
        self._is_replicated = engine.startswith("Replicated")
        self._versions: dict[str, Trips] = {}
        self._load_seconds = 1.0
        self._strikes: dict[str, Callable[[Worker, str], None]] = {
            "kill -9 of the worker": lambda worker, period: worker.signal(signal.SIGKILL),
            "SIGTERM to the worker": lambda worker, period: worker.signal(signal.SIGTERM),
            "KILL QUERY": lambda worker, period: self._kill_queries(),
            "objects overwritten": lambda worker, period: self._upload(period),
            "a second load": lambda worker, period: self._load_beside(period),
            "a worker asleep while another loads": self._sleep_while_another_loads,
        }
        if cluster is not None:
            self._strikes["a node killed and restarted"] = lambda worker, period: self._kill_node(cluster)
            self._strikes["a node stopped and started"] = lambda worker, period: self._stop_node(cluster)
        if power is not None:
            self._strikes = {_POWER_CUT: lambda worker, period: self._cut(power)}

    def rounds(self, *, first: int = 0) -> Iterator[Round]:
        """Load all periods, then strike and look, for ever."""
        import_hooks()
        if self._power:
            self._versions[_QUIET_PERIOD] = _QUIET
            self._lake.upload(_QUIET, _QUIET_PERIOD)
            self._load_cleanly(_QUIET_PERIOD)
        for period in self._periods:
            self._upload(period)
            started = time.monotonic()
            self._load_cleanly(period)
            self._load_seconds = time.monotonic() - started
        # The nodes' setup must be on their disks, whatever comes.
        os.sync()
        for number in count(first):
            self._random = random.Random(f"{self._seed}:{number}")
            yield self._round()

    def _round(self) -> Round:
        period, strike = self._random.choice(self._periods), self._random.choice(list(self._strikes))
        at_seconds, after_seconds = round(self._random.uniform(0, self._load_seconds), 3), 0.0
        self._upload(period)
        uploaded = self._versions[period]
        worker = self._start(period)
        if strike == _POWER_CUT and self._random.random() < 1 / 2:
            said = worker.wait_or_kill(timeout_seconds=_WORKER_TIMEOUT_SECONDS)
            soon = self._random.random() < 1 / 2
            after_seconds = round(
                self._random.uniform(*((0, _SOON_SECONDS) if soon else (_SOON_SECONDS, _LATE_SECONDS))), 3
            )
            time.sleep(after_seconds)
            self._strikes[strike](worker, period)
        else:
            time.sleep(at_seconds)
            self._strikes[strike](worker, period)
            said = worker.wait_or_kill(timeout_seconds=_WORKER_TIMEOUT_SECONDS)
        self._catch_up()
        wrong = ""
        if said == 0 and self._versions[period] == uploaded and self._lake.facts(period) != uploaded.facts(period):
            wrong = "the worker said that it had published, but other rows are there; "
        clean_runs, error = self._load_cleanly(period)
        if strike == _POWER_CUT and not error and self._lake.left_behind():
            error = self._drop_again()
        wrong += error or self._difference()
        if error:
            self._lake_again(period)
        endings = {0: "succeeded", 1: "failed"}
        ended = endings.get(said, f"ended by signal {-said}")
        return Round(strike, period, at_seconds, ended, clean_runs, wrong, after_seconds)

    def _upload(self, period: str) -> None:
        """The period's next version, with as many rows or not."""
        rows = self._random.choice((20_000, 20_000, 25_000, 15_000))
        self._versions[period] = replace(_FIRST, seed=self._random.randrange(10**6), rows_per_period=rows)
        self._lake.upload(self._versions[period], period)

    def _start(self, period: str, log: Path | None = None) -> Worker:
        def load() -> None:
            operator = self._lake.operator(period=period, max_shrink_fraction=1)
            # As Airflow has it in the process of a task.
            signal.signal(signal.SIGTERM, lambda number, frame: operator.on_kill())
            operator.execute({})

        return Worker(load, log=log or self._log)

    def _load_cleanly(self, period: str) -> tuple[int, str]:
        """Load as a task with retries; give how often it took, and the error where it did not get there."""
        for number in range(1, _CLEAN_RUNS + 1):
            if self._start(period).wait_or_kill(timeout_seconds=_WORKER_TIMEOUT_SECONDS) == 0:
                return number, ""
            said = self._log.read_text(encoding="utf-8").strip().splitlines()
            if said and "AirflowFailException" in said[-1]:
                break
        return number, f"the clean run failed: {said[-1] if said else 'without a word'}"

    def _lake_again(self, period: str) -> None:
        """After a difference: go on from a period that is right."""
        self._lake.load(period=period, max_shrink_fraction=1, on_target_changed="reload", replace_unknown=True)

    def _difference(self) -> str:
        """Return the faults of all periods."""
        wrong = [period for period, trips in self._versions.items() if self._lake.facts(period) != trips.facts(period)]
        left = self._lake.left_behind()
        return "; ".join(
            [f"{period} does not hold its objects' rows" for period in wrong]
            + ([f"left behind: {left}"] if left else [])
        )

    def _drop_again(self) -> str:
        """A disk may lose that staging of any period was dropped: its next load that publishes drops it again."""
        for period in self._periods:
            self._upload(period)
            if error := self._load_cleanly(period)[1]:
                return error
        return ""

    def _catch_up(self) -> None:
        """A replica that comes back shows what it had, until it has what it missed."""
        if self._is_replicated:
            self._lake.on_every_node(f"SYSTEM SYNC REPLICA {self._lake.database}.{self._lake.table} LIGHTWEIGHT")

    def _kill_queries(self) -> None:
        self._lake.on_every_node("KILL QUERY WHERE startsWith(initial_query_id, 'chs3_') ASYNC")

    def _kill_node(self, cluster: ClickHouseCluster) -> None:
        index = self._random.randrange(len(cluster.nodes))
        cluster.kill(index)
        time.sleep(self._random.uniform(0, 1))
        cluster.restart(index)

    def _stop_node(self, cluster: ClickHouseCluster) -> None:
        index = self._random.randrange(len(cluster.nodes))
        cluster.terminate(index)
        cluster.restart(index)

    def _cut(self, power: Power) -> None:
        power.cut(self._random.randrange(len(power.cluster.nodes)))

    def _load_beside(self, period: str) -> None:
        beside = self._start(period, self._log.with_suffix(".beside.log"))
        beside.wait_or_kill(timeout_seconds=_WORKER_TIMEOUT_SECONDS)

    def _sleep_while_another_loads(self, worker: Worker, period: str) -> None:
        worker.signal(signal.SIGSTOP)
        self._upload(period)
        self._load_beside(period)
        worker.signal(signal.SIGCONT)


def report(rounds: Iterable[Round], *, title: str) -> int:
    """Print rounds as they come, then how many strikes were survived."""
    survived, strikes = Counter[str](), Counter[str]()
    for number, done in enumerate(rounds, start=1):
        print(f"{number:4}  {done}", flush=True)
        strikes[done.strike] += 1
        survived[done.strike] += not done.wrong
    for strike, times in sorted(strikes.items()):
        print(f"{strike}: survived {survived[strike]} / {times}")
    print(f"{title}: survived {survived.total()} / {strikes.total()}")
    return int(survived.total() < strikes.total())
