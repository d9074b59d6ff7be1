"""Start and end a server: a process and a temporary folder, shared by the servers of all sources."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from airflow_provider_chs3.testbed.processes import LocalServer, is_listening, terminate, wait_until
from airflow_provider_chs3.testbed.programs.foreign import spawn_program

_START_TIMEOUT_SECONDS = 180.0

Server = TypeVar("Server")


@dataclass(frozen=True, kw_only=True)
class DatabaseServer(LocalServer):
    """A running database server, which refuses a wrong password."""

    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)


@contextmanager
def new_folder(name: str) -> Iterator[Path]:
    """Make a temporary folder for a server, which stays unless the `with` block fails."""
    folder = Path(tempfile.mkdtemp(prefix=f"chs3-{name}-"))
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def launch(
    command: Sequence[str],
    *,
    name: str,
    folder: Path,
    port: int,
    is_ready: Callable[[], bool] | None = None,
    environment: Mapping[str, str] | None = None,
    stop_signal: signal.Signals = signal.SIGKILL,
    is_unprivileged: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a server and wait until it answers."""
    log = folder / "server.log"
    process = spawn_program(
        command, log=log, environment=environment, stop_signal=stop_signal, is_unprivileged=is_unprivileged
    )
    try:
        wait_until(
            is_ready or (lambda: is_listening(port)),
            process=process,
            name=f"{name} (port {port})",
            logs=[log],
            timeout_seconds=_START_TIMEOUT_SECONDS,
        )
    except BaseException:
        terminate(process)
        raise
    return process
