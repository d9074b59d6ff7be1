"""Wait in a test for what servers do on their own."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], *, seconds: float = 120) -> None:
    """Ask until the condition holds; the test fails if it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it did not come to pass within {seconds} s"
        time.sleep(0.1)
