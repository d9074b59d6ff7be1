"""A suite of the benchmark, its input, and notes on how it was made."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import pkgutil
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console

from tests.benchmarks import suites
from tests.benchmarks.servers import BenchS3, can_be_far, s3_server

ROOT = Path(__file__).parents[2]
_PACKAGES = (
    "airflow-provider-chs3",
    "apache-airflow",
    "chdb-core",
    "clickhouse-driver",
    "clickhouse-connect",
    "airflow-clickhouse-plugin",
    "dlt",
    "boto3",
    "pyarrow",
)


@dataclass(frozen=True, kw_only=True)
class TrialContext:
    """The input of a suite."""

    is_quick: bool
    scale: float
    rounds: int
    s3_name: str | None
    console: Console

    def sized(self, *, full: int, quick: int) -> int:
        """A number of rows or objects: of the full run or of the quick one, scaled, at least one."""
        return max(1, round(self.scale * (quick if self.is_quick else full)))

    @contextmanager
    def s3(self) -> Iterator[BenchS3]:
        """An S3 server of the suite's own, which goes with all its objects."""
        with s3_server(self.s3_name) as server:
            yield server

    @property
    def can_be_far(self) -> bool:
        """Whether S3 can be put at a distance; moto, which takes hundreds of milliseconds by itself, is left alone."""
        return self.s3_name != "moto" and can_be_far()

    def say(self, line: str) -> None:
        """Tell what happens now."""
        self.console.print(line)


def suite_names() -> list[str]:
    """The names of all suites."""
    return sorted(module.name for module in pkgutil.iter_modules(suites.__path__))


def suite(name: str) -> ModuleType:
    """A suite: `TITLE` in words; `run(bench)`, which yields comparisons and tables.

    One that takes long has `IN_QUICK = False`.
    """
    return importlib.import_module(f"{suites.__name__}.{name}")


def run_suite(name: str, bench: TrialContext, arguments: Sequence[str]) -> dict[str, Any]:
    """Run a suite, print what it measured, and give it as JSON."""
    module, start = suite(name), time.monotonic()
    bench.console.rule(module.TITLE)
    made_by = {"command": " ".join(["./dev bench", *arguments]), "at": datetime.now(UTC).isoformat(timespec="seconds")}
    results = []
    for result in module.run(bench):
        bench.console.print()
        result.print(bench.console)
        results.append(result.as_json())
    seconds = round(time.monotonic() - start)
    bench.say(f"{name}: {seconds} s")
    made_by |= {"seconds": seconds, "commit": _commit(), "machine": _machine(), "versions": _versions()}
    return {"suite": name, "title": module.TITLE, "made_by": made_by, "results": results}


def _machine() -> dict[str, Any]:
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cores": os.cpu_count(), "memory_gib": round(memory_bytes / 1024**3), "processor": platform.machine()}


def _versions() -> dict[str, str]:
    installed = {distribution.metadata["Name"].lower() for distribution in importlib.metadata.distributions()}
    found = {name: importlib.metadata.version(name) for name in _PACKAGES if name in installed}
    return {"python": sys.version.split()[0], **found}


def _commit() -> str:
    """The commit that was measured, with `+` where files were changed since."""
    git = ["git", "-C", str(ROOT)]
    try:
        commit = subprocess.run([*git, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return commit.stdout.strip() + ("+" if changed.stdout else "")
