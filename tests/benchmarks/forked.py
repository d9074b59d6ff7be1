"""The cost of work in a separate process, forked from one that has Airflow loaded, as Airflow does with tasks."""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

# Loaded before the fork, and so not counted: every task has it.
from airflow.sdk import DAG, BaseHook, BaseOperator, BaseSensorOperator, TaskGroup  # noqa: F401

_FORKS = multiprocessing.get_context("forkserver")
_MIB = 1024**2


@dataclass(frozen=True, kw_only=True)
class Taken:
    """The cost of work in its process."""

    seconds: float
    cpu_seconds: float
    memory_bytes: int
    result: Any

    @property
    def memory_mib(self) -> float:
        """The same in MiB."""
        return self.memory_bytes / _MIB


class Forked:
    """A process that runs a function, and ends with it."""

    def __init__(self, function: Callable[[Any], Any], given: Any, environment: Mapping[str, str]) -> None:
        _FORKS.set_forkserver_preload([__name__])
        self._answer, answer = _FORKS.Pipe(duplex=False)
        self.process = _FORKS.Process(target=_work, args=(answer, function, given, dict(environment)), daemon=True)
        self.process.start()
        # Else its end would not be seen here.
        answer.close()

    def taken(self) -> Taken:
        """Wait until it ends."""
        try:
            return self._answer.recv()
        except EOFError as error:
            raise RuntimeError("It died before its end, of the error above.") from error
        finally:
            self.process.join()

    def kill(self) -> None:
        """End it as a lack of memory would (SIGKILL)."""
        self.process.kill()
        self.process.join()


def _work(answer: Connection, function: Callable[[Any], Any], given: Any, environment: Mapping[str, str]) -> None:
    os.environ.update(environment)
    # From here on VmHWM is of this process; ru_maxrss never forgets what its parent held.
    Path("/proc/self/clear_refs").write_text("5")
    held_bytes, cpu_seconds, start = _memory_bytes("VmRSS"), _cpu_seconds(), time.monotonic()
    result = function(given)
    answer.send(
        Taken(
            seconds=time.monotonic() - start,
            cpu_seconds=_cpu_seconds() - cpu_seconds,
            memory_bytes=_memory_bytes("VmHWM") - held_bytes,
            result=result,
        )
    )


def _memory_bytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {name}.")


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
