"""A real Airflow with a separate home and process, for the demo."""

from __future__ import annotations

import json
import os
import queue
import re
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from airflow_provider_chs3.testbed.processes import kill, spawn

_POLL_SECONDS = 0.1
#: A line of Airflow's console log: time, level, message, logger, which the first of several lines of a message lacks.
_LOG_LINE = re.compile(r"\S+ \[\w+ *\] (?P<message>.*?)(?: +\[(?P<logger>[\w.]+)\].*)?$")
_LOADER = "airflow.task.operators.airflow_provider_chs3."
_RESULT = re.compile(r" (published|unchanged) \(")
_ERROR = re.compile(r"[\w.]*(Error|Exception): ")
_END = "chs3-demo: the command ended with exit code "


class DemoError(RuntimeError):
    """An error that stops the demo; the message says why and what to do."""


class DemoAirflow:
    """An Airflow on SQLite, controlled through its command line; use it in a `with` block.

    All commands run in one process, because Airflow takes seconds to start.
    """

    def __init__(self, *, home: Path, dags: Path, log: Path, connections: Mapping[str, Mapping[str, Any]]) -> None:
        """Start the process, which waits for commands.

        Args:
            home: Folder for Airflow's database and the logs of its tasks.
            dags: Folder of the DAGs.
            log: File for all output; its old content is removed.
            connections: Connection id → the connection, as the JSON of `AIRFLOW_CONN_…`.
        """
        self.environment = {
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
            "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
            **{f"AIRFLOW_CONN_{name.upper()}": json.dumps(value) for name, value in connections.items()},
        }
        log.parent.mkdir(exist_ok=True)
        log.write_text("")
        self.log = log
        self._output = log.open(encoding="utf-8", errors="replace")
        self._unfinished_line = ""
        self._process = spawn(__name__, log=log, environment=self.environment)

    def run(self, *arguments: str, tell: Callable[[str], None]) -> None:
        """Run an `airflow` command to its end.

        Args:
            *arguments: The arguments of the command.
            tell: Called with the results of loads, and with errors, while the command runs.

        Raises:
            DemoError: If it fails.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(arguments).encode() + b"\n")
        self._process.stdin.flush()
        exit_code = None
        while exit_code is None:
            time.sleep(_POLL_SECONDS)
            has_ended = self._process.poll() is not None
            for line in self._new_lines():
                if line.startswith(_END):
                    exit_code = line.removeprefix(_END)
                elif text := _text_to_show(line):
                    tell(text)
            if has_ended:
                break
        if exit_code != "0":
            raise DemoError(f"`{command(arguments)}` failed; errors are above, and the full log is in {self.log}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        kill(self._process)
        self._output.close()

    def _new_lines(self) -> list[str]:
        *lines, self._unfinished_line = (self._unfinished_line + self._output.read()).split("\n")
        return lines


def command(arguments: Sequence[str]) -> str:
    """Return the command as typed in a shell."""
    return shlex.join(["airflow", *arguments])


def _text_to_show(line: str) -> str:
    found = _LOG_LINE.match(line)
    if found and (found["logger"] or _LOADER).startswith(_LOADER) and _RESULT.search(found["message"]):
        return found["message"]
    return line if _ERROR.match(line) else ""


def _serve() -> None:
    """Run the commands from standard input, a JSON list in each line; the end of input ends this process at once."""
    commands: queue.SimpleQueue[list[str]] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            commands.put(json.loads(line))
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=read, daemon=True).start()
    from airflow.__main__ import main

    while True:
        sys.argv = ["airflow", *commands.get()]
        try:
            main()
            exit_code: str | int | None = 0
        except SystemExit as end:
            exit_code = end.code
        print(f"\n{_END}{exit_code or 0}", flush=True)


if __name__ == "__main__":
    _serve()
