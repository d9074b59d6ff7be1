"""A database server that is killed and started again on its data."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from airflow_provider_chs3.testbed.programs.foreign import spawn_program
from tests.sources.servers.local import DatabaseServer

#: What `spawn_program` puts before a program: Python, its module, the signal that ends the program, and its user.
_BEFORE_PROGRAM = 5


@dataclass
class Restarts:
    """Restarts of a server of PostgreSQL or MariaDB."""

    server: DatabaseServer
    process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def struck(self) -> Iterator[None]:
        """Kill the server, and start it again without waiting for it."""
        pid_file = next(path for name in ("pid", "data/postmaster.pid") if (path := self.server.folder / name).exists())
        pid = int(pid_file.read_text(encoding="utf-8").split()[0])
        # PostgreSQL's own processes outlive a SIGKILL of the first one; this ends them as abruptly.
        os.kill(pid, signal.SIGQUIT if pid_file.name == "postmaster.pid" else signal.SIGKILL)
        while os.path.exists(f"/proc/{pid}"):
            time.sleep(0.01)
        # The file of users is read once.
        command = [each for each in list(self.server.process.args)[_BEFORE_PROGRAM:] if "--init-file" not in each]
        log = self.server.folder / "restarted.log"
        self.process = spawn_program(command, log=log, stop_signal=signal.SIGQUIT, is_unprivileged=True)
        yield
