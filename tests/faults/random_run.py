"""Strikes at random moments of loads, each followed by a clean run, after which all must be exact."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import Trips
from tests.faults.killing import Worker
from tests.integration.lake import Lake

MONTHS = ("2026-08", "2026-09", "2026-10")
_FIRST = Trips(rows_per_month=20_000, files_per_month=6)
_WORKER_TIMEOUT_SECONDS = 120.0
#: As a task with retries would.
_CLEAN_RUNS = 3


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
    """

    strike: str
    month: str
    at_seconds: float
    said: str
    clean_runs: int
    wrong: str

    def __str__(self) -> str:
        outcome = self.wrong or "exact"
        return (
            f"{self.strike} {self.at_seconds:.2f} s into {self.month}: worker {self.said}, "
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
    """

    def __init__(
        self, lake: Lake, cluster: ClickHouseCluster | None, *, folder: Path, seed: int, months: Sequence[str] = MONTHS
    ) -> None:
        self._lake, self._log = lake, folder / "worker.log"
        self._random, self._months = random.Random(seed), months
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

    def rounds(self) -> Iterator[Round]:
        """Load all months, then strike and look, for ever."""
        for month in self._months:
            self._upload(month)
            started = time.monotonic()
            self._load_cleanly(month)
            self._load_seconds = time.monotonic() - started
        while True:
            yield self._round()

    def _round(self) -> Round:
        month, strike = self._random.choice(self._months), self._random.choice(list(self._strikes))
        at_seconds = self._random.uniform(0, self._load_seconds)
        self._upload(month)
        uploaded = self._versions[month]
        worker = self._start(month)
        time.sleep(at_seconds)
        self._strikes[strike](worker, month)
        said = worker.wait_or_kill(timeout_seconds=_WORKER_TIMEOUT_SECONDS)
        wrong = ""
        if said == 0 and self._versions[month] == uploaded and self._lake.facts(month) != uploaded.facts(month):
            wrong = "the worker said that it had published, but other rows are there; "
        clean_runs, error = self._load_cleanly(month)
        wrong += error or self._difference()
        if error:
            self._lake_again(month)
        endings = {0: "succeeded", 1: "failed"}
        return Round(strike, month, at_seconds, endings.get(said, f"ended by signal {-said}"), clean_runs, wrong)

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

    def _kill_queries(self) -> None:
        self._lake.on_every_node("KILL QUERY WHERE startsWith(initial_query_id, 'chs3_') ASYNC")

    def _kill_node(self, cluster: ClickHouseCluster) -> None:
        index = self._random.randrange(len(cluster.nodes))
        cluster.kill(index)
        time.sleep(self._random.uniform(0, 1))
        cluster.restart(index)

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
    for strike, count in sorted(strikes.items()):
        print(f"{strike}: survived {survived[strike]} / {count}")
    print(f"{title}: survived {survived.total()} / {strikes.total()}")
    return int(survived.total() < strikes.total())
