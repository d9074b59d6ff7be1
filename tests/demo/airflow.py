"""A real Airflow with a separate home and process, for the demo."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from airflow_provider_chs3.testbed.processes import HOST, free_ports, is_listening, kill, spawn, wait_until

_POLL_SECONDS = 0.02
#: After this, a line of the log shows what Airflow is doing.
_SILENT_SECONDS = 10
#: A line of Airflow's console log: time, level, message, logger. A message of several lines has no logger in its first.
_LOG_LINE = re.compile(r"\S+ \[\w+ *\] (?P<message>.*?)(?: +\[(?P<logger>[\w.]+)\].*)?$")
_LOADER = "airflow.task.operators.airflow_provider_chs3."
_RESULT = re.compile(r" (published|unchanged) \(| skipped: ")
_ERROR = re.compile(r"[\w.]*(Error|Exception): ")
#: In place of a command.
_WARM_UP: tuple[str, ...] = ()
_END = "chs3-demo: the command ended with exit code "
_READY_TIMEOUT_SECONDS = 300


class DemoError(RuntimeError):
    """An error that stops the demo; the message says why and what to do."""


class DemoAirflow:
    """An Airflow on SQLite, controlled through its command line; use it in a `with` block.

    All commands run in one process, because Airflow takes seconds to start, and again to run a first task. Another
    process waits to take its place.
    """

    def __init__(self, *, home: Path, dags: Path, log: Path, connections: Mapping[str, Mapping[str, Any]]) -> None:
        """Start the processes, which wait for commands."""
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
        self._processes = [self._spawn(), self._spawn()]
        self._send(_WARM_UP)

    @property
    def _process(self) -> subprocess.Popen[bytes]:
        return self._processes[0]

    def create_database(self, *, tell: Callable[[str], None]) -> None:
        """Create Airflow's database, in the second process: the first one warms up meanwhile."""
        self._processes.reverse()
        self.run("db", "migrate", tell=tell)
        self._send(_WARM_UP)
        self._processes.reverse()

    def run(self, *arguments: str, tell: Callable[[str], None], is_whole: bool = False) -> None:
        """Run an `airflow` command to its end."""
        self._send(arguments)
        exit_code, told_at = None, time.monotonic()
        for line in self._lines():
            if line.startswith(_END):
                exit_code = line.removeprefix(_END)
                break
            logged = _LOG_LINE.match(line)
            text = _text_to_show(line) if not is_whole or logged else line
            if not text and logged and time.monotonic() - told_at > _SILENT_SECONDS:
                text = f"… {logged['message'][:100]}"
            if text:
                tell(text)
                told_at = time.monotonic()
        if exit_code != "0":
            raise DemoError(f"`{command(arguments)}` failed; errors are above, and the full log is in {self.log}")

    def kill_in(self, *arguments: str, at: str) -> None:
        """Run an `airflow` command, and `kill -9` its process at a line of its log; the other one takes its place."""
        self._send(arguments)
        if not any(at in line for line in self._lines()):
            raise DemoError(f"`{command(arguments)}` ended before `{at}`; the full log is in {self.log}")
        _kill(self._processes.pop(0))
        self._skip_output()

    def serve(self) -> str:
        """Start Airflow with its UI, and without a login, until the `with` block ends."""
        (port,) = free_ports(1)
        self._kill_all()
        self._skip_output()
        served = self._spawn(
            "standalone",
            AIRFLOW__API__HOST=HOST,
            AIRFLOW__API__PORT=str(port),
            AIRFLOW__CORE__PARALLELISM="4",
            AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS="True",
        )
        self._processes.append(served)
        wait_until(
            lambda: is_listening(port),
            process=self._process,
            name="Airflow's API server",
            logs=[self.log],
            timeout_seconds=_READY_TIMEOUT_SECONDS,
        )
        return f"http://{HOST}:{port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._kill_all()
        self._output.close()

    def _kill_all(self) -> None:
        while self._processes:
            _kill(self._processes.pop())

    def _spawn(self, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        return spawn(__name__, *arguments, log=self.log, environment=self.environment | environment)

    def _skip_output(self) -> None:
        self._output.seek(0, os.SEEK_END)
        self._unfinished_line = ""

    def _send(self, arguments: Sequence[str]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(arguments).encode() + b"\n")
        self._process.stdin.flush()

    def _lines(self) -> Iterator[str]:
        """Yield the lines of a command, up to its end."""
        has_ended = False
        while not has_ended:
            has_ended = self._process.poll() is not None
            *lines, self._unfinished_line = (self._unfinished_line + self._output.read()).split("\n")
            for line in lines:
                yield line
                has_ended = has_ended or line.startswith(_END)
            time.sleep(_POLL_SECONDS)


def _kill(process: subprocess.Popen[bytes]) -> None:
    # With the servers that it has started: it leads a session of its own.
    os.killpg(process.pid, signal.SIGKILL)
    kill(process)


def command(arguments: Sequence[str]) -> str:
    """Return the command as typed in a shell."""
    return shlex.join(["airflow", *arguments])


def _text_to_show(line: str) -> str:
    found = _LOG_LINE.match(line)
    if found and (found["logger"] or _LOADER).startswith(_LOADER) and _RESULT.search(found["message"]):
        return found["message"]
    return line if _ERROR.match(line) else ""


def _serve() -> None:
    """Run the command of the command line, or those from standard input, a JSON list in each line, until it ends."""
    commands: queue.SimpleQueue[list[str]] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            commands.put(json.loads(line))
        os.killpg(os.getpid(), signal.SIGKILL)

    threading.Thread(target=read, daemon=True).start()
    from airflow.__main__ import main

    if sys.argv[1:]:
        return main()
    while True:
        arguments = commands.get()
        if not arguments:
            _warm_up()
            continue
        sys.argv = ["airflow", *arguments]
        try:
            main()
            exit_code: str | int | None = 0
        except SystemExit as end:
            exit_code = end.code
        print(f"\n{_END}{exit_code or 0}", flush=True)


def _warm_up() -> None:
    """Have Airflow make the API that its tasks talk to, which takes seconds of the first task otherwise."""
    with contextlib.suppress(Exception):
        import httpx
        from airflow.sdk.execution_time.supervisor import in_process_api_server

        httpx.Client(transport=in_process_api_server().transport, base_url="http://in-process").get("/health")


if __name__ == "__main__":
    _serve()
