"""The steps and statements of loads of a replicated table are those that are kept: see tests/trace."""

from __future__ import annotations

import os

import pytest

from tests.support.lake import Lake
from tests.trace.kept import keep
from tests.trace.loads import replicas


def test_loads_of_replicas_take_the_steps_that_are_kept(empty_lake: Lake, request: pytest.FixtureRequest) -> None:
    if any(map(os.environ.get, ("CHS3_DATABASES", "CHS3_AS_ON_CLOUD", "CHS3_DOOR"))):
        pytest.skip("such servers are asked other things")
    keep("replicas", replicas, empty_lake, request, is_counted=False)
