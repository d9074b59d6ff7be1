"""A terminal to which a command writes, as a person sees it."""

from __future__ import annotations

import os
import pty
import re
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_PIECE = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


class Terminal:
    """A terminal of 100 columns.

    Attributes:
        lines: The lines that are on it.
        seen: All lines that were on it at any time.
    """

    def __init__(self) -> None:
        self.lines = [""]
        self.seen: list[str] = []
        self._row = self._column = 0

    def write(self, text: str) -> None:
        for numbers, command, control, plain in _PIECE.findall(text):
            if plain:
                line = self.lines[self._row].ljust(self._column)
                self.lines[self._row] = line[: self._column] + plain + line[self._column + len(plain) :]
                self._column += len(plain)
            elif control:
                self._column = 0
                if control == "\n":
                    self.seen.append(self.lines[self._row].rstrip())
                    self._row += 1
                    self.lines += [""] * (self._row == len(self.lines))
            elif command == "K":
                self.seen.append(self.lines[self._row].rstrip())
                self.lines[self._row] = ""
            elif command == "A":
                self._row -= int(numbers or 1)
        assert self._row >= 0

    @property
    def text(self) -> str:
        """What is on it."""
        return "\n".join(line.rstrip() for line in self.lines).rstrip()


@contextmanager
def on_terminal(monkeypatch: pytest.MonkeyPatch, *names: str) -> Iterator[Terminal]:
    """Make standard streams, such as `stderr`, a terminal; what was written is read once that is over."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal, written = Terminal(), list[bytes]()
    reader, writer = pty.openpty()
    termios.tcsetwinsize(writer, (40, 100))

    def read() -> None:
        try:
            while piece := os.read(reader, 65536):
                written.append(piece)
        except OSError:
            # Linux says so that nobody writes any more.
            return

    thread = threading.Thread(target=read)
    with monkeypatch.context() as patch, os.fdopen(writer, "w", encoding="utf-8") as stream:
        thread.start()
        for name in names:
            patch.setattr(sys, name, stream)
        yield terminal
    thread.join()
    os.close(reader)
    terminal.write(b"".join(written).decode())
