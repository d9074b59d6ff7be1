"""A real Airflow with a home of its own, in processes of its own, for the demo."""

from __future__ import annotations

import json
import re
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_provider_chs3.testbed.processes import die_with_parent, kill, spawn

_POLL_SECONDS = 0.1
#: As Airflow's console log writes them: time, level, message, logger.
_LOG_LINE = re.compile(r"\S+ \[\w+ *\] (?P<message>.*?) +\[(?P<logger>[\w.]+)\]")
_LOADER = "airflow.task.operators.airflow_provider_chs3."
_RESULT = re.compile(r" (published|unchanged) \(")
_ERROR = re.compile(r"[\w.]*(Error|Exception): ")


class DemoError(RuntimeError):
    """The demo cannot go on; the message says why and what to do."""


@dataclass(frozen=True)
class DemoAirflow:
    """An Airflow on SQLite, run by its command line.

    Attributes:
        home: Folder for its database and its task logs.
        dags: Folder of the DAGs.
        log: File that gets all its output.
        connections: Connection id → the connection, as of `AIRFLOW_CONN_…`.
    """

    home: Path
    dags: Path
    log: Path
    connections: Mapping[str, Mapping[str, Any]] = field(repr=False)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead Airflow to its home, and to the servers."""
        connections = {f"AIRFLOW_CONN_{name.upper()}": json.dumps(value) for name, value in self.connections.items()}
        return {
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home}/airflow.db",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(self.home / "logs"),
            "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
            **connections,
        }

    def run(self, *arguments: str, tell: Callable[[str], None]) -> None:
        """Run an `airflow` command to its end.

        Args:
            *arguments: Of the command.
            tell: Gets the results of loads, and errors, while it runs.

        Raises:
            DemoError: If it fails.
        """
        start = self.log.stat().st_size if self.log.exists() else 0
        process = spawn(__name__, *arguments, log=self.log, environment=self.environment)
        try:
            with self.log.open(encoding="utf-8", errors="replace") as lines:
                lines.seek(start)
                ended = False
                while not ended:
                    ended = process.poll() is not None
                    for line in filter(None, map(_worth_telling, lines)):
                        tell(line)
                    time.sleep(_POLL_SECONDS)
        finally:
            kill(process)
        if process.returncode:
            raise DemoError(f"`{command(arguments)}` failed; errors are above, and all of its log is in {self.log}")


def command(arguments: Sequence[str]) -> str:
    """Return the command as a person would type it."""
    return shlex.join(["airflow", *arguments])


def _worth_telling(line: str) -> str:
    found = _LOG_LINE.match(line)
    if found and found["logger"].startswith(_LOADER) and _RESULT.search(found["message"]):
        return found["message"]
    return line.rstrip() if _ERROR.match(line) else ""


if __name__ == "__main__":
    # Before Airflow is imported, which takes seconds.
    die_with_parent()
    from airflow.__main__ import main

    sys.exit(main())
