"""The traces in the tree: `./dev run python -m tests.trace` writes them again.

The whole statements of the newest run are in `.dev/trace`: to see how a long one changed, compare them with those of
another commit.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.lake import Lake
from tests.trace.loads import Scene
from tests.trace.recording import Trace

EXPECTED = Path(__file__).parent / "expected"
#: Set by the command that writes the traces.
WRITE_VARIABLE = "CHS3_WRITE_TRACES"
_WHOLE = Path(__file__).parents[2] / ".dev" / "trace"


def keep(
    name: str, load: Callable[[Scene], None], lake: Lake, request: pytest.FixtureRequest, *, is_counted: bool = True
) -> None:
    """Run a load, and compare its trace with the one that is kept."""
    names = {lake.database: "lake", lake.bucket: "bucket", request.getfixturevalue("chs3_s3").endpoint_url: "http://s3"}
    trace = Trace(lake.cluster, names, is_counted)
    load(Scene(lake, trace, request))
    trace.add_records(lake.database)
    _compare(name, trace)


def _compare(name: str, trace: Trace) -> None:
    """Compare a trace with the one that is kept, or keep it."""
    path = EXPECTED / f"{name}.txt"
    _WHOLE.mkdir(parents=True, exist_ok=True)
    (_WHOLE / path.name).write_text("".join(f"#{digest} {text}\n" for digest, text in trace.whole.items()), "utf-8")
    if os.environ.get(WRITE_VARIABLE):
        path.write_text("\n".join(trace.lines) + "\n", "utf-8")
    changes = difflib.unified_diff(
        path.read_text("utf-8").splitlines(), trace.lines, "expected", "found", "", "", 1, ""
    )
    if found := "\n".join(changes):
        # The diff of pytest would take seconds.
        pytest.fail(
            f"{found}\nIf that is meant: `./dev run python -m tests.trace`. Whole statements: {_WHOLE / path.name}",
            pytrace=False,
        )
