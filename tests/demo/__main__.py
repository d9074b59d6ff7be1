"""`python -m tests.demo cluster` or `demo`."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from types import FrameType

# Each has a `main(arguments) -> exit code`.
_COMMANDS = {
    "cluster": "tests.demo.serve",
    "demo": "tests.demo.run",
}


def main() -> int:
    """Run the command that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.demo", description=__doc__)
    parser.add_argument("command", choices=sorted(_COMMANDS))
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the command; try --help")
    given = parser.parse_args()
    # SIGTERM ends `with` blocks as Ctrl-C does, so that folders are removed.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return int(importlib.import_module(_COMMANDS[given.command]).main(given.arguments))
    except KeyboardInterrupt:
        return 130


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
