"""Programs that are fetched once on a machine, in versions that are pinned; tests skip where one is missing."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

#: Where programs are kept; `~/.cache/airflow-provider-chs3` by default.
_FOLDER_VARIABLE = "CHS3_SERVER_FOLDER"

Server = TypeVar("Server")


class ProgramMissingError(RuntimeError):
    """A program is not on this machine; the message says how to install it."""


def kept(name: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of a program, made once on this machine."""
    home = Path(os.environ.get(_FOLDER_VARIABLE) or Path.home() / ".cache" / "airflow-provider-chs3")
    folder = home / name
    home.mkdir(parents=True, exist_ok=True)
    # Parallel test runs may want it at the same time.
    with (home / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=home) as scratch:
                made = Path(scratch) / name
                made.mkdir()
                make(made)
                made.rename(folder)
    return folder


@contextmanager
def started_or_skip(start: Callable[[], AbstractContextManager[Server]]) -> Iterator[Server]:
    """Run a server for tests, which skip where its program is missing."""
    import pytest

    with ExitStack() as stack:
        try:
            server = stack.enter_context(start())
        except ProgramMissingError as error:
            pytest.skip(str(error))
        yield server
