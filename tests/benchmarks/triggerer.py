"""A process that runs triggers on one event loop, as a triggerer does, and measures what they take.

    python -m tests.benchmarks.triggerer '<Wait as JSON>'

What Airflow itself spends on a deferred task, a row in its database and some lines of log, is not in it.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from airflow_provider_chs3.triggers import shared_poll
from airflow_provider_chs3.triggers.merge_health import MergeHealthTrigger
from airflow_provider_chs3.triggers.servers import run_blocking

_PROBE_SECONDS = 0.01


@dataclass(frozen=True, kw_only=True)
class Wait:
    """A number of triggers, and the periods that they wait for."""

    conn_ids: list[str]
    cluster: str
    table: str
    periods: list[str]
    triggers: int
    seconds: float
    result_file: str

    def trigger(self, number: int) -> MergeHealthTrigger:
        """One of the triggers."""
        return MergeHealthTrigger(
            clickhouse_conn_id=self.conn_ids[number % len(self.conn_ids)],
            table=self.table,
            database=None,
            cluster=self.cluster,
            periods=[self.period(number)],
            thresholds={"spare_parts": 0, "settled_after_seconds": 3600},
            reactions={},
            poll_interval_seconds=self.seconds / 6,
        )

    def period(self, number: int) -> str:
        """Return the period that a trigger waits for."""
        return self.periods[number % len(self.periods)]


@dataclass(frozen=True, kw_only=True)
class Taken:
    """The cost of waiting."""

    began_at: float
    ended_at: float
    cpu_seconds: float
    longest_pause_seconds: float
    median_delay_seconds: float
    longest_delay_seconds: float


async def measure(wait: Wait) -> Taken:
    """Run the triggers to their end."""
    loop = asyncio.get_running_loop()
    fired: dict[int, float] = {}

    async def run(number: int) -> None:
        # Tasks do not defer all at once.
        await asyncio.sleep(wait.seconds / 6 * number / wait.triggers)
        await anext(wait.trigger(number).run())
        fired[number] = loop.time()

    began_at, cpu_seconds = time.time(), _cpu_seconds()
    running = [asyncio.create_task(run(number)) for number in range(wait.triggers)]
    longest_pause_seconds = await _longest_pause(wait.seconds)
    ended_at, cpu_seconds = time.time(), _cpu_seconds() - cpu_seconds
    assert not fired, "a trigger fired before its period had settled"
    settled_at = await _settle(wait)
    await asyncio.gather(*running)
    delays = [at - settled_at[wait.period(number)] for number, at in fired.items()]
    return Taken(
        began_at=began_at,
        ended_at=ended_at,
        cpu_seconds=cpu_seconds,
        longest_pause_seconds=longest_pause_seconds,
        median_delay_seconds=median(delays),
        longest_delay_seconds=max(delays),
    )


async def _settle(wait: Wait) -> dict[str, float]:
    """Let one period after another settle, in half of the time that was measured."""
    settled_at = {}
    for period in wait.periods:
        sql = f"ALTER TABLE {wait.table} DROP PARTITION {period.replace('-', '')}"
        await run_blocking(wait.conn_ids[0], lambda hook, sql=sql: hook.query(sql))
        settled_at[period] = asyncio.get_running_loop().time()
        await asyncio.sleep(wait.seconds / 2 / len(wait.periods))
    return settled_at


async def _longest_pause(seconds: float) -> float:
    ends_at = time.monotonic() + seconds
    longest = 0.0
    while (before := time.monotonic()) < ends_at:
        await asyncio.sleep(_PROBE_SECONDS)
        longest = max(longest, time.monotonic() - before - _PROBE_SECONDS)
    return longest


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure what the argument says."""
    wait = Wait(**json.loads(sys.argv[1]))
    shared_poll.FIRST_POLL_SECONDS = min(shared_poll.FIRST_POLL_SECONDS, wait.seconds / 6)
    Path(wait.result_file).write_text(json.dumps(asdict(asyncio.run(measure(wait)))), encoding="utf-8")


if __name__ == "__main__":
    main()
