"""Airflow as it runs in production: a scheduler with LocalExecutor and an API server, as processes of their own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from airflow_provider_chs3.testbed.processes import free_ports, is_listening

_POLL_SECONDS = 0.5
_LOG_TAIL_LINES = 60


class AirflowServices:
    """A scheduler and what it needs, on SQLite in a folder of its own; use it in a `with` block."""

    def __init__(self, *, home: Path, dags: Path, database: Path, environment: Mapping[str, str]) -> None:
        (port,) = free_ports(1)
        shutil.copy(database, home / "airflow.db")
        self.log = home / "services.log"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._api_port = str(port)
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
            "AIRFLOW__API_AUTH__JWT_SECRET": "only for this test, and long enough for HS512: 0123456789012345678901",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            # Only what a test asks for is run.
            "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "False",
            # A dead service is missed soon.
            "AIRFLOW__SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "2",
            "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
            "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "5",
            **environment,
        }

    def __enter__(self) -> Self:
        # Instead of a DAG processor: the DAGs do not change while the test runs.
        self.command("dags", "reserialize")
        return self

    def start(self, *, triggerer: bool = False, apps: str = "execution") -> None:
        """Start the services. Commands that write come before: SQLite takes one writer at a time."""
        self._start("api-server", "--apps", apps, "--host", "127.0.0.1", "--port", self._api_port)
        # Tasks that do not reach it fail, and would be tried again.
        self.wait_until(lambda: is_listening(int(self._api_port)), timeout_seconds=300)
        self.start_scheduler()
        if triggerer:
            self.start_triggerer()

    def start_scheduler(self) -> None:
        """Start the process that runs tasks, as processes of its own."""
        self._start("scheduler", "--skip-serve-logs")

    def start_triggerer(self) -> None:
        """Start the process that waits for deferred tasks."""
        self._start("triggerer", "--skip-serve-logs")

    def kill(self, name: str) -> None:
        """`kill -9` a service, such as `triggerer`, with all processes that it has started."""
        process = self._processes.pop(name)
        # It leads a session of its own, in which are its workers and their tasks too.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for name in list(self._processes):
            self.kill(name)

    @property
    def url(self) -> str:
        """Where the API server is."""
        return f"http://127.0.0.1:{self._api_port}"

    def call(self, method: str, path: str, body: Mapping[str, object]) -> None:
        """Call the API as a person does in the UI; it must serve `core`, and all must be admins."""
        with httpx.Client(base_url=self.url, timeout=30) as client:
            token = client.get("/auth/token").raise_for_status().json()["access_token"]
            answer = client.request(method, path, json=body, headers={"Authorization": f"Bearer {token}"})
            assert answer.is_success, answer.text

    def command(self, *arguments: str) -> str:
        """Run an `airflow` command to its end, and give what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"airflow {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def wait_until(self, done: Callable[[], bool], *, timeout_seconds: float) -> None:
        """Wait, and fail with the end of the log when the time is over or a process has ended."""
        deadline = time.monotonic() + timeout_seconds
        while not done():
            ended = [process.args for process in self._processes.values() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                why = f"ended: {ended}" if ended else f"not done after {timeout_seconds:g} s"
                tail = self.log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
                raise AssertionError("\n".join([f"Airflow: {why}. End of its log:", *tail]))
            time.sleep(_POLL_SECONDS)

    def _start(self, *arguments: str) -> None:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "airflow", *arguments],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes[arguments[0]] = process
