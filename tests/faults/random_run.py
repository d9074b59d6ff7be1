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
from tests.faults.killing import Worker, import_hooks
from tests.faults.power import Power
from tests.integration.lake import Lake

MONTHS = ("2026-08", "2026-09", "2026-10")
_FIRST = Trips(rows_per_month=20_000, files_per_month=6)
_WORKER_TIMEOUT_SECONDS = 120.0
_POWER_CUT = "the power of a node cut"
#: As a task with retries would.
_CLEAN_RUNS = 3
#: ClickHouse takes a replica that lost half of its rows for another table's: this month holds most of them.
_QUIET_MONTH = "2025-01"
_QUIET = Trips(rows_per_month=400_000, files_per_month=2)
#: How long after a load power is cut: half of the cuts come in the first ten seconds, which is when a disk has written
#: some of it.
_SOON_SECONDS, _LATE_SECONDS = 10, 45


@dataclass(frozen=True)
class Round:
    """One strike, and what came of it.

    Args:
        strike: What was done.
        month: The month that was loaded meanwhile.
        at_seconds: When, from the start of the load.
        said: How the worker that was struck ended.
        clean_runs: How many runs it took then.
        wrong: What was not as it must be; empty where all was.
        after_seconds: How long after the end of the load; 0 where it came amid it.
    """

    strike: str
    month: str
    at_seconds: float
    said: str
    clean_runs: int
    wrong: str
    after_seconds: float = 0.0

    def __str__(self) -> str:
        outcome = self.wrong or "exact"
        when = f"{self.after_seconds:.2f} s after" if self.after_seconds else f"{self.at_seconds:.2f} s into"
        return (
            f"{self.strike} {when} {self.month}: worker {self.said}, "
            f"{self.clean_runs} clean run{'s' if self.clean_runs > 1 else ''}: {outcome}"
        )


class RandomRun:
    """Loads months, version after version, and strikes.

    Args:
        lake: Where to; its table is there and empty.
        cluster: Its cluster, whose nodes are struck too; None leaves them alone.
        folder: For the workers' logs.
        seed: What all choices follow from. Moments depend on the machine too.
        months: That are loaded.
        power: Of the cluster's nodes: it is cut, and there are no other strikes; None leaves it alone.
    """

    def __init__(
        self,
        lake: Lake,
        cluster: ClickHouseCluster | None,
        *,
        folder: Path,
        seed: int,
        months: Sequence[str] = MONTHS,
        power: Power | None = None,
    ) -> None:
        self._lake, self._log = lake, folder / "worker.log"
        self._seed, self._months, self._power = seed, months, power
        self._random = random.Random(seed)
        (engine,) = lake.on_node(
            0, f"SELECT engine FROM system.tables WHERE database = '{lake.database}' AND name = '{lake.table}'"
        )[0]
        self._is_replicated = engine.startswith("Replicated")
        self._versions: dict[str, Trips] = {}
        self._load_seconds = 1.0
        self._strikes: dict[str, Callable[[Worker, str], None]] = {
            "kill -9 of the worker": lambda worker, month: worker.signal(signal.SIGKILL),
            "SIGTERM to the worker": lambda worker, month: worker.signal(signal.SIGTERM),
            "KILL QUERY": lambda worker, month: self._kill_queries(),
            "objects overwritten": lambda worker, month: self._upload(month),
            "a second load": lambda worker, month: self._load_beside(month),
            "a worker asleep while another loads": self._sleep_while_another_loads,
        }
        if cluster is not None:
            self._strikes["a node killed and restarted"] = lambda worker, month: self._kill_node(cluster)
            self._strikes["a node stopped and started"] = lambda worker, month: self._stop_node(cluster)
        if power is not None:
            self._strikes = {_POWER_CUT: lambda worker, month: self._cut(power)}

    def rounds(self, *, first: int = 0) -> Iterator[Round]:
        """Load all months, then strike and look, for ever.

        Args:
            first: The number of the first strike, where an earlier run had others.
        """
        import_hooks()
        if self._power:
            self._versions[_QUIET_MONTH] = _QUIET
            self._lake.upload(_QUIET, _QUIET_MONTH)
            self._load_cleanly(_QUIET_MONTH)
        for month in self._months:
            self._upload(month)
            started = time.monotonic()
            self._load_cleanly(month)
            self._load_seconds = time.monotonic() - started
        # What the nodes were set up with is on their disks, whatever comes.
        os.sync()
        for number in count(first):
            self._random = random.Random(f"{self._seed}:{number}")
            yield self._round()

    def _round(self) -> Round:
        month, strike = self._random.choice(self._months), self._random.choice(list(self._strikes))
        at_seconds, after_seconds = round(self._random.uniform(0, self._load_seconds), 3), 0.0
        self._upload(month)
        uploaded = self._versions[month]
        worker = self._start(month)
        if strike == _POWER_CUT and self._random.random() < 1 / 2:
            said = worker.wait_or_kill(timeout_seconds=_WORKER_TIMEOUT_SECONDS)
            soon = self._random.random() < 1 / 2
            after_seconds = round(
                self._random.uniform(*((0, _SOON_SECONDS) if soon else (_SOON_SECONDS, _LATE_SECONDS))), 3
            )
            time.sleep(after_seconds)
            self._strikes[strike](worker, month)
        else:
            time.sleep(at_seconds)
            self._strikes[strike](worker, month)
            said = worker.wait_or_kill(timeout_seconds=_WORKER_TIMEOUT_SECONDS)
        self._catch_up()
        wrong = ""
        if said == 0 and self._versions[month] == uploaded and self._lake.facts(month) != uploaded.facts(month):
            wrong = "the worker said that it had published, but other rows are there; "
        clean_runs, error = self._load_cleanly(month)
        if strike == _POWER_CUT and not error and self._lake.left_behind():
            error = self._drop_again()
        wrong += error or self._difference()
        if error:
            self._lake_again(month)
        endings = {0: "succeeded", 1: "failed"}
        ended = endings.get(said, f"ended by signal {-said}")
        return Round(strike, month, at_seconds, ended, clean_runs, wrong, after_seconds)

    def _upload(self, month: str) -> None:
        """The month's next version, with as many rows or not."""
        rows = self._random.choice((20_000, 20_000, 25_000, 15_000))
        self._versions[month] = replace(_FIRST, seed=self._random.randrange(10**6), rows_per_month=rows)
        self._lake.upload(self._versions[month], month)

    def _start(self, month: str, log: Path | None = None) -> Worker:
        def load() -> None:
            operator = self._lake.operator(month=month, max_shrink_fraction=1)
            # As Airflow has it in the process of a task.
            signal.signal(signal.SIGTERM, lambda number, frame: operator.on_kill())
            operator.execute({})

        return Worker(load, log=log or self._log)

    def _load_cleanly(self, month: str) -> tuple[int, str]:
        """Load as a task with retries; give how often it took, and the error where it did not get there."""
        for number in range(1, _CLEAN_RUNS + 1):
            if self._start(month).wait_or_kill(timeout_seconds=_WORKER_TIMEOUT_SECONDS) == 0:
                return number, ""
            said = self._log.read_text(encoding="utf-8").strip().splitlines()
            if said and "AirflowFailException" in said[-1]:
                break
        return number, f"the clean run failed: {said[-1] if said else 'without a word'}"

    def _lake_again(self, month: str) -> None:
        """After a difference: go on from a month that is right."""
        self._lake.load(month=month, max_shrink_fraction=1, on_target_changed="reload", replace_unknown=True)

    def _difference(self) -> str:
        """What is not as it must be, of any month."""
        wrong = [month for month, trips in self._versions.items() if self._lake.facts(month) != trips.facts(month)]
        left = self._lake.left_behind()
        return "; ".join(
            [f"{month} does not hold its objects' rows" for month in wrong] + ([f"left behind: {left}"] if left else [])
        )

    def _drop_again(self) -> str:
        """A disk may lose that staging of any month was dropped: its next load that publishes drops it again."""
        for month in self._months:
            self._upload(month)
            if error := self._load_cleanly(month)[1]:
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

    def _load_beside(self, month: str) -> None:
        beside = self._start(month, self._log.with_suffix(".beside.log"))
        beside.wait_or_kill(timeout_seconds=_WORKER_TIMEOUT_SECONDS)

    def _sleep_while_another_loads(self, worker: Worker, month: str) -> None:
        worker.signal(signal.SIGSTOP)
        self._upload(month)
        self._load_beside(month)
        worker.signal(signal.SIGCONT)


def report(rounds: Iterable[Round], *, title: str) -> int:
    """Print rounds as they come, then how many strikes were survived.

    Returns:
        The exit code: 1 where anything was not as it must be.
    """
    survived, strikes = Counter[str](), Counter[str]()
    for number, done in enumerate(rounds, start=1):
        print(f"{number:4}  {done}", flush=True)
        strikes[done.strike] += 1
        survived[done.strike] += not done.wrong
    for strike, times in sorted(strikes.items()):
        print(f"{strike}: survived {survived[strike]} / {times}")
    print(f"{title}: survived {survived.total()} / {strikes.total()}")
    return int(survived.total() < strikes.total())
