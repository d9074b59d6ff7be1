"""A program that is not Python's, as a process that never outlives the one that started it.

A small Python process stands between: it notices when its parent ends, and ends the program.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow_provider_chs3.testbed.processes import die_with_parent, spawn

_PR_SET_PDEATHSIG = 1
#: Whose rights a program gets that refuses to run as root.
_UNPRIVILEGED = "nobody"


def spawn_program(
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    stop_signal: signal.Signals = signal.SIGKILL,
    is_unprivileged: bool = False,
) -> subprocess.Popen[bytes]:
    """Run a program that ends with this process."""
    who = _UNPRIVILEGED if is_unprivileged and os.getuid() == 0 else ""
    return spawn(__name__, str(int(stop_signal)), who, *command, log=log, environment=environment)


def hand_over(folder: Path) -> dict[str, Any]:
    """Give a folder, and the files in it, to the user as whom root runs programs that refuse root.

    Returns:
        Arguments of `subprocess.run` for programs that prepare the folder; empty if this process is not root's.
    """
    if os.getuid() != 0:
        return {}
    login = _login(_UNPRIVILEGED)
    for path in (folder, *folder.iterdir()):
        os.chown(path, login["user"], login["group"])
    return login


def _login(name: str) -> dict[str, Any]:
    if not name:
        return {}
    user = pwd.getpwnam(name)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _run(stop_signal: int, user_name: str, command: Sequence[str]) -> int:
    def die_with_this_process() -> None:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, stop_signal)

    # The signal follows the thread that starts the program: here, the main thread, which waits for it.
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=die_with_this_process, **_login(user_name))
    signal.signal(signal.SIGTERM, lambda *_: program.send_signal(stop_signal))
    return program.wait()


if __name__ == "__main__":
    die_with_parent()
    sys.exit(_run(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
