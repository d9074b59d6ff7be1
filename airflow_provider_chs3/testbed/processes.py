"""Servers as operating-system processes that never outlive the process that started them."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Self

HOST = "127.0.0.1"

# Below Linux's range for outgoing connections (32768 and up): none of them can take the port of a node that is down.
_FIRST_PORT, _LAST_PORT = 15_000, 32_000


#: Byte N of this file, which is empty, is locked by the process that was given port N. It is the same one whatever a
#: process has as its $TMPDIR.
_GIVEN_PORTS = f"/tmp/chs3-given-ports-{os.getuid()}"


class _PortRegister:
    """Ports given to this process, which no test bed of this machine gets before it ends.

    A server binds its ports long after they were chosen, and a node that is down keeps its own: nothing listens there,
    yet they are not free.
    """

    def __init__(self) -> None:
        self._given: set[int] = set()
        self._lock = threading.Lock()
        self._descriptor = -1
        self._pid = 0

    def take(self, port: int) -> bool:
        """Lock a port for the rest of this process; return False if it is another's, or something listens there."""
        with self._lock, socket.socket() as probe:
            if self._pid != os.getpid():
                # Locks of records are not inherited by a fork.
                self._pid = os.getpid()
                self._descriptor = os.open(_GIVEN_PORTS, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            if port in self._given:
                return False
            try:
                probe.bind((HOST, port))
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            except OSError:
                return False
            self._given.add(port)
            return True


_PORTS = _PortRegister()


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 on which nothing listens and that are kept for this process until it ends."""
    shuffled = random.sample(range(_FIRST_PORT, _LAST_PORT), _LAST_PORT - _FIRST_PORT)
    ports = list(islice(filter(_PORTS.take, shuffled), count))
    if len(ports) < count:
        raise RuntimeError(f"{HOST} has {len(ports)} free ports from {_FIRST_PORT} to {_LAST_PORT - 1}, not {count}.")
    return ports


def is_listening(port: int) -> bool:
    """Check whether a server accepts connections on a port of 127.0.0.1."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


INSTALL_HINT = "install the extra testbed of airflow-provider-chs3"

_POLL_SECONDS = 0.02
_LOG_TAIL_LINES = 20
_PACKAGE_ROOT = Path(__file__).resolve().parents[2]


class Stoppable:
    """A server that a `with` block stops."""

    def stop(self) -> None:
        """End it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@dataclass(frozen=True, kw_only=True)
class LocalServer(Stoppable):
    """A running server on this machine: `stop` it, or use it in a `with` block.

    However this process ends, the server ends with it.
    """

    process: subprocess.Popen[bytes] = field(repr=False)
    folder: Path = field(repr=False)

    def stop(self) -> None:
        """End the server; its data is gone."""
        if self.process.poll() is None:
            terminate(self.process)
        shutil.rmtree(self.folder, ignore_errors=True)


def spawn(
    module: str, *arguments: str, log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Run a module of the test bed, one that calls `die_with_parent`, in a separate process."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            # The package may not be installed, as in a checkout.
            env={**os.environ, "PYTHONPATH": str(_PACKAGE_ROOT), **(environment or {})},
            # Ctrl-C in a terminal goes to the whole group; the process that started the server decides when it ends.
            start_new_session=True,
        )


def die_with_parent() -> None:
    """End this process at once when its parent closes our standard input, or ends in any way.

    `PR_SET_PDEATHSIG` would follow the *thread* that spawned us, and end a node restarted from a short-lived one.
    """

    def wait_for_end_of_input() -> None:
        os.read(0, 1)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait_for_end_of_input, daemon=True).start()


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a spawned process as a power cut would, and wait until it is gone."""
    process.kill()
    _await_end(process)


def terminate(process: subprocess.Popen[bytes]) -> None:
    """Shut down a spawned process in an orderly way, and wait until it is gone."""
    process.terminate()
    _await_end(process)


def _await_end(process: subprocess.Popen[bytes]) -> None:
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


def wait_until(
    ready: Callable[[], bool], *, process: subprocess.Popen[bytes], name: str, logs: list[Path], timeout_seconds: float
) -> None:
    """Wait until a spawned server answers."""
    deadline = time.monotonic() + timeout_seconds
    while process.poll() is None and time.monotonic() < deadline:
        if ready():
            return
        time.sleep(_POLL_SECONDS)
    ended = process.poll()
    state = f"does not answer after {timeout_seconds:.0f} s" if ended is None else f"ended with exit code {ended}"
    raise RuntimeError(f"{name} {state}.\n" + "\n".join(_tail(log) for log in logs if log.exists()))


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
    return "\n".join([f"--- end of {log}", *lines])
