"""Write the traces of loads: `./dev run python -m tests.trace`, with arguments of pytest."""

from __future__ import annotations

import os
import sys

import pytest

from tests.trace.kept import WRITE_VARIABLE

if __name__ == "__main__":
    os.environ[WRITE_VARIABLE] = "1"
    places = ["tests/trace", "tests/servers/test_replicated_trace.py"]
    sys.exit(pytest.main([*places, "-p", "no:cacheprovider", *sys.argv[1:]]))
