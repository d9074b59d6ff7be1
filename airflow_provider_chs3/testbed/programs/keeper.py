"""Debian's ZooKeeper as an operating-system process: the Keeper of a local replicated cluster.

The server of the test bed is built without one.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from airflow_provider_chs3.testbed.processes import HOST, Stoppable, is_listening, terminate, wait_until
from airflow_provider_chs3.testbed.programs.foreign import spawn_program

_JAR = Path("/usr/share/java/zookeeper.jar")
_START_TIMEOUT_SECONDS = 180.0


def missing() -> str:
    """Return the reason why it cannot run here; empty if it can."""
    if _JAR.exists() and shutil.which("java"):
        return ""
    return "replication needs ZooKeeper: apt-get install zookeeper"


class Keeper(Stoppable):
    """A running ZooKeeper: `stop` it, or use it in a `with` block."""

    def __init__(self, folder: Path, port: int) -> None:
        """Start it and wait until it answers.

        Raises:
            RuntimeError: If it is not installed, or does not start.
        """
        if problem := missing():
            raise RuntimeError(problem)
        self.port = port
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "zoo.cfg").write_text(
            f"tickTime=500\ndataDir={folder}\nclientPort={port}\nclientPortAddress={HOST}\nadmin.enableServer=false\n",
            encoding="utf-8",
        )
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it again, with the same data and port.

        Raises:
            RuntimeError: If it does not start.
        """
        log = self._folder / "log"
        command = ["java", "-Xmx256m", "-cp", "/etc/zookeeper/conf:/usr/share/java/*"]
        command += ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self._folder / "zoo.cfg")]
        self._process = spawn_program(command, log=log)
        wait_until(
            lambda: is_listening(self.port),
            process=self._process,
            name="ZooKeeper",
            logs=[log],
            timeout_seconds=_START_TIMEOUT_SECONDS,
        )

    def stop(self) -> None:
        """End it as a power cut would (SIGKILL)."""
        if self._process:
            terminate(self._process)
            self._process = None
